/* Describes this machine from what hwloc sees, what bench, info and calibrate measured, and what StarPU measured of its
 * links. */
#include "tools/run/describe.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/machine/comm.h"
#include "tools/run/times.h"

/* The host's name as the name of a machine. */
static void name_this(char *name, size_t n) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  snprintf(name, n, "%.*s", (int)n - 1, isalnum((unsigned char)host[0]) ? host : "this");
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr(".-_+", *c)) *c = '_';
}

/* NUMA domains that have a core, at most as many as there are usable cores. */
static int domains_of(hwloc_topology_t topology, int cores) {
  const int all = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  int n = 0;
  for (int i = 0; i < all; i++) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
    n += !hwloc_bitmap_iszero(node->cpuset);
  }
  return n < 1 ? 1 : n < cores ? n : cores;
}

static void describe_gpus(const sl_runtime *rt, const sl__machine *measured, int count, sl__gpu_description *d) {
  const sl_machine usual = sl_machine_default(1, 1, 1);
  sl_gpu gpu;
  if (count == 0 || !(measured->gpu_gflops > 0) || sl_runtime_gpus(rt) == 0) return;
  sl_runtime_gpu(rt, 0, &gpu);
  const double link = fmin(gpu.to_gpu, gpu.from_gpu);
  *d = (sl__gpu_description){.count = count,
                             .peak = {.fp32 = 1e9 * measured->gpu_gflops},
                             .efficiency = 1,
                             .memory = (double)gpu.memory,
                             .bandwidth = 1e9 * measured->gpu_gigabytes,
                             .overhead = usual.kind[SL_KIND_GPU].overhead,
                             .link = link > 0 ? link : usual.link,
                             .link_latency = usual.latency,
                             .peer_link = gpu.peer,
                             .peer_latency = gpu.peer > 0 ? usual.latency : 0};
}

sl_status sl__describe_this(const sl_runtime *rt, const sl__machine *measured, sl__machine_description *m, int *gpus) {
  hwloc_topology_t topology = sl_runtime_topology(rt);
  const sl_share *share = sl_runtime_share(rt);
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char *cpu = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  const int cores = share->node_cores, threads = share->threads_per_worker;
  char path[PATH_MAX];
  *gpus = sl_runtime_gpus(rt);
  if (sl_runtime_local_ranks(rt) > 1)
    SL_TRY(sl_comm_status(MPI_Allreduce(MPI_IN_PLACE, gpus, 1, MPI_INT, MPI_SUM, sl_runtime_node_comm(rt)),
                          "MPI_Allreduce"));
  if (!(measured->gflops > 0 && measured->gigabytes > 0))
    return sl_fail(SL_EUNCALIBRATED, "the speed of this machine's cores is not known: leave out --no-measure");
  /* Linear layers reach about 0.3 of what AMX's tiles do on registers: memory does not feed them faster. */
  const double reached = sl_isa_has_tiles() ? 0.3 : 1, bf16 = reached * measured->bf16;
  *m = (sl__machine_description){0};
  name_this(m->name, sizeof m->name);
  snprintf(
      m->source, sizeof m->source,
      "measured by starling info: sgemm and triad on %d workers with %d threads each (%s), so that the efficiency "
      "is 1; bf16 is %g times the rate of its instructions on registers; overhead_us and latencies of GPUs are usual "
      "values",
      sl_runtime_cpu_workers(rt) * sl_runtime_local_ranks(rt), threads, cpu ? cpu : "unknown processor", reached);
  m->cpu = (sl__cpu_description){
      .cores = cores,
      .numa_domains = domains_of(topology, cores),
      .peak = {.fp32 = 1e9 * measured->gflops / threads, .bf16 = bf16 > measured->gflops ? 1e9 * bf16 / threads : 0},
      .efficiency = 1,
      .memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE),
      .overhead = sl_machine_default(1, 1, 0).kind[SL_KIND_CPU].overhead};
  m->cpu.bandwidth = 1e9 * measured->gigabytes / threads * cores / m->cpu.numa_domains;
  describe_gpus(rt, measured, *gpus, &m->gpu);
  sl__times_path(rt, 0, path, sizeof path);
  if (access(path, R_OK) == 0 && strlen(path) < sizeof m->times) strcpy(m->times, path);
  sl__network_path(rt, path, sizeof path);
  m->network = sl__network_read(path);
  return SL_OK;
}
