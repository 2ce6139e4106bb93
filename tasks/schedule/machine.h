/* The machine that predicted times refer to: kinds of workers, their memories and the links between these. */
#ifndef SL_MACHINE_H
#define SL_MACHINE_H

#ifdef __cplusplus
extern "C" {
#endif

/* CPU workers share the host's memory; each GPU has a memory of its own. */
enum { SL_KIND_CPU, SL_KIND_GPU, SL_KINDS };

typedef struct sl_machine_kind {
  int workers;     /* 0: the machine has none */
  double flops;    /* FLOP/s of one worker in matrix products */
  double bytes;    /* bytes/s of one worker */
  double overhead; /* seconds a task */
  double half;     /* FLOP/s of products whose factors are stored in 16 bits; 0: as `flops` */
  double tf32;     /* the same of fast kernels in tf32 */
} sl_machine_kind;

typedef struct sl_machine {
  sl_machine_kind kind[SL_KINDS];
  double exchange;           /* bytes/s of sums over ranks */
  double link;               /* bytes/s between the host's memory and a GPU's, each way */
  double latency;            /* seconds a transfer */
  double peer, peer_latency; /* the same between two GPUs; 0: they copy to one another over the host */
  double slower;             /* factor of the times of all tasks, exchanges excepted; 0 and 1: none */
  int fast; /* sl_gpu_kernels (cuda_context.h); FAST, TF32: operations that have a fast kernel run on GPUs only */
  const struct sl_times *times; /* measured times of tasks (times.h); NULL: none */
} sl_machine;

/* A machine of CPU workers with `threads` ordinary cores each, and of large GPUs on PCI Express. Priorities depend only
 * on ratios of these numbers. */
sl_machine sl_machine_default(int workers, int threads, int gpus);

/* Sets `half` for CPUs that multiply bf16 by tiles (AMX). */
void sl_machine_set_tiles(sl_machine *machine);

struct sl_graph;
struct sl_node;
struct sl_cost;
/* Predicted seconds of a node's task, overhead included, on a worker of this kind: its measured time, else by its cost
 * (graph.h) and the worker's rates. INFINITY: the kind has no workers, or may not run the operation. */
double sl_machine_seconds(const sl_machine *machine, const struct sl_graph *graph, const struct sl_node *node,
                          const struct sl_cost *cost, int kind);

#ifdef __cplusplus
}
#endif
#endif
