/* Energy counters: RAPL's package domains under powercap, NVML's devices. */
#include "runtime/machine/energy.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"

enum { REASON_BYTES = 512, INTERVAL = 10 /* s between readings */ };

/* A package's counter, in microjoules; after `range` it wraps to 0. */
typedef struct package {
  char *path;
  uint64_t last, range;
} package;

/* NVML's types and functions, from its manual: 0 is success; energy is in millijoules since the driver was loaded. */
typedef void *nvml_device;
typedef struct nvml {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  int (*by_address)(const char *, nvml_device *);
  int (*energy)(nvml_device, unsigned long long *);
  const char *(*text)(int);
  int up;
} nvml;

struct sl_energy {
  package *package;
  int n_packages;
  nvml nvml;
  nvml_device *gpu;
  unsigned long long *gpu_last;
  int n_gpus;
  double joules[SL_ENERGY_PARTS];
  char reason[SL_ENERGY_PARTS][REASON_BYTES]; /* why a part is not known; empty: it is known */
  int64_t read;                               /* time of the last reading, ns */
};

/* ---- RAPL ------------------------------------------------------------------------------------------------------- */

static int read_number(const char *path, uint64_t *value) {
  unsigned long long x;
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  errno = 0;
  const int fine = fscanf(file, "%llu", &x) == 1;
  if (!fine && errno == 0) errno = EINVAL;
  const int code = errno;
  fclose(file);
  errno = code;
  if (fine) *value = x;
  return fine;
}

/* Whether a domain is a package; psys, dram and others are not. */
static int is_package(const char *folder, const char *domain) {
  char path[4096], name[16] = "";
  snprintf(path, sizeof path, "%s/%s/name", folder, domain);
  FILE *file = fopen(path, "re");
  const int fine = file && fgets(name, sizeof name, file) && strncmp(name, "package", 7) == 0;
  if (file) fclose(file);
  return fine;
}

static sl_status add_package(sl_energy *e, const char *folder, const char *domain) {
  char path[4096];
  package *more = realloc(e->package, ((size_t)e->n_packages + 1) * sizeof *more);
  if (!more) return sl_no_memory("for energy counters");
  e->package = more;
  package *p = &e->package[e->n_packages];
  *p = (package){0};
  snprintf(path, sizeof path, "%s/%s/max_energy_range_uj", folder, domain);
  if (!read_number(path, &p->range)) p->range = 0;
  snprintf(path, sizeof path, "%s/%s/energy_uj", folder, domain);
  p->path = strdup(path);
  if (!p->path) return sl_no_memory("for energy counters");
  e->n_packages++;
  return SL_OK;
}

static sl_status find_packages(sl_energy *e, const char *folder) {
  int entries = 0;
  sl_status status = SL_OK;
  char *why = e->reason[SL_ENERGY_PACKAGES];
  DIR *dir = opendir(folder);
  if (!dir) {
    snprintf(why, REASON_BYTES, "no RAPL: %s: %s", folder, strerror(errno));
    return SL_OK;
  }
  for (struct dirent *d; status == SL_OK && (d = readdir(dir));) {
    if (d->d_name[0] == '.') continue;
    entries++;
    const char *number = strncmp(d->d_name, "intel-rapl:", 11) == 0 ? d->d_name + 11 : NULL; /* AMD's too */
    if (number && !strchr(number, ':') && is_package(folder, d->d_name)) status = add_package(e, folder, d->d_name);
  }
  closedir(dir);
  if (e->n_packages == 0)
    snprintf(why, REASON_BYTES, entries ? "no RAPL: %s has no package" : "no RAPL: %s is empty", folder);
  return status;
}

static void read_packages(sl_energy *e, int add) {
  char *why = e->reason[SL_ENERGY_PACKAGES];
  for (int i = 0; i < e->n_packages && !*why; i++) {
    package *p = &e->package[i];
    uint64_t now;
    if (!read_number(p->path, &now)) {
      snprintf(why, REASON_BYTES, "RAPL is not readable: %s: %s%s", p->path, strerror(errno),
               errno == EACCES ? " (root may allow it: chmod a+r)" : "");
      return;
    }
    if (add && now < p->last && p->range <= p->last - now) {
      snprintf(why, REASON_BYTES, "RAPL's counter %s fell without wrapping", p->path);
      return;
    }
    if (add)
      e->joules[SL_ENERGY_PACKAGES] += 1e-6 * (double)(now >= p->last ? now - p->last : now + p->range - p->last);
    p->last = now;
  }
}

/* ---- NVML ------------------------------------------------------------------------------------------------------- */

static int load(nvml *n, const char *library, char *why) {
  n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!n->library) {
    snprintf(why, REASON_BYTES, "no NVML: %s", dlerror());
    return 0;
  }
  const struct {
    const char *name;
    void **function;
  } wanted[] = {{"nvmlInit_v2", (void **)&n->init},
                {"nvmlShutdown", (void **)&n->shutdown},
                {"nvmlDeviceGetHandleByPciBusId_v2", (void **)&n->by_address},
                {"nvmlDeviceGetTotalEnergyConsumption", (void **)&n->energy},
                {"nvmlErrorString", (void **)&n->text}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!(*wanted[i].function = dlsym(n->library, wanted[i].name))) {
      snprintf(why, REASON_BYTES, "no NVML: %s has no %s", library, wanted[i].name);
      return 0;
    }
  const int code = n->init();
  n->up = code == 0;
  if (!n->up) snprintf(why, REASON_BYTES, "no NVML: it does not start: %s", n->text(code));
  return n->up;
}

static sl_status find_gpus(sl_energy *e, const sl_energy_options *o) {
  char *why = e->reason[SL_ENERGY_GPUS];
  e->gpu = calloc((size_t)o->n_gpus + 1, sizeof *e->gpu);
  e->gpu_last = calloc((size_t)o->n_gpus + 1, sizeof *e->gpu_last);
  if (!e->gpu || !e->gpu_last) return sl_no_memory("for energy counters");
  if (o->n_gpus == 0 || !load(&e->nvml, o->nvml ? o->nvml : "libnvidia-ml.so.1", why)) return SL_OK;
  for (; e->n_gpus < o->n_gpus; e->n_gpus++) {
    const int code = e->nvml.by_address(o->gpus[e->n_gpus], &e->gpu[e->n_gpus]);
    if (code == 0) continue;
    snprintf(why, REASON_BYTES, "NVML does not know GPU %s: %s", o->gpus[e->n_gpus], e->nvml.text(code));
    break;
  }
  return SL_OK;
}

static void read_gpus(sl_energy *e, int add) {
  char *why = e->reason[SL_ENERGY_GPUS];
  for (int i = 0; i < e->n_gpus && !*why; i++) {
    unsigned long long now;
    const int code = e->nvml.energy(e->gpu[i], &now);
    if (code != 0) {
      snprintf(why, REASON_BYTES, "NVML reports no energy of GPU %d: %s", i, e->nvml.text(code));
      return;
    }
    if (add) e->joules[SL_ENERGY_GPUS] += 1e-3 * (double)(now - e->gpu_last[i]);
    e->gpu_last[i] = now;
  }
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

sl_status sl_energy_open(const sl_energy_options *options, sl_energy **energy) {
  *energy = NULL;
  sl_energy *e = calloc(1, sizeof *e);
  if (!e) return sl_no_memory("for energy counters");
  sl_status status = find_packages(e, options->powercap ? options->powercap : "/sys/class/powercap");
  if (status == SL_OK) status = find_gpus(e, options);
  if (status == SL_OK)
    *energy = e;
  else
    sl_energy_close(e);
  return status;
}

void sl_energy_close(sl_energy *e) {
  if (!e) return;
  for (int i = 0; i < e->n_packages; i++) free(e->package[i].path);
  if (e->nvml.up) e->nvml.shutdown();
  if (e->nvml.library) dlclose(e->nvml.library);
  free(e->package), free(e->gpu), free(e->gpu_last), free(e);
}

static void read_all(sl_energy *e, int add) {
  read_packages(e, add);
  read_gpus(e, add);
  e->read = sl_now();
}

void sl_energy_start(sl_energy *e) {
  memset(e->joules, 0, sizeof e->joules);
  read_all(e, 0);
}

void sl_energy_watch(sl_energy *e) {
  if (sl_now() - e->read > INTERVAL * (int64_t)1000000000) read_all(e, 1);
}

void sl_energy_stop(sl_energy *e) { read_all(e, 1); }

double sl_energy_joules(const sl_energy *e, sl_energy_part part, const char **reason) {
  *reason = *e->reason[part] ? e->reason[part] : NULL;
  return *reason ? NAN : e->joules[part];
}
