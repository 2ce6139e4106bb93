/* Starts the machine as the options say, and describes the process. */
#include "tools/run/session.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commit.h"
#include "runtime/base/log.h"
#include "runtime/machine/store.h"
#include "tools/settings/exit_codes.h"
#include "tools/settings/workers.h"
#include "tools/watch/watch.h"

const char *sl__commit(void) { return SL_COMMIT; }

int sl__exit_code(sl_status status) {
  return status == SL_OK              ? SL__EXIT_DONE
         : status == SL_EINVAL        ? SL__EXIT_USAGE
         : status == SL_EUNCALIBRATED ? SL__EXIT_UNCALIBRATED
         : status == SL_ESPIKE        ? SL__EXIT_SPIKE
         : status == SL_EMEMORY       ? SL__EXIT_MEMORY
         : status == SL_EWRITE        ? SL__EXIT_UNWRITTEN
         : status == SL_EINTERRUPTED  ? SL__EXIT_INTERRUPTED
                                      : SL__EXIT_FAILURE;
}

/* Whether GPUs compute alone because no option says otherwise. With CPU workers beside them, a policy that does not
 * know speeds makes each step wait for the CPUs. A user who names a policy gets both kinds. */
static int prefers_gpus(const sl__options *o, const char *command) {
  const int needs_both =
      strcmp(command, "compare") == 0 || strncmp(command, "calibrate", 9) == 0 || strcmp(command, "info") == 0;
  const int named = o->workers || o->sched || o->sched_lib || o->threads_per_worker > 0;
  return !needs_both && !named && !getenv("STARPU_SCHED") && !getenv("STARPU_SCHED_LIB") && !getenv("STARPU_NCPU");
}

sl_status sl__start(const sl__options *o, const char *what, int ranks, sl_runtime **runtime) {
  sl_runtime_options options = sl_runtime_defaults();
  options.sched = o->sched;
  options.sched_lib = o->sched_lib;
  options.kernels = o->kernels;
  options.calibrate = o->calibrate;
  options.machine = o->machine;
  options.keep_mpi = 1; /* main calls MPI_Finalize */
  /* Six times longer on a busy machine. NaN: a command without the option. */
  options.patience = o->stall_timeout == 0 ? INFINITY : o->stall_timeout / 6;
  sl__workers workers;
  SL_TRY(sl__workers_of(o, &workers));
  options.workers = workers.cpus;
  options.gpus = workers.gpus;
  options.gpus_alone = prefers_gpus(o, what);
  if (o->offload && (strncmp(o->offload, "disk:", 5) != 0 || !o->offload[5]))
    return sl_fail(SL_EINVAL, "--offload %s: write disk:DIR, with a folder on a fast local disk", o->offload);
  SL_TRY(sl_block_offload(o->offload ? o->offload + 5 : NULL));
  options.fast = sl__gpu_kernels(o);
  if (o->gpu_memory > 0) options.gpu_memory = (size_t)(1e6 * o->gpu_memory);
  if (o->threads_per_worker > 0) options.threads_per_worker = (int)o->threads_per_worker;
  SL_TRY(sl__watch_open(sl__launch_rank(), o->stall_timeout, o->disk_timeout, SL__EXIT_LOST));
  SL_TRY(sl_runtime_start(&options, runtime));
  if (ranks || sl_runtime_ranks(*runtime) == 1) return SL_OK;
  const int n = sl_runtime_ranks(*runtime);
  sl_runtime_stop(*runtime);
  *runtime = NULL;
  return sl_fail(SL_EUNSUPPORTED, "%s was started on %d ranks but computes on one: start it without mpiexec", what, n);
}

sl_status sl__environment_complete(json_t *environment, const sl_runtime *runtime) {
  char line[1024];
  json_t *workers = json_array();
  for (int w = 0; w < sl_runtime_workers(runtime); w++)
    json_array_append_new(workers, json_string(sl_runtime_worker_text(runtime, w, line, sizeof line)));
  const unsigned hwloc = hwloc_get_api_version();
  snprintf(line, sizeof line, "%u.%u.%u", hwloc >> 16, hwloc >> 8 & 255, hwloc & 255);
  json_t *libraries = json_pack("{s:s, s:s, s:s, s:s}", "starpu", sl_runtime_starpu(), "mpi", sl_runtime_mpi(), "hwloc",
                                line, "openblas", sl_runtime_blas());
  json_t *machine = json_pack("{s:s, s:s, s:i, s:i, s:o, s:i, s:f}", "sched", sl_runtime_sched(runtime), "kernels",
                              sl_isa_name(sl_runtime_isa(runtime)), "ranks", sl_runtime_ranks(runtime),
                              "threads_per_worker", sl_runtime_share(runtime)->threads_per_worker, "workers", workers,
                              "gpus", sl_runtime_gpus(runtime), "cpu_quota", sl_runtime_quota(runtime));
  const int fine = libraries && json_object_update(json_object_get(environment, "libraries"), libraries) == 0 &&
                   json_object_set_new(environment, "machine", machine) == 0;
  json_decref(libraries);
  return fine ? SL_OK : sl_no_memory("for the environment");
}

static volatile sig_atomic_t signalled;
static void on_signal(int number) {
  (void)number;
  signalled = 1;
}

/* Batch systems warn with this signal, some of them twice. */
void sl__catch_warning(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);
}

void sl__catch_signals(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sl__catch_warning();
}

int sl__signalled(void) { return signalled; }

int sl__launch_rank(void) {
  static const char *const variables[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
                                          "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *text = getenv(variables[i]);
    if (text && *text) return atoi(text);
  }
  return 0;
}

/* Reads a line of /proc/self/status, in bytes. */
static int64_t memory(const char *format) {
  char line[256];
  long long kilobytes = 0;
  FILE *file = fopen("/proc/self/status", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, format, &kilobytes) == 1) break;
  if (file) fclose(file);
  return (int64_t)kilobytes * 1024;
}

int64_t sl__resident_memory(void) { return memory("VmRSS: %lld kB"); }
int64_t sl__peak_memory(void) { return memory("VmHWM: %lld kB"); }

void sl__peak_memory_restart(void) {
  FILE *file = fopen("/proc/self/clear_refs", "we");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}
