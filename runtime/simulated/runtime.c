/* The runtime of a simulation: StarPU's workers are those of the simulated machine, and time is SimGrid's. There is no
 * MPI: the process stands for rank 0, and the exchange's times follow from the number of ranks. */
#include "runtime/machine/runtime.h"

#include <config.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/machine/comm.h"
#include "runtime/machine/policies.h"
#include "runtime/machine/transfers.h"
#include "runtime/simulated/simulation.h"

enum { NAME_BYTES = 64 };

struct sl_runtime {
  sl_runtime_options options;
  sl_simulation simulation;
  char sched[NAME_BYTES], machine[NAME_BYTES];
  sl_share share;
  sl_team team; /* of every CPU worker */
  unsigned order[STARPU_NMAXWORKERS];
};

static sl_simulation next = {.cpus = 1, .threads = 1, .joined = {.ranks = 1, .nodes = 1}};
static sl_runtime *current;
static int abandoned;

void sl_simulation_set(const sl_simulation *simulation) { next = *simulation; }
const sl_simulation *sl_simulation_current(void) { return current ? &current->simulation : &next; }

static int64_t simulated_now(void) { return (int64_t)(1e3 * starpu_timing_now()); }

sl_runtime_options sl_runtime_defaults(void) { return (sl_runtime_options){.gpus = -1}; }

static void set(const char *name, const char *value) { setenv(name, value, 1); }

sl_status sl_runtime_start(const sl_runtime_options *options, sl_runtime **runtime) {
  struct starpu_sched_policy *policy;
  struct starpu_conf conf;
  int own;
  *runtime = NULL;
  if (current) return sl_fail(SL_EINVAL, "a runtime runs already");
  sl_runtime *rt = calloc(1, sizeof *rt);
  if (!rt) return sl_no_memory("for the runtime");
  rt->options = *options;
  rt->simulation = next;
  const char *name = options->sched && *options->sched ? options->sched : getenv("STARPU_SCHED");
  sl_status status =
      sl_policies_find(options->sched_lib ? options->sched_lib : getenv("STARPU_SCHED_LIB"), name, &policy, &own);
  if (status != SL_OK) goto out;
  snprintf(rt->sched, sizeof rt->sched, "%s", policy->policy_name);
  snprintf(rt->machine, sizeof rt->machine, "%s", next.machine ? next.machine : "");
  rt->team = (sl_team){.threads = next.threads};
  rt->share = (sl_share){.nworkers = next.cpus,
                         .ndrivers = next.gpus,
                         .threads_per_worker = next.threads,
                         .best_threads = next.threads,
                         .cores = next.cpus * next.threads + next.gpus};
  rt->share.node_cores = rt->share.cores * (next.joined.ranks / next.joined.nodes);
  set("STARPU_SILENT", "1");
  set("STARPU_HETEROPRIO_USE_AUTO_CALIBRATION", "0");
  /* runtime/machine/start_starpu.c says why. */
  set("STARPU_MINIMUM_CLEAN_BUFFERS", "0"), set("STARPU_TARGET_CLEAN_BUFFERS", "0");
  /* A task's simulated time includes its costs beside the kernel, so StarPU must not add them. */
  set("STARPU_SIMGRID_FETCHING_INPUT_COST", "0"), set("STARPU_SIMGRID_SCHED_COST", "0");
  set("STARPU_SIMGRID_TASK_SUBMIT_COST", "0"), set("STARPU_SIMGRID_TASK_PUSH_COST", "0");
  if (options->gpu_memory > 0) {
    char megabytes[32];
    snprintf(megabytes, sizeof megabytes, "%lld", (long long)((options->gpu_memory + (1 << 20) - 1) >> 20));
    set("STARPU_LIMIT_CUDA_MEM", megabytes);
  }
  unsetenv("STARPU_SCHED");
  if (starpu_conf_init(&conf) != 0) {
    status = sl_fail(SL_ESTARPU, "StarPU cannot make its configuration");
    goto out;
  }
  conf.precedence_over_environment_variables = 1; /* STARPU_NCPU and others are about this machine */
  conf.sched_policy_name = own ? NULL : rt->sched;
  conf.sched_policy = own ? policy : NULL;
  conf.ncpus = next.cpus;
  conf.reserve_ncpus = 0;
  conf.ncuda = next.gpus;
  conf.nopencl = 0;
  conf.catch_signals = 0;
  const int error = starpu_init(&conf);
  if (error != 0) {
    status = sl_fail(SL_ESTARPU, "StarPU does not start the simulation: %s", strerror(-error));
    goto out;
  }
  sl_time_source(simulated_now);
  if ((int)starpu_cpu_worker_get_count() != next.cpus || (int)starpu_cuda_worker_get_count() != next.gpus) {
    status = sl_fail(SL_ESTARPU, "StarPU simulates %u CPU and %u GPU workers instead of %d and %d",
                     starpu_cpu_worker_get_count(), starpu_cuda_worker_get_count(), next.cpus, next.gpus);
    starpu_shutdown();
    goto out;
  }
  current = *runtime = rt;
  return SL_OK;
out:
  free(rt);
  return status;
}

void sl_runtime_stop(sl_runtime *rt) {
  if (!rt) return;
  if (!abandoned) starpu_shutdown();
  sl_time_source(NULL);
  current = NULL;
  free(rt);
}

int sl_runtime_promised_ranks(void) { return 1; }
void sl_runtime_end_mpi(void) {}
sl_runtime *sl_runtime_current(void) { return current; }
void sl_runtime_abandon(sl_runtime *rt) {
  (void)rt;
  abandoned = 1;
}
int sl_runtime_abandoned(void) { return abandoned; }

int sl_runtime_rank(const sl_runtime *rt) {
  (void)rt;
  return 0;
}
int sl_runtime_ranks(const sl_runtime *rt) { return rt->simulation.joined.ranks; }
int sl_runtime_local_rank(const sl_runtime *rt) {
  (void)rt;
  return 0;
}
int sl_runtime_local_ranks(const sl_runtime *rt) { return rt->simulation.joined.ranks / rt->simulation.joined.nodes; }
int sl_runtime_nodes(const sl_runtime *rt) { return rt->simulation.joined.nodes; }
MPI_Comm sl_runtime_comm(const sl_runtime *rt) {
  (void)rt;
  return MPI_COMM_NULL;
}
MPI_Comm sl_runtime_node_comm(const sl_runtime *rt) { return sl_runtime_comm(rt); }

int sl_runtime_workers(const sl_runtime *rt) { return rt->simulation.cpus + rt->simulation.gpus; }
int sl_runtime_cpu_workers(const sl_runtime *rt) { return rt->simulation.cpus; }
int sl_runtime_gpus(const sl_runtime *rt) { return rt->simulation.gpus; }
sl_worker_kind sl_runtime_worker_kind(const sl_runtime *rt, int worker) {
  (void)rt;
  return starpu_worker_get_type(worker) == STARPU_CPU_WORKER ? SL_WORKER_CPU : SL_WORKER_CUDA;
}
char *sl_runtime_worker_text(const sl_runtime *rt, int worker, char *text, size_t n) {
  const int device = starpu_worker_get_devid(worker);
  if (sl_runtime_worker_kind(rt, worker) == SL_WORKER_CPU)
    snprintf(text, n, "CPU %d of %s (simulated)", device, rt->machine);
  else
    snprintf(text, n, "GPU %d of %s (simulated)", device, rt->machine);
  return text;
}
unsigned sl_runtime_next_order(sl_runtime *rt, int worker) { return ++rt->order[worker]; }
size_t sl_runtime_gpu_peak(const sl_runtime *rt, int i) {
  int worker[STARPU_NMAXWORKERS];
  const unsigned n = starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, worker, STARPU_NMAXWORKERS);
  (void)rt;
  return i < (int)n ? sl_transfers_peak((int)starpu_worker_get_memory_node((unsigned)worker[i])) : 0;
}
int sl_runtime_fast(const sl_runtime *rt) { return rt->options.fast; }
size_t sl_runtime_gpu_memory(const sl_runtime *rt) {
  return rt->options.gpu_memory > 0 ? rt->options.gpu_memory : SIZE_MAX;
}
void sl_runtime_gpu(const sl_runtime *rt, int i, sl_gpu *gpu) {
  (void)i;
  *gpu = (sl_gpu){.memory = (size_t)rt->simulation.gpu_memory,
                  .numa = -1,
                  .to_gpu = rt->simulation.link,
                  .from_gpu = rt->simulation.link};
  snprintf(gpu->name, sizeof gpu->name, "GPU of %s (simulated)", rt->machine);
}
sl_team *sl_runtime_team(const sl_runtime *rt, int worker) {
  return sl_runtime_worker_kind(rt, worker) == SL_WORKER_CPU ? (sl_team *)&rt->team : NULL;
}
sl_status sl_runtime_reserve_scratch(sl_runtime *rt, size_t bytes) {
  (void)rt, (void)bytes;
  return SL_OK;
}
const sl_share *sl_runtime_share(const sl_runtime *rt) { return &rt->share; }
double sl_runtime_quota(const sl_runtime *rt) {
  (void)rt;
  return 0;
}
const char *sl_runtime_sched(const sl_runtime *rt) { return rt->sched; }
double sl_runtime_patience(const sl_runtime *rt) {
  (void)rt;
  return 0; /* simulations use SimGrid's clock */
}
sl_isa sl_runtime_isa(const sl_runtime *rt) {
  (void)rt;
  return SL_ISA_BASELINE;
}
const char *sl_runtime_model_host(const sl_runtime *rt) { return rt->machine; }
const char *sl_runtime_sampling(const sl_runtime *rt) {
  (void)rt;
  return "";
}
