/* Divides a node's cores and GPUs among its ranks. */
#include "tools/simulate/node.h"

#include <math.h>

#include "runtime/trace/recorder.h"
#include "tools/run/session.h"
#include "tools/settings/workers.h"

enum { MOST_WORKERS = 256, MOST_GPUS = 16 }; /* of a process, in StarPU's build for SimGrid (tools/build-starpu) */

/* Number of nodes that a network can join. */
static double places(const sl__network_description *n) {
  double places = 1;
  if (n->topology != SL__TORUS && n->topology != SL__DRAGONFLY) return INFINITY;
  for (int d = 0; d < 3; d++) places *= fmax(n->shape[d], 1);
  return places;
}

sl_status sl__simulated_of(const sl__options *o, sl__simulated *s) {
  sl__workers asked;
  *s = (sl__simulated){.nodes = o->nodes > 0 ? (int)o->nodes : 1};
  if (!o->described)
    return sl_blame(
        sl_fail(SL_EINVAL,
                "--machine is missing: name the machine to simulate ('starling info --machines' lists some)"),
        "machine");
  SL_TRY(sl__machine_describe(o->described, &s->machine));
  if (o->what_if) SL_TRY(sl__machine_change(&s->machine, o->what_if));
  SL_TRY(sl__workers_of(o, &asked));
  if (asked.choose)
    return sl_fail(SL_EINVAL, "--workers auto measures, and nothing is measured here: give cpu, gpu, both or a number");
  const sl__machine_description *m = &s->machine;
  const int local = o->ranks_per_node > 0 ? (int)o->ranks_per_node : 1;
  if (s->nodes > 1 && !(m->network.latency > 0))
    return sl_fail(SL_EINVAL,
                   "machine '%s' has no `network`, so it is one node: describe the network, or give --nodes 1",
                   m->name);
  if (s->nodes > places(&m->network))
    return sl_fail(SL_EINVAL, "--nodes %d: the network of '%s' joins %.0f nodes", s->nodes, m->name,
                   places(&m->network));
  if (local > m->cpu.cores)
    return sl_fail(SL_EINVAL, "--ranks-per-node %d: a node of '%s' has %d cores", local, m->name, m->cpu.cores);
  const int gpus = m->gpu.count / local, cores = m->cpu.cores / local;
  if (m->gpu.count % local && asked.gpus != 0)
    return sl_fail(SL_EINVAL, "--ranks-per-node %d does not divide the %d GPUs of a node of '%s'", local, m->gpu.count,
                   m->name);
  if (asked.gpus > gpus) return sl_fail(SL_EINVAL, "--gpus %d: a rank on '%s' has %d", asked.gpus, m->name, gpus);
  s->kernels = (sl_gpu_kernels)sl__gpu_kernels(o);
  if (s->kernels == SL_GPU_TF32 && !(m->gpu.peak.tf32 > 0))
    return sl_blame(sl_fail(SL_EINVAL, "'%s' describes no GPU with TF32 (gpu.gflops.tf32)", m->name), "gpu_kernels");
  s->ranks = s->nodes * local;
  s->share.gpus = asked.gpus >= 0 ? asked.gpus : gpus;
  if (s->share.gpus > MOST_GPUS)
    return sl_fail(SL_EINVAL, "a simulated rank has at most %d GPUs: give more --ranks-per-node, or --gpus", MOST_GPUS);
  const int free_cores = cores - s->share.gpus; /* each GPU's driver takes a core */
  if (asked.cpus > cores)
    return sl_fail(SL_EINVAL, "--workers %d: a rank on '%s' has %d cores", asked.cpus, m->name, cores);
  s->threads = o->threads_per_worker > 0 ? (int)o->threads_per_worker
               : asked.cpus > 0          ? 1
                                         : (free_cores + MOST_WORKERS - 1) / MOST_WORKERS;
  if (s->threads < 1) s->threads = 1;
  if (asked.cpus > 0 && (int64_t)asked.cpus * s->threads > cores)
    return sl_fail(SL_EINVAL, "--workers %d --threads-per-worker %d: a rank on '%s' has %d cores", asked.cpus,
                   s->threads, m->name, cores);
  if (asked.cpus == 0 && s->threads > free_cores && o->threads_per_worker > 0)
    return sl_fail(SL_EINVAL, "--threads-per-worker %d: a rank on '%s' has %d cores for CPU workers", s->threads,
                   m->name, free_cores > 0 ? free_cores : 0);
  if (asked.cpus < 0 && s->share.gpus == 0)
    return sl_fail(SL_EINVAL, "--workers gpu: a rank on '%s' has no GPU", m->name);
  if (asked.cpus >= 0) s->share.cpus = asked.cpus > 0 ? asked.cpus : free_cores / s->threads;
  if (s->share.cpus < 0) s->share.cpus = 0;
  if (s->share.cpus > MOST_WORKERS)
    return sl_fail(SL_EINVAL, "a simulated rank has at most %d CPU workers: give more --threads-per-worker",
                   MOST_WORKERS);
  if (s->share.cpus + s->share.gpus == 0)
    return sl_fail(SL_EINVAL, "no worker is left for a rank on '%s': its %d cores drive its GPUs", m->name, cores);
  return SL_OK;
}

sl_machine sl__simulated_machine(const sl__simulated *s) {
  sl_machine m = sl__machine_of(&s->machine, s->share.cpus * s->threads, s->share.gpus);
  sl_machine_kind *cpu = &m.kind[SL_KIND_CPU];
  cpu->workers = s->share.cpus, cpu->flops *= s->threads, cpu->half *= s->threads;
  cpu->bytes *= (double)s->threads * s->nodes / s->ranks; /* the ranks of a node share its memory's bandwidth */
  return m;
}

sl_machine sl__simulated_planned(const sl__simulated *s, const sl_machine *machine, const sl_plan *plan) {
  sl_machine m = *machine;
  if (m.times && s->share.gpus == 0) {
    m = sl_machine_default(s->share.cpus, s->threads, 0);
    if (plan->tiles.blocks) sl_machine_set_tiles(&m);
  }
  m.times = NULL;
  return m;
}

/* Factor by which the same bytes take longer because nodes share links, when each node sends to all others at this rate
 * in bytes/s. */
static double congestion(const sl__network_description *n, int nodes, double rate) {
  double most = 1, left = nodes;
  switch (n->topology) {
    case SL__FAT_TREE: /* all but the traffic within a leaf switch goes over uplinks */
      if (nodes > n->shape[0] && n->shape[1] > 1)
        most = fmax(1, n->shape[1] * (1 - n->shape[0] / nodes) * rate / n->per_node);
      break;
    case SL__TORUS: /* half of the traffic crosses the middle of the longest extent: Dally and Towles, chapter 3 */
      for (int d = 0; d < 3; d++) {
        const double extent = fmin(fmax(n->shape[d], 1), ceil(left)); /* the job fills one dimension after another */
        most = fmax(most, extent / 8);
        left /= extent;
      }
      break;
    case SL__STAR:
    case SL__DRAGONFLY:
      break;
  }
  return most;
}

sl_simulation sl__simulation_of(const sl__simulated *s) {
  const sl__network_description *n = &s->machine.network;
  const double network = n->per_rank > 0 ? fmin(n->per_rank, n->per_node) : n->per_node; /* one rank a node sends */
  return (sl_simulation){.machine = s->machine.name,
                         .cpus = s->share.cpus,
                         .threads = s->threads,
                         .gpus = s->share.gpus,
                         .gpu_memory = s->machine.gpu.memory,
                         .link = s->machine.gpu.link,
                         .joined = {.ranks = s->ranks,
                                    .nodes = s->nodes,
                                    /* Unknown: each byte of a sum is read twice and written once. */
                                    .shared = n->shared > 0 ? n->shared : s->machine.cpu.bandwidth / 3,
                                    .shared_latency = n->shared_latency,
                                    .latency = n->latency,
                                    .network = network,
                                    .congestion = congestion(n, s->nodes, network),
                                    .adapters = n->per_node,
                                    .work = n->shared_cpu > 0 ? 1 / n->shared_cpu : 0,
                                    .network_work = n->cpu > 0 ? 1 / n->cpu : 0}};
}

/* ---- figures of the whole job ------------------------------------------------------------------------------------ */

/* Peak in the training's precision, or in fp32 where the processor has no other. */
static double peak_of(const sl__peaks *p, sl_precision precision, sl_gpu_kernels kernels) {
  if (precision == SL_PRECISION_BF16) return p->bf16 > 0 ? p->bf16 : p->fp32;
  return kernels == SL_GPU_TF32 && p->tf32 > 0 ? p->tf32 : p->fp32;
}

double sl__simulated_peak(const sl__simulated *s, sl_precision precision) {
  const sl__machine_description *m = &s->machine;
  return s->ranks * (peak_of(&m->cpu.peak, precision, s->kernels) * s->share.cpus * s->threads +
                     peak_of(&m->gpu.peak, precision, s->kernels) * s->share.gpus);
}

const char *sl__simulated_precision(const sl__simulated *s, sl_precision precision) {
  if (s->kernels != SL_GPU_TF32 || precision == SL_PRECISION_BF16) return sl_precision_names[precision];
  return precision == SL_PRECISION_FP16 ? "fp16, on GPUs in TF32" : "fp32, on GPUs in TF32";
}

double sl__simulated_beside(const sl__simulated *s, const sl_network *network, int64_t rows) {
  const double process = s->machine.cpu.process > 0 ? s->machine.cpu.process : 120e6;
  return process + SL__NETWORK_BYTES + SL__FIRST_STEP_BYTES + (double)sl_recorder_bytes() +
         (double)sl__loader_bytes(network, rows);
}

/* Watts of a node: idle cores and GPUs beside those of its ranks, which are busy for this share of the time. */
static double watts_of(const sl__simulated *s, double busy) {
  const sl__machine_description *m = &s->machine;
  const int local = s->ranks / s->nodes;
  const double cores = (double)local * s->share.cpus * s->threads / m->cpu.cores, gpus = (double)local * s->share.gpus;
  return m->cpu.idle + (m->cpu.watts - m->cpu.idle) * busy * cores + m->gpu.count * m->gpu.idle +
         gpus * (m->gpu.watts - m->gpu.idle) * busy;
}

double sl__simulated_watts(const sl__simulated *s, double busy, double slower) {
  const sl__machine_description *m = &s->machine;
  if (!(m->cpu.watts > 0) || (m->gpu.count > 0 && !(m->gpu.watts > 0))) return NAN;
  return watts_of(s, busy) + (s->nodes - 1) * watts_of(s, busy / (slower > 0 ? slower : 1));
}
