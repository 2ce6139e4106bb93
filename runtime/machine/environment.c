/* A run's environment: command, build, machine, variables. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/machine/environment.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif
#ifndef SL_CC
#define SL_CC __VERSION__
#endif
#ifndef SL_CFLAGS
#define SL_CFLAGS "unknown"
#endif

extern char **environ;

/* Prefixes of the variables that affect a run. Others are left out: the environment may hold secrets. */
static const char *const prefixes[] = {"STARLING_",
                                       "STARPU_",
                                       "OMP_",
                                       "GOMP_",
                                       "KMP_",
                                       "OPENBLAS_",
                                       "GOTO_",
                                       "MKL_NUM_",
                                       "BLIS_",
                                       "HWLOC_",
                                       "CUDA_",
                                       "NVIDIA_",
                                       "NCCL_",
                                       "PMI_RANK",
                                       "PMI_SIZE",
                                       "PMIX_RANK",
                                       "MPIR_",
                                       "MPICH_",
                                       "HYDRA_",
                                       "FI_",
                                       "UCX_",
                                       "OMPI_COMM_WORLD_",
                                       "MALLOC_",
                                       "LD_PRELOAD",
                                       "LD_LIBRARY_PATH",
                                       "SLURM_JOB_ID",
                                       "SLURM_NTASKS",
                                       "SLURM_NNODES",
                                       "SLURM_PROCID",
                                       "SLURM_LOCALID",
                                       "SLURM_CPU",
                                       "SLURM_GPU",
                                       "SLURM_MEM",
                                       "SLURM_JOB_NODELIST",
                                       "SLURM_JOB_PARTITION",
                                       "PBS_JOBID",
                                       "PBS_NP",
                                       "OAR_JOB_ID",
                                       "LSB_JOBID"};

static json_t *text_or_null(const char *text) {
  json_t *value = text ? json_string(text) : NULL; /* also NULL if not UTF-8 */
  return value ? value : json_null();
}

static json_t *variables(void) {
  json_t *object = json_object();
  for (char **entry = environ; entry && *entry; entry++) {
    const char *equals = strchr(*entry, '=');
    for (size_t i = 0; equals && i < sizeof prefixes / sizeof *prefixes; i++) {
      if (strncmp(*entry, prefixes[i], strlen(prefixes[i])) != 0) continue;
      char name[256];
      snprintf(name, sizeof name, "%.*s", (int)(equals - *entry), *entry);
      json_object_set_new(object, name, text_or_null(equals + 1));
      break;
    }
  }
  return object;
}

/* From /proc/cpuinfo: "model name : AMD EPYC ..."; null if it has no such line. */
static json_t *cpu_model(void) {
  char line[512];
  json_t *model = NULL;
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file && !model && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    colon[1 + strcspn(colon + 1, "\n")] = '\0';
    model = json_string(colon + 1 + strspn(colon + 1, " "));
  }
  if (file) fclose(file);
  return model ? model : json_null();
}

/* Number of CPUs that this process may run on. The mask grows until the kernel's mask fits. */
static int usable_cpus(void) {
  for (int n = 1024; n <= 1 << 20; n *= 4) {
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) return 0;
    const int fits = sched_getaffinity(0, CPU_ALLOC_SIZE(n), set) == 0;
    const int count = fits ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 0;
    CPU_FREE(set);
    if (fits) return count;
  }
  return 0;
}

json_t *sl_environment(int argc, const char *const argv[], const char *commit) {
  char date[32], system[sizeof(struct utsname)] = "";
  char *directory = getcwd(NULL, 0);
  const time_t now = time(NULL);
  struct tm utc;
  struct utsname name = {0};
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  if (uname(&name) == 0) snprintf(system, sizeof system, "%s %s %s", name.sysname, name.release, name.machine);
  json_t *command = json_array();
  for (int i = 0; i < argc; i++) json_array_append_new(command, text_or_null(argv[i]));
  json_t *object = json_pack(
      "{s:o, s:o, s:s, s:o, s:{s:s, s:s}, s:s, s:o, s:o, s:{s:o, s:i, s:i}, s:I, s:{s:s, s:s, s:s}, s:o}", "command",
      command, "directory", text_or_null(directory), "version", PACKAGE_VERSION, "commit", text_or_null(commit),
      "compiler", "name", SL_CC, "flags", SL_CFLAGS, "date", date, "host", text_or_null(name.nodename), "system",
      text_or_null(system), "cpu", "model", cpu_model(), "logical", (int)sysconf(_SC_NPROCESSORS_ONLN), "usable",
      usable_cpus(), "memory_bytes", (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE),
      "libraries", "libc", gnu_get_libc_version(), "jansson", jansson_version_str(), "zlib", zlibVersion(), "variables",
      variables());
  free(directory);
  return object;
}
