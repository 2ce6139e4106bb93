/* The cores and GPUs of a rank: the ranks of a node divide what the system lets them use. */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/machine/runtime_state.h"

enum { GPU_NAMES = 512 }; /* bytes of the text that names a rank's visible GPUs */

/* Whether no rank of the node has failed. Collective over the node. After a failure all leave the node's steps, each
 * with its own status; all ranks then agree on one (sl_runtime_start). */
static int all_fine(const sl_runtime *rt, sl_status status) {
  int fine = status == SL_OK;
  if (rt->local_ranks > 1 && MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, rt->node_comm) != MPI_SUCCESS)
    return 0;
  return fine;
}

/* Gathers the texts of all ranks of the node, n bytes each, in one block that the caller frees. */
static sl_status gather_texts(sl_runtime *rt, const char *mine, size_t n, char **all) {
  char *block = calloc((size_t)rt->local_ranks + 1, n);
  if (!all_fine(rt, block ? SL_OK : SL_ENOMEM)) {
    free(block);
    return sl_no_memory("for the reports of %d ranks of the node", rt->local_ranks);
  }
  char *own = block + (size_t)rt->local_ranks * n;
  snprintf(own, n, "%s", mine);
  sl_status status = SL_OK;
  if (rt->local_ranks == 1)
    memcpy(block, own, n);
  else
    MPI_TRY_OUT(MPI_Allgather(own, (int)n, MPI_CHAR, block, (int)n, MPI_CHAR, rt->node_comm));
  *all = block;
  return SL_OK;
out:
  free(block);
  return status;
}

/* Counts the node's ranks with the same set of PUs, which share it, and finds this rank's number among them. Collective
 * over the node. */
static sl_status find_group(sl_runtime *rt, hwloc_const_cpuset_t allowed, int *ranks, int *rank) {
  enum { SET_BYTES = 4096 };
  char mine[SET_BYTES], *all = NULL;
  sl_status status = SL_OK;
  *ranks = 1;
  *rank = 0;
  if (rt->local_ranks == 1) return SL_OK;
  const int fits = hwloc_bitmap_list_snprintf(mine, sizeof mine, allowed) < (int)sizeof mine;
  SL_TRY(gather_texts(rt, fits ? mine : "", sizeof mine, &all));
  hwloc_bitmap_t *set = calloc((size_t)rt->local_ranks, sizeof *set);
  if (!set) SL_TRY_OUT(sl_no_memory("for the CPU sets of %d ranks", rt->local_ranks));
  for (int r = 0; r < rt->local_ranks; r++) {
    set[r] = hwloc_bitmap_alloc();
    if (!set[r] || hwloc_bitmap_list_sscanf(set[r], all + (size_t)r * sizeof mine) != 0)
      SL_TRY_OUT(sl_no_memory("for the CPU set of rank %d of the node", r));
  }
  SL_TRY_OUT(sl_topology_group((const hwloc_const_cpuset_t *)set, rt->local_ranks, rt->local_rank, ranks, rank));
out:
  for (int r = 0; set && r < rt->local_ranks; r++) hwloc_bitmap_free(set[r]);
  free(set);
  free(all);
  return status;
}

#if CAN_USE_CUDA
int sl__domain_of_gpu(int device) {
  char address[32] = "";
  if (cudaDeviceGetPCIBusId(address, sizeof address, device) != cudaSuccess) return -1;
  char path[128], line[32] = "";
  int at = snprintf(path, sizeof path, "/sys/bus/pci/devices/");
  for (const char *c = address; *c; c++) path[at++] = (char)tolower((unsigned char)*c);
  snprintf(path + at, sizeof path - (size_t)at, "/numa_node");
  FILE *file = fopen(path, "re");
  if (file && !fgets(line, sizeof line, file)) line[0] = 0;
  if (file) fclose(file);
  return line[0] ? atoi(line) : -1;
}
#else
int sl__domain_of_gpu(int device) { return (void)device, -1; }
#endif

/* Sets how much of each GPU's memory StarPU may use: an equal part for each rank that shares the GPU. A limit in the
 * environment stays. */
static void share_gpu_memory(sl_runtime *rt, int sharers) {
  rt->gpu_memory = rt->options.gpu_memory / (size_t)sharers;
#if CAN_USE_CUDA
  struct cudaDeviceProp p;
  if (rt->gpu_memory || sharers == 1 || getenv("STARPU_LIMIT_CUDA_MEM")) return;
  if (cudaGetDeviceProperties(&p, rt->first_gpu) == cudaSuccess)
    rt->gpu_memory = p.totalGlobalMem / 10 * 9 / (size_t)sharers; /* StarPU, too, leaves a tenth to others */
#endif
}

/* The text by which ranks find those that see the same GPUs: their addresses. CUDA_VISIBLE_DEVICES is not enough, since
 * containers and batch systems give each rank another GPU as its number 0. Parts of a GPU (MIG) have one address but
 * different names there. */
static void name_gpus(int visible, char *text, size_t n) {
  const char *devices = getenv("CUDA_VISIBLE_DEVICES");
  snprintf(text, n, "%s", devices ? devices : "");
#if CAN_USE_CUDA
  size_t used = 0;
  for (int i = 0; i < visible && used < n && !strstr(text, "MIG"); i++) {
    char address[32];
    if (cudaDeviceGetPCIBusId(address, sizeof address, i) != cudaSuccess) return;
    used += (size_t)snprintf(text + used, n - used, "%s,", address);
  }
#else
  (void)visible;
#endif
}

/* Finds this rank's GPUs: ranks that see the same ones divide them into equal runs. Collective over the node. */
static sl_status find_gpus(sl_runtime *rt) {
  int visible = 0, ranks = 0, rank = 0, sharers = 0, wanted = rt->options.gpus;
  char *all = NULL;
  sl_status status = SL_OK;
#if CAN_USE_CUDA
  if (wanted != 0 && cudaGetDeviceCount(&visible) != cudaSuccess) visible = 0;
#endif
  char seen[GPU_NAMES];
  name_gpus(visible, seen, sizeof seen);
#ifdef STARPU_MAXCUDADEVS
  if (visible > STARPU_MAXCUDADEVS) {
    if (rt->local_rank == 0)
      sl_log(SL_LOG_WARNING,
             "this StarPU uses %d GPUs at most, and %d are visible: tools/build-starpu --cuda builds one for 16",
             STARPU_MAXCUDADEVS, visible);
    visible = STARPU_MAXCUDADEVS;
  }
#endif
  SL_TRY(gather_texts(rt, seen, sizeof seen, &all));
  for (int r = 0; r < rt->local_ranks; r++)
    if (strcmp(all + (size_t)r * sizeof seen, all + (size_t)rt->local_rank * sizeof seen) == 0) {
      rank += r < rt->local_rank;
      ranks++;
    }
  rt->first_gpu = (int)((int64_t)rank * visible / ranks);
  rt->gpus = (int)((int64_t)(rank + 1) * visible / ranks) - rt->first_gpu;
  if (visible && rt->gpus == 0) rt->gpus = 1; /* more ranks than GPUs: several share one */
  if (wanted < 0) wanted = sl__number_in("STARPU_NCUDA", -1);
  if (wanted > 0 && !CAN_USE_CUDA)
    SL_TRY_OUT(
        sl_fail(SL_EUNSUPPORTED,
                "%d GPUs were asked for but this build drives none: run tools/build-starpu --cuda, then ./quickstart "
                "(or ./configure --with-starpu=DIR)",
                wanted));
  if (wanted > rt->gpus)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%d GPUs were asked for but rank %d has %d of the %d visible ones", wanted,
                       rt->rank, rt->gpus, visible));
  if (wanted >= 0 && wanted < rt->gpus) rt->gpus = wanted;
  for (int r = 0; r < ranks; r++) sharers += (int)((int64_t)r * visible / ranks) == rt->first_gpu;
  if (rt->gpus) share_gpu_memory(rt, ranks > visible ? sharers : 1);
out:
  free(all);
  return status;
}

/* Finds the PUs that this process may use; the caller frees the set. */
static sl_status allowed_pus(hwloc_topology_t topology, hwloc_bitmap_t *set) {
  *set = hwloc_bitmap_alloc();
  if (!*set) return sl_no_memory("for a CPU set");
  if (hwloc_get_cpubind(topology, *set, HWLOC_CPUBIND_THREAD) != 0)
    hwloc_bitmap_copy(*set, hwloc_topology_get_allowed_cpuset(topology));
  hwloc_bitmap_and(*set, *set, hwloc_topology_get_allowed_cpuset(topology));
  return SL_OK;
}

sl_status sl__load_topology(sl_runtime *rt) {
  if (hwloc_topology_init(&rt->topology) != 0 || hwloc_topology_load(rt->topology) != 0)
    return sl_fail(SL_ETOPOLOGY, "hwloc cannot read this machine's topology: %s", strerror(errno));
  return SL_OK;
}

sl_status sl__divide_node(sl_runtime *rt) {
  sl_status status = SL_OK;
  hwloc_bitmap_t allowed = NULL;
  int ranks, rank;
  status = allowed_pus(rt->topology, &allowed);
  if (!all_fine(rt, status)) goto out;
  status = find_gpus(rt);
  if (rt->options.gpus_alone && rt->gpus && rt->options.workers == 0) rt->options.workers = -1;
  if (status == SL_OK && rt->options.workers < 0 && rt->gpus == 0)
    status =
        sl_blame(sl_fail(SL_EUNSUPPORTED, "only GPUs may compute, but rank %d has no GPU", rt->rank), "workers, gpus");
  if (status == SL_OK && rt->options.fast && rt->gpus == 0)
    status = sl_blame(sl_fail(SL_EUNSUPPORTED, "fast GPU kernels were asked for, but rank %d has no GPU", rt->rank),
                      "gpu_kernels, gpus");
  if (!all_fine(rt, status)) goto out;
  SL_TRY_OUT(find_group(rt, allowed, &ranks, &rank));
  rt->quota = sl_cgroup_cpu_quota("");
  int domain[STARPU_NMAXWORKERS];
  for (int i = 0; i < rt->gpus; i++) domain[i] = sl__domain_of_gpu(rt->first_gpu + i);
  const sl_topology_request request = {
      .topology = rt->topology,
      .allowed = allowed,
      .quota = rt->quota * ranks / rt->local_ranks,
      .ranks = ranks,
      .rank = rank,
      .threads_per_worker = rt->options.threads_per_worker,
      .workers = rt->options.workers != 0 ? rt->options.workers : sl__number_in("STARPU_NCPU", 0),
      .max_workers = STARPU_MAXCPUS,
      .drivers = rt->gpus,
      .gpu_domain = domain,
  };
  SL_TRY_OUT(sl_topology_divide(&request, &rt->share));
  char text[1024];
  if (*sl_share_warning(&rt->share, text, sizeof text)) sl_log(SL_LOG_WARNING, "rank %d: %s", rt->rank, text);
  const char *omp = getenv("OMP_PROC_BIND");
  if (omp && strcmp(omp, "false") != 0 && rt->share.node_cores == 1 &&
      hwloc_get_nbobjs_by_type(rt->topology, HWLOC_OBJ_CORE) > 1)
    sl_log(SL_LOG_WARNING, "OMP_PROC_BIND=%s bound this process to one core before it began: unset it", omp);
out:
  hwloc_bitmap_free(allowed);
  return status;
}
