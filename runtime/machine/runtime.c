/* Start and stop of the runtime, in steps; the workers' teams; queries. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine/runtime_state.h"
#include "runtime/machine/transfers.h"
#include "runtime/machine/yield.h"

static _Atomic(sl_runtime *) running;
static atomic_int starting; /* set from start to stop */
static atomic_int abandoned;

/* ---- teams ---- */

typedef struct errand {
  sl_runtime *rt;
  sl_worker_function function;
  void *arg;
} errand;

static void run_errand(void *arg) {
  const errand *e = arg;
  const int worker = starpu_worker_get_id();
  e->function(e->arg, worker, e->rt->team[worker]);
}

sl_status sl_runtime_each_worker(sl_runtime *rt, sl_worker_function function, void *arg) {
  errand e = {rt, function, arg};
  starpu_execute_on_each_worker(run_errand, &e, STARPU_CPU);
  return SL_OK;
}

static void start_team(void *arg, int worker, sl_team *team) {
  (void)arg, (void)worker;
  sl_team_start(team);
}

#if CAN_USE_CUDA
static void bind_driver(void *arg) {
  sl_runtime *rt = arg;
  const unsigned device = (unsigned)starpu_worker_get_devid(starpu_worker_get_id()) - (unsigned)rt->first_gpu;
  if ((int)device >= rt->share.ndrivers) return;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (set && hwloc_bitmap_only(set, rt->share.driver_pu[device]) == 0)
    hwloc_set_cpubind(rt->topology, set, HWLOC_CPUBIND_THREAD);
  hwloc_bitmap_free(set);
}
#endif

/* Makes CPU worker i lead the team of place i. Leaders and GPU drivers bind themselves again, because StarPU may put a
 * driver on a leader's core: it takes any listed core near the GPU. */
static sl_status start_teams(sl_runtime *rt) {
  int ids[STARPU_NMAXWORKERS];
  const int n = (int)starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, ids, STARPU_NMAXWORKERS);
  for (int i = 0; i < n; i++)
    SL_TRY(sl_team_create(rt->topology, rt->share.worker[i].threads, rt->share.worker[i].pu, &rt->team[ids[i]]));
  SL_TRY(sl_runtime_each_worker(rt, start_team, NULL));
#if CAN_USE_CUDA
  if (rt->gpus) starpu_execute_on_each_worker(bind_driver, rt, STARPU_CUDA);
#endif
  return SL_OK;
}

typedef struct reservation {
  size_t bytes;
  atomic_int failures;
} reservation;

static void reserve(void *arg, int worker, sl_team *team) {
  reservation *r = arg;
  (void)worker;
  if (sl_team_reserve(team, r->bytes) != SL_OK) atomic_fetch_add(&r->failures, 1);
}

sl_status sl_runtime_reserve_scratch(sl_runtime *rt, size_t bytes) {
  reservation r = {.bytes = bytes};
  SL_TRY(sl_runtime_each_worker(rt, reserve, &r));
  if (atomic_load(&r.failures))
    return sl_no_memory("for %zu bytes of scratch for each thread of %d workers", bytes, rt->share.nworkers);
  return SL_OK;
}

/* ---- start and stop ---- */

sl_runtime_options sl_runtime_defaults(void) { return (sl_runtime_options){.mpi = 1, .gpus = -1}; }

/* Undoes the steps of the start that succeeded. */
static void take_down(sl_runtime *rt) {
  if (sl_runtime_abandoned()) {
    sl__leave_mpi(rt);
    return;
  }
  if (rt->starpu_up) {
    starpu_task_wait_for_all();
    sl_workers_yield(0);
    starpu_shutdown();
  }
  for (int i = 0; rt->team && i < STARPU_NMAXWORKERS; i++) sl_team_destroy(rt->team[i]);
  free(rt->team);
  sl_share_free(&rt->share);
  if (rt->topology) hwloc_topology_destroy(rt->topology);
  sl__restore_environment(rt);
  sl__leave_mpi(rt);
  free(rt);
}

sl_status sl_runtime_start(const sl_runtime_options *options, sl_runtime **result) {
  *result = NULL;
  if (atomic_exchange(&starting, 1))
    return sl_fail(SL_EINVAL, "a runtime is already running in this process: stop it first");
  sl_status status = SL_OK;
  sl_isa isa = sl_isa_best();
  sl_runtime *rt = calloc(1, sizeof *rt);
  if (!rt) {
    atomic_store(&starting, 0);
    return sl_no_memory("for a runtime");
  }
  rt->options = *options;
  SL_TRY_OUT(sl__start_mpi(rt));
  /* From here on the ranks act together: before each collective step they agree whether one has failed. */
  if (options->kernels && *options->kernels) status = sl_isa_parse(options->kernels, &isa);
  if (status == SL_OK) status = sl_isa_use(isa);
  if (status == SL_OK) status = sl__load_topology(rt);
  SL_TRY_OUT(sl_comm_agree(rt->comm, status));
  SL_TRY_OUT(sl_comm_agree(rt->comm, sl__divide_node(rt)));
  SL_TRY_OUT(sl_comm_agree(rt->comm, sl__start_starpu(rt)));
  rt->team = calloc(STARPU_NMAXWORKERS, sizeof *rt->team);
  if (!rt->team)
    status = sl_no_memory("for %d teams", STARPU_NMAXWORKERS);
  else
    status = start_teams(rt);
  SL_TRY_OUT(sl_comm_agree(rt->comm, status));
  atomic_store(&running, rt);
  *result = rt;
out:
  if (status != SL_OK) {
    take_down(rt);
    atomic_store(&starting, 0);
  }
  return status;
}

void sl_runtime_stop(sl_runtime *rt) {
  if (!rt) return;
  take_down(rt);
  atomic_store(&running, NULL);
  atomic_store(&starting, 0);
}

/* ---- queries ---- */

sl_runtime *sl_runtime_current(void) { return atomic_load(&running); }
void sl_runtime_abandon(sl_runtime *rt) { (void)rt, atomic_store(&abandoned, 1); }
int sl_runtime_abandoned(void) { return atomic_load(&abandoned); }
int sl_runtime_rank(const sl_runtime *rt) { return rt->rank; }
int sl_runtime_ranks(const sl_runtime *rt) { return rt->ranks; }
int sl_runtime_local_rank(const sl_runtime *rt) { return rt->local_rank; }
int sl_runtime_local_ranks(const sl_runtime *rt) { return rt->local_ranks; }
int sl_runtime_nodes(const sl_runtime *rt) { return rt->nodes; }
int sl_runtime_workers(const sl_runtime *rt) { return rt->workers; }
int sl_runtime_cpu_workers(const sl_runtime *rt) { return rt->share.nworkers; }
unsigned sl_runtime_next_order(sl_runtime *rt, int worker) { return ++rt->ordered[worker]; }
/* StarPU's memory node of this rank's GPU number i; -1: it has none. */
static int gpu_node(int i) {
  int worker[STARPU_NMAXWORKERS];
  const int n = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, worker, STARPU_NMAXWORKERS);
  return i < n ? (int)starpu_worker_get_memory_node((unsigned)worker[i]) : -1;
}
size_t sl_runtime_gpu_peak(const sl_runtime *rt, int i) {
  const int node = gpu_node(i);
  (void)rt;
  return node < 0 ? 0 : sl_transfers_peak(node);
}
int sl_runtime_fast(const sl_runtime *rt) { return rt->options.fast; }
size_t sl_runtime_gpu_memory(const sl_runtime *rt) { return rt->gpu_memory > 0 ? rt->gpu_memory : SIZE_MAX; }
int sl_runtime_gpus(const sl_runtime *rt) { return rt->gpus; }

sl_worker_kind sl_runtime_worker_kind(const sl_runtime *rt, int worker) {
  return rt->team[worker] ? SL_WORKER_CPU : SL_WORKER_CUDA;
}

char *sl_runtime_worker_text(const sl_runtime *rt, int worker, char *text, size_t n) {
  const int device = starpu_worker_get_devid(worker);
  if (sl_runtime_worker_kind(rt, worker) == SL_WORKER_CUDA) {
    snprintf(text, n, "CUDA %d", device);
    return text;
  }
  int index = 0;
  for (int w = 0; w < worker; w++) index += rt->team[w] != NULL;
  char place[512];
  sl_place_text(&rt->share.worker[index], index, place, sizeof place);
  snprintf(text, n, "CPU %d, %s", index, strchr(place, ':') + 2);
  return text;
}

#if CAN_USE_CUDA
/* StarPU's number of a GPU's memory; -1: none of its workers drives the GPU. */
static int memory_of_gpu(const sl_runtime *rt, int device) {
  for (int w = 0; w < rt->workers; w++)
    if (!rt->team[w] && starpu_worker_get_devid(w) == device) return (int)starpu_worker_get_memory_node((unsigned)w);
  return -1;
}
#endif

void sl_runtime_gpu(const sl_runtime *rt, int i, sl_gpu *gpu) {
  *gpu = (sl_gpu){.numa = -1};
#if CAN_USE_CUDA
  struct cudaDeviceProp p;
  const int device = rt->first_gpu + i;
  if (cudaGetDeviceProperties(&p, device) != cudaSuccess) return;
  snprintf(gpu->name, sizeof gpu->name, "%s", p.name);
  gpu->memory = p.totalGlobalMem;
  gpu->multiprocessors = p.multiProcessorCount, gpu->major = p.major, gpu->minor = p.minor;
  if (cudaDeviceGetPCIBusId(gpu->address, sizeof gpu->address, device) != cudaSuccess) gpu->address[0] = 0;
  if (cudaDriverGetVersion(&gpu->driver) != cudaSuccess) gpu->driver = 0;
  gpu->numa = sl__domain_of_gpu(device);
  const int node = memory_of_gpu(rt, device);
  if (node < 0) return;
  gpu->to_gpu = 1e6 * starpu_transfer_bandwidth(STARPU_MAIN_RAM, (unsigned)node);
  gpu->from_gpu = 1e6 * starpu_transfer_bandwidth((unsigned)node, STARPU_MAIN_RAM);
  for (int k = 0; k < rt->gpus; k++) {
    const int other = memory_of_gpu(rt, rt->first_gpu + k);
    if (other < 0 || other == node) continue;
    const double rate = 1e6 * starpu_transfer_bandwidth((unsigned)node, (unsigned)other);
    if (gpu->peer == 0 || rate < gpu->peer) gpu->peer = rate;
  }
#else
  (void)rt, (void)i;
#endif
}

sl_team *sl_runtime_team(const sl_runtime *rt, int worker) {
  return worker >= 0 && worker < rt->workers ? rt->team[worker] : NULL;
}

const sl_share *sl_runtime_share(const sl_runtime *rt) { return &rt->share; }
hwloc_topology_t sl_runtime_topology(const sl_runtime *rt) { return rt->topology; }
double sl_runtime_quota(const sl_runtime *rt) { return rt->quota; }
const char *sl_runtime_sched(const sl_runtime *rt) { return rt->sched; }
double sl_runtime_patience(const sl_runtime *rt) { return rt->options.patience >= 10 ? rt->options.patience : 10; }
sl_isa sl_runtime_isa(const sl_runtime *rt) { return (void)rt, sl_isa_current(); }
const char *sl_runtime_model_host(const sl_runtime *rt) { return rt->model_host; }
const char *sl_runtime_sampling(const sl_runtime *rt) { return rt->sampling; }
MPI_Comm sl_runtime_comm(const sl_runtime *rt) { return rt->comm; }
MPI_Comm sl_runtime_node_comm(const sl_runtime *rt) { return rt->node_comm; }
