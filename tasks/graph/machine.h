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
} sl_machine_kind;

typedef struct sl_machine {
  sl_machine_kind kind[SL_KINDS];
  double exchange; /* bytes/s of sums over ranks */
  double link;     /* bytes/s between host and GPU memory, each way; copies between GPUs go through the host */
  double latency;  /* seconds a transfer */
  int fast;        /* 1: operations with a fast GPU kernel run on GPUs only */
} sl_machine;

/* A machine of CPU workers with `threads` ordinary cores each, and of large GPUs on PCI Express. Priorities depend only
 * on ratios of these numbers. */
sl_machine sl_machine_default(int workers, int threads, int gpus);

#ifdef __cplusplus
}
#endif
#endif
