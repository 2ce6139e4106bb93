/* starling info: describes the machine as Starling sees it, with warnings. Each rank describes itself in JSON; the
 * first rank collects the parts and prints them as JSON or as text. */
#include <config.h>
#include <glob.h>
#include <hwloc.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/machine/comm.h"
#include "runtime/machine/environment.h"
#include "runtime/machine/measure.h"
#include "runtime/machine/policies.h"
#include "tools/commands/commands.h"
#include "tools/machines/show.h"
#include "tools/run/describe.h"
#include "tools/run/machine.h"
#include "tools/run/session.h"
#include "tools/settings/model.h"

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}
static long long integer_of(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}
static double real_of(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

/* ---- facts ------------------------------------------------------------------------------------------------------ */

static int count(hwloc_topology_t t, hwloc_obj_type_t type) {
  const int n = hwloc_get_nbobjs_by_type(t, type);
  return n > 0 ? n : 0;
}

static json_t *topology_part(sl_runtime *rt) {
  hwloc_topology_t t = sl_runtime_topology(rt);
  const sl_share *share = sl_runtime_share(rt);
  const hwloc_obj_t package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
  const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  json_t *domains = json_array();
  for (int i = 0; i < count(t, HWLOC_OBJ_NUMANODE); i++) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, (unsigned)i);
    char cpus[1024];
    hwloc_bitmap_list_snprintf(cpus, sizeof cpus, node->cpuset);
    json_array_append_new(domains, json_pack("{s:i, s:s, s:I}", "numa", (int)node->os_index, "cpus", cpus,
                                             "memory_bytes", (json_int_t)node->attr->numanode.local_memory));
  }
  return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "cpu", model ? model : "unknown", "packages",
                   count(t, HWLOC_OBJ_PACKAGE), "cores", count(t, HWLOC_OBJ_CORE), "hardware_threads",
                   count(t, HWLOC_OBJ_PU), "cores_usable", share->node_cores, "cores_of_rank", share->cores,
                   "cpu_quota", sl_runtime_quota(rt), "domains", domains);
}

static json_t *numbers(hwloc_const_bitmap_t set) {
  char text[4096];
  hwloc_bitmap_list_snprintf(text, sizeof text, set);
  return json_string(text);
}

/* CPUs of this rank's workers and GPU drivers: "0-7,16"; cores by hwloc's numbers, NUMA nodes by the system's. */
static json_t *place_part(sl_runtime *rt) {
  const sl_share *share = sl_runtime_share(rt);
  hwloc_bitmap_t cores = hwloc_bitmap_alloc(), domains = hwloc_bitmap_alloc();
  json_t *part = NULL;
  if (!cores || !domains) goto out;
  for (int i = 0; i < share->nworkers; i++) {
    const sl_place *p = &share->worker[i];
    for (int t = 0; t < p->threads; t++) hwloc_bitmap_set(cores, p->core[t]);
    for (int d = 0; d < p->domains; d++) hwloc_bitmap_set(domains, p->domain[d]);
  }
  for (int i = 0; i < share->ndrivers; i++) {
    const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(sl_runtime_topology(rt), share->driver_pu[i]);
    const hwloc_obj_t core = pu ? hwloc_get_ancestor_obj_by_type(sl_runtime_topology(rt), HWLOC_OBJ_CORE, pu) : NULL;
    if (core) hwloc_bitmap_set(cores, core->logical_index);
  }
  part = json_pack("{s:o, s:o}", "cores", numbers(cores), "numa", numbers(domains));
out:
  hwloc_bitmap_free(cores), hwloc_bitmap_free(domains);
  return part;
}

static json_t *workers_part(sl_runtime *rt) {
  json_t *array = json_array();
  for (int w = 0; w < sl_runtime_workers(rt); w++) {
    char text[1024];
    const sl_team *team = sl_runtime_team(rt, w);
    json_array_append_new(
        array, json_pack("{s:i, s:s, s:i, s:b}", "worker", w, "place", sl_runtime_worker_text(rt, w, text, sizeof text),
                         "threads", team ? team->threads : 1, "bound", team ? team->bound : 1));
  }
  return array;
}

/* A value of /proc/meminfo, in bytes; -1 if missing. */
static long long meminfo(const char *key) {
  char line[256];
  long long kilobytes = -1;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':') kilobytes = atoll(line + strlen(key) + 1);
  if (file) fclose(file);
  return kilobytes < 0 ? -1 : kilobytes * 1024;
}

/* The chosen word of a sysfs file such as "always [madvise] never"; "" if it cannot be read. */
static void chosen(const char *path, char *word, size_t n) {
  char line[256] = "";
  FILE *file = fopen(path, "re");
  if (file && !fgets(line, sizeof line, file)) line[0] = 0;
  if (file) fclose(file);
  const char *open = strchr(line, '['), *close = open ? strchr(open, ']') : NULL;
  snprintf(word, n, "%.*s", close ? (int)(close - open - 1) : 0, close ? open + 1 : "");
}

static json_t *memory_part(void) {
  struct statvfs shm;
  char pages[32];
  chosen("/sys/kernel/mm/transparent_hugepage/enabled", pages, sizeof pages);
  const int fine = statvfs("/dev/shm", &shm) == 0;
  return json_pack("{s:I, s:I, s:s, s:I}", "total_bytes", (json_int_t)meminfo("MemTotal"), "available_bytes",
                   (json_int_t)meminfo("MemAvailable"), "huge_pages", pages[0] ? pages : "unknown", "shared_bytes",
                   fine ? (json_int_t)(shm.f_bavail * shm.f_frsize) : (json_int_t)-1);
}

static json_t *software_part(const sl__options *o, sl_runtime *rt) {
  char policies[2048];
  const unsigned hwloc = hwloc_get_api_version();
  char version[32];
  snprintf(version, sizeof version, "%u.%u.%u", hwloc >> 16, hwloc >> 8 & 255, hwloc & 255);
  return json_pack("{s:s, s:s, s:{s:s, s:i, s:i, s:b, s:s, s:s, s:s}, s:s, s:b, s:s, s:s, s:s, s:s}", "starling",
                   PACKAGE_VERSION, "commit", sl__commit(), "starpu", "version", sl_runtime_starpu(), "max_cpu_workers",
                   sl_runtime_starpu_max_cpus(), "max_buffers", sl_runtime_starpu_max_buffers(), "cuda",
                   sl_runtime_starpu_has_cuda(), "sched", sl_runtime_sched(rt), "policies",
                   sl_policies_names(o->sched_lib, policies, sizeof policies) == SL_OK ? policies : "", "models_of",
                   sl_runtime_model_host(rt), "mpi", sl_runtime_mpi(), "mpi_takes_gpu_memory",
                   sl_runtime_mpi_takes_gpu_memory(), "hwloc", version, "openblas", sl_runtime_blas(), "kernels",
                   sl_isa_name(sl_runtime_isa(rt)), "best_kernels", sl_isa_name(sl_isa_best()));
}

/* The driver's names of all GPUs of the machine, whether or not this process may use them. */
static json_t *gpu_names(void) {
  json_t *names = json_array();
  glob_t found = {0};
  if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; i++) {
      char line[256], name[200];
      FILE *file = fopen(found.gl_pathv[i], "re");
      while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Model: %199[^\n]", name) == 1) json_array_append_new(names, json_string(name));
      if (file) fclose(file);
    }
  globfree(&found);
  return names;
}

/* The GPUs that this rank drives. */
static json_t *gpus_part(const sl_runtime *rt) {
  json_t *array = json_array();
  for (int i = 0; i < sl_runtime_gpus(rt); i++) {
    sl_gpu g;
    sl_runtime_gpu(rt, i, &g);
    json_array_append_new(
        array, json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "name", g.name, "address",
                         g.address, "memory_bytes", (json_int_t)g.memory, "multiprocessors", g.multiprocessors, "major",
                         g.major, "minor", g.minor, "driver", g.driver, "numa", g.numa, "to_gpu_bytes_per_s", g.to_gpu,
                         "from_gpu_bytes_per_s", g.from_gpu, "peer_bytes_per_s", g.peer));
  }
  return array;
}

/* ---- warnings --------------------------------------------------------------------------------------------------- */

static void warn(json_t *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void warn(json_t *list, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  json_array_append_new(list, json_string(text));
}

static void warn_of_software(json_t *list, sl_runtime *rt) {
  const char *blas = sl_runtime_blas();
  static const char *const slow[] = {"Prescott", "Core2", "Generic", "GENERIC", "Nehalem", "Atom"};
  for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
    if (strcmp(blas, slow[i]) == 0 && sl_isa_best() > SL_ISA_BASELINE)
      warn(list,
           "OpenBLAS took its %s kernels on a CPU that has %s: unset OPENBLAS_CORETYPE, or install a newer OpenBLAS",
           blas, sl_isa_name(sl_isa_best()));
  if (sl_runtime_isa(rt) != sl_isa_best())
    warn(list, "--kernels %s: this CPU runs %s, which is faster", sl_isa_name(sl_runtime_isa(rt)),
         sl_isa_name(sl_isa_best()));
  if (access("/dev/nvidia0", F_OK) == 0 && !sl_runtime_starpu_has_cuda())
    warn(list,
         "this machine has a GPU, but this build cannot use it: run tools/build-starpu --cuda, then ./quickstart (or "
         "./configure --with-starpu=DIR)");
  const char *bind = getenv("OMP_PROC_BIND");
  if (bind && strcmp(bind, "false") != 0)
    warn(list, "OMP_PROC_BIND=%s binds threads before Starling pins them: unset it", bind);
  static const char *const variables[] = {"STARPU_WORKERS_CPUID", "STARPU_WORKERS_COREID", "STARPU_WORKERS_NOBIND",
                                          "STARPU_WORKERS_CUDAID"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    if (getenv(variables[i]))
      warn(list, "%s is set but ignored: use taskset, --workers, --threads-per-worker or CUDA_VISIBLE_DEVICES",
           variables[i]);
  for (int w = 0; w < sl_runtime_workers(rt); w++) {
    const sl_team *team = sl_runtime_team(rt, w);
    if (team && !team->bound) warn(list, "worker %d could not be bound to its cores: times will vary", w);
  }
}

static void warn_of_machine(json_t *list, sl_runtime *rt, const json_t *memory) {
  const long long available = json_integer_value(json_object_get(memory, "available_bytes"));
  const long long shared = json_integer_value(json_object_get(memory, "shared_bytes"));
  const char *pages = json_string_value(json_object_get(memory, "huge_pages"));
  double load = 0;
  if (pages && strcmp(pages, "never") == 0)
    warn(list,
         "transparent huge pages are off: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled saves page table "
         "walks");
  if (available >= 0 && available < 1LL << 30)
    warn(list, "only %.1f GB of memory are available", 1e-9 * (double)available);
  if (shared >= 0 && shared < 1LL << 28 && sl_runtime_local_ranks(rt) > 1)
    warn(list, "/dev/shm has %.0f MB free: ranks of a node exchange through it (in a container: --shm-size)",
         1e-6 * (double)shared);
  if (getloadavg(&load, 1) == 1 && load > 0.5 * sl_runtime_share(rt)->node_cores + 0.5 * sl_runtime_cpu_workers(rt))
    warn(list, "the load is %.1f on %d cores: other programs use them, while StarPU's workers spin even when idle",
         load, sl_runtime_share(rt)->node_cores);
  char governor[32] = "";
  FILE *file = fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "re");
  if (file && fscanf(file, "%31s", governor) == 1 && strcmp(governor, "powersave") == 0)
    warn(list, "the CPU frequency governor is powersave: where the driver is not intel_pstate, that halves the clock");
  if (file) fclose(file);
}

static json_t *warnings_part(sl_runtime *rt, const json_t *memory) {
  json_t *list = json_array();
  char text[2048];
  if (*sl_share_warning(sl_runtime_share(rt), text, sizeof text)) warn(list, "%s", text);
  warn_of_software(list, rt);
  warn_of_machine(list, rt, memory);
  return list;
}

/* ---- this rank's part ------------------------------------------------------------------------------------------- */

/* Measures the speeds of all workers together, and saves them. *kept: the speeds of one worker that are saved now. */
static sl_status measure(const sl__options *o, sl_runtime *rt, double *gflops, double *bf16, double *gigabytes,
                         sl__machine *kept) {
  const int workers = sl_runtime_cpu_workers(rt);
  *gflops = *bf16 = *gigabytes = 0;
  if (!o->no_measure) {
    SL_TRY(sl_measure_sgemm(rt, 2, gflops));
    SL_TRY(sl_measure_bf16(rt, 0.5, bf16));
    SL_TRY(sl_measure_triad(rt, 1, 0, gigabytes));
    if (workers > 0)
      sl__machine_keep(
          rt, &(sl__machine){.gflops = *gflops / workers, .gigabytes = *gigabytes / workers, .bf16 = *bf16 / workers});
  }
  *kept = sl__machine_read(rt);
  return SL_OK;
}

static sl_status see(const sl__options *o, sl_runtime *rt, json_t **part) {
  double gflops, bf16, gigabytes;
  sl__machine kept;
  SL_TRY(measure(o, rt, &gflops, &bf16, &gigabytes, &kept));
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  json_t *memory = memory_part();
  json_t *warnings = warnings_part(rt, memory);
  *part = json_pack("{s:i, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:o}", "rank", sl_runtime_rank(rt),
                    "ranks", sl_runtime_ranks(rt), "local_rank", sl_runtime_local_rank(rt), "nodes",
                    sl_runtime_nodes(rt), "host", host, "topology", topology_part(rt), "place", place_part(rt),
                    "workers", workers_part(rt), "threads_per_worker", sl_runtime_share(rt)->threads_per_worker, "gpus",
                    sl_runtime_gpus(rt), "memory", memory, "software", software_part(o, rt));
  if (!*part) return sl_no_memory("for the description of this machine");
  json_object_set_new(*part, "gpu_names", gpu_names());
  json_object_set_new(*part, "gpu", gpus_part(rt));
  if (!o->no_measure)
    json_object_set_new(
        *part, "measured",
        json_pack("{s:f, s:f, s:f}", "sgemm_gflops", gflops, "bf16_gflops", bf16, "triad_gigabytes_per_s", gigabytes));
  json_object_set_new(*part, "warnings", warnings);
  return SL_OK;
}

/* All parts, on rank 0; NULL on others. Collective. */
static sl_status collect(sl_runtime *rt, const json_t *part, json_t **all) {
  const int ranks = sl_runtime_ranks(rt);
  *all = NULL;
  if (ranks == 1) {
    *all = json_pack("[O]", part);
    return *all ? SL_OK : sl_no_memory("for the description of this machine");
  }
  char *text = sl_json_text(part, JSON_COMPACT), *texts = NULL;
  int mine = text ? (int)strlen(text) + 1 : 0, total = 0;
  int *size = calloc((size_t)ranks, sizeof *size), *at = calloc((size_t)ranks, sizeof *at);
  sl_status status = SL_OK;
  if (!size || !at || MPI_Allgather(&mine, 1, MPI_INT, size, 1, MPI_INT, sl_runtime_comm(rt)) != MPI_SUCCESS) {
    status = sl_fail(SL_EMPI, "the ranks cannot exchange their descriptions");
    goto out;
  }
  for (int r = 0; r < ranks; r++) at[r] = total, total += size[r];
  texts = malloc((size_t)total + 1);
  if (!texts || MPI_Gatherv(text, mine, MPI_CHAR, texts, size, at, MPI_CHAR, 0, sl_runtime_comm(rt)) != MPI_SUCCESS) {
    status = sl_fail(SL_EMPI, "the ranks cannot exchange their descriptions");
    goto out;
  }
  if (sl_runtime_rank(rt) != 0) goto out;
  *all = json_array();
  for (int r = 0; r < ranks; r++) {
    json_t *one;
    if (!size[r]) continue;
    SL_TRY_OUT(sl_json_parse(texts + at[r], strlen(texts + at[r]), 0, &one, NULL));
    json_array_append_new(*all, one);
  }
out:
  free(text), free(texts), free(size), free(at);
  return status;
}

/* Adds a warning to each rank that shares cores with an earlier rank of its host. */
static void warn_of_sharing(json_t *all) {
  hwloc_bitmap_t mine = hwloc_bitmap_alloc(), other = hwloc_bitmap_alloc();
  for (size_t i = 1; mine && other && i < json_array_size(all); i++) {
    json_t *part = json_array_get(all, i);
    hwloc_bitmap_list_sscanf(mine, text_of(json_object_get(part, "place"), "cores"));
    for (size_t j = 0; j < i; j++) {
      const json_t *earlier = json_array_get(all, j);
      char cores[1024];
      if (strcmp(text_of(part, "host"), text_of(earlier, "host")) != 0) continue;
      hwloc_bitmap_list_sscanf(other, text_of(json_object_get(earlier, "place"), "cores"));
      hwloc_bitmap_and(other, other, mine);
      if (hwloc_bitmap_iszero(other)) continue;
      hwloc_bitmap_list_snprintf(cores, sizeof cores, other);
      warn(
          json_object_get(part, "warnings"),
          "rank %lld runs on core %s of %s as rank %lld does, and they slow each other down: start fewer ranks a node, "
          "or have the launcher give each its own cores (docs/how-to/clusters.md)",
          integer_of(part, "rank"), cores, text_of(part, "host"), integer_of(earlier, "rank"));
      break;
    }
  }
  hwloc_bitmap_free(mine), hwloc_bitmap_free(other);
}

/* ---- as text ---------------------------------------------------------------------------------------------------- */

static void print_software(const json_t *s) {
  const json_t *starpu = json_object_get(s, "starpu");
  printf("Starling   %s (%s), %s kernels\n", text_of(s, "starling"), text_of(s, "commit"), text_of(s, "kernels"));
  printf("StarPU     %s: at most %lld CPU workers and %lld buffers a task, CUDA %s; policy %s\n",
         text_of(starpu, "version"), integer_of(starpu, "max_cpu_workers"), integer_of(starpu, "max_buffers"),
         json_is_true(json_object_get(starpu, "cuda")) ? "yes" : "no", text_of(starpu, "sched"));
  printf("           policies: %s\n", text_of(starpu, "policies"));
  printf("           performance models are filed under %s\n", text_of(starpu, "models_of"));
  printf("MPI        %s; takes GPU memory: %s\n", text_of(s, "mpi"),
         json_is_true(json_object_get(s, "mpi_takes_gpu_memory")) ? "yes" : "no");
  printf("OpenBLAS   %s kernels; hwloc %s\n", text_of(s, "openblas"), text_of(s, "hwloc"));
}

static void print_part(const json_t *p) {
  const json_t *t = json_object_get(p, "topology"), *m = json_object_get(p, "memory"),
               *measured = json_object_get(p, "measured"), *one;
  size_t i;
  printf("host       %s: %s, %lld packages, %lld cores, %lld hardware threads, %zu NUMA domains\n", text_of(p, "host"),
         text_of(t, "cpu"), integer_of(t, "packages"), integer_of(t, "cores"), integer_of(t, "hardware_threads"),
         json_array_size(json_object_get(t, "domains")));
  printf("cores      %lld may be used, %lld of them by this rank", integer_of(t, "cores_usable"),
         integer_of(t, "cores_of_rank"));
  if (real_of(t, "cpu_quota") > 0) printf("; the control group grants %.1f", real_of(t, "cpu_quota"));
  printf("\n");
  json_array_foreach(json_object_get(t, "domains"), i, one)
      printf("           NUMA %lld: CPUs %s, %.1f GB\n", integer_of(one, "numa"), text_of(one, "cpus"),
             1e-9 * real_of(one, "memory_bytes"));
  json_array_foreach(json_object_get(p, "workers"), i, one)
      printf("worker %-3lld %s%s\n", integer_of(one, "worker"), text_of(one, "place"),
             json_is_true(json_object_get(one, "bound")) ? "" : " (not bound)");
  printf("GPUs       %lld", integer_of(p, "gpus"));
  json_array_foreach(json_object_get(p, "gpu_names"), i, one)
      printf("%s %s", i ? "," : " driven; the machine has", json_string_value(one));
  printf("\n");
  json_array_foreach(json_object_get(p, "gpu"), i, one) {
    printf("GPU %-6zu %s at %s: %.1f GB, %lld multiprocessors, compute capability %lld.%lld, driver's CUDA %lld.%lld",
           i, text_of(one, "name"), text_of(one, "address"), 1e-9 * real_of(one, "memory_bytes"),
           integer_of(one, "multiprocessors"), integer_of(one, "major"), integer_of(one, "minor"),
           integer_of(one, "driver") / 1000, integer_of(one, "driver") % 1000 / 10);
    if (integer_of(one, "numa") >= 0) printf("; NUMA %lld", integer_of(one, "numa"));
    if (real_of(one, "to_gpu_bytes_per_s") > 0)
      printf("; host to GPU %.1f GB/s, back %.1f", 1e-9 * real_of(one, "to_gpu_bytes_per_s"),
             1e-9 * real_of(one, "from_gpu_bytes_per_s"));
    if (real_of(one, "peer_bytes_per_s") > 0) printf("; to other GPUs %.1f", 1e-9 * real_of(one, "peer_bytes_per_s"));
    printf("\n");
  }
  printf("memory     %.1f GB, %.1f available; huge pages: %s; /dev/shm: %.1f GB free\n",
         1e-9 * real_of(m, "total_bytes"), 1e-9 * real_of(m, "available_bytes"), text_of(m, "huge_pages"),
         1e-9 * real_of(m, "shared_bytes"));
  if (measured)
    printf("measured   sgemm %.1f GFLOP/s on all workers, memory %.1f GB/s (triad)\n",
           real_of(measured, "sgemm_gflops"), real_of(measured, "triad_gigabytes_per_s"));
  if (measured && real_of(measured, "bf16_gflops") > 0)
    printf("bf16       %.1f GFLOP/s by its instructions on registers, on all workers\n",
           real_of(measured, "bf16_gflops"));
  json_array_foreach(json_object_get(p, "warnings"), i, one) printf("warning    %s\n", json_string_value(one));
}

/* One line per rank: its host, cores, NUMA nodes, CPU workers and GPUs. */
static void print_ranks(const json_t *all) {
  static const char *const titles[] = {"host", "cores", "NUMA"};
  int width[3];
  const json_t *one, *worker;
  size_t i, w;
  for (int c = 0; c < 3; c++) width[c] = (int)strlen(titles[c]);
  json_array_foreach(all, i, one) {
    const json_t *place = json_object_get(one, "place");
    const int used[] = {(int)strlen(text_of(one, "host")), (int)strlen(text_of(place, "cores")),
                        (int)strlen(text_of(place, "numa"))};
    for (int c = 0; c < 3; c++)
      if (used[c] > width[c]) width[c] = used[c];
  }
  printf("           rank  %-*s  %-*s  %-*s  CPU workers   GPUs\n", width[0], titles[0], width[1], titles[1], width[2],
         titles[2]);
  json_array_foreach(all, i, one) {
    const json_t *place = json_object_get(one, "place"), *workers = json_object_get(one, "workers");
    const long long threads = integer_of(one, "threads_per_worker"), gpus = integer_of(one, "gpus");
    const char *gap = "";
    char text[32];
    snprintf(text, sizeof text, threads > 1 ? "%lld of %lld cores" : "%lld", (long long)json_array_size(workers) - gpus,
             threads);
    printf("           %4lld  %-*s  %-*s  %-*s  %-12s  ", integer_of(one, "rank"), width[0], text_of(one, "host"),
           width[1], text_of(place, "cores"), width[2], text_of(place, "numa"), text);
    json_array_foreach(workers, w, worker) {
      int device;
      if (sscanf(text_of(worker, "place"), "CUDA %d", &device) == 1) printf("%s%d", gap, device), gap = ",";
    }
    printf("%s\n", gpus ? "" : "none");
  }
}

static void print_all(const json_t *all) {
  const json_t *first = json_array_get(all, 0), *one;
  size_t i;
  print_software(json_object_get(first, "software"));
  if (integer_of(first, "ranks") > 1) {
    printf("ranks      %lld on %lld nodes\n", integer_of(first, "ranks"), integer_of(first, "nodes"));
    print_ranks(all);
  }
  json_array_foreach(all, i, one) {
    if (json_array_size(all) > 1)
      printf("\nrank %lld (number %lld of its node)\n", integer_of(one, "rank"), integer_of(one, "local_rank"));
    print_part(one);
  }
}

static sl_status list_models(const sl__options *o) {
  json_t *json = o->json ? sl__models_to_json() : NULL;
  if (o->json && !json) return sl_no_memory("for the list of models");
  if (!json) return sl__print_models(stdout), SL_OK;
  const sl_status status = sl_json_print(stdout, json, 9);
  json_decref(json);
  return status;
}

/* Prints the description of this machine. All ranks measure, since cores are slower while others work. */
static sl_status describe(const sl__options *o, sl_runtime *rt) {
  sl__machine_description m;
  sl__machine kept;
  double gflops, bf16, gigabytes;
  char *text;
  int gpus;
  const int64_t process = sl__resident_memory(); /* the measurements' own memory does not count */
  SL_TRY(sl_comm_agree(sl_runtime_comm(rt), measure(o, rt, &gflops, &bf16, &gigabytes, &kept)));
  SL_TRY(sl__describe_this(rt, &kept, &m, &gpus));
  if (sl_runtime_rank(rt) != 0) return SL_OK;
  m.cpu.process = 1e6 * round(1e-6 * (double)process); /* it varies by some 0.1 MB */
  if (gpus > m.gpu.count)
    sl_log(SL_LOG_WARNING,
           "the GPUs are left out: their speed is not known until 'starling calibrate MODEL' measures it");
  SL_TRY(sl__machine_to_yaml(&m, &text));
  fputs(text, stdout);
  free(text);
  return SL_OK;
}

sl_status sl__info(sl__options *o, int *exit_code) {
  if (o->models) return list_models(o);
  if (o->machines) return o->json ? sl__machines_print_json(stdout) : sl__machines_print(stdout);
  if (o->shown && o->json) return sl_fail(SL_EINVAL, "--machine prints a description in YAML: leave --json out");
  if (o->shown && strcmp(o->shown, SL__THIS) != 0) return sl__machine_show(o->shown, stdout);
  sl_runtime *runtime = NULL;
  json_t *part = NULL, *all = NULL;
  sl_status status = SL_OK;
  (void)exit_code;
  o->quiet = 1; /* warnings at start-up are in the list of warnings */
  SL_TRY_OUT(sl__start(o, "info", 1, &runtime));
  if (o->shown) SL_TRY_OUT(sl_comm_agree(sl_runtime_comm(runtime), describe(o, runtime)));
  if (o->shown) goto out;
  SL_TRY_OUT(sl_comm_agree(sl_runtime_comm(runtime), see(o, runtime, &part)));
  SL_TRY_OUT(collect(runtime, part, &all));
  if (all) warn_of_sharing(all);
  if (all && o->json)
    status = sl_json_print(stdout, all, 9);
  else if (all)
    print_all(all);
out:
  json_decref(part), json_decref(all);
  sl_runtime_stop(runtime);
  return status;
}
