/* Speeds of this machine's workers, kept in a file for runs that do not measure them. */
#ifndef SL_TOOLS_MACHINE_H
#define SL_TOOLS_MACHINE_H

#include "runtime/machine/runtime.h"
#include "tasks/graph/machine.h"

/* Per worker while all workers of the node work; 0: unknown. */
typedef struct sl__machine {
  double gflops;    /* sgemm */
  double gigabytes; /* a second, triad */
  /* Of one GPU, in the kinds of tasks that reach most (calibrate). */
  double gpu_gflops, gpu_gigabytes;
} sl__machine;

/* One file beside StarPU's performance models for each machine, number of workers on it and size of their teams;
 * docs/reference/formats.md describes it. A file that cannot be read or written is not a failure: it gives a warning,
 * and the peaks are unknown. */
sl__machine sl__machine_read(const sl_runtime *runtime);
/* What such a file says. On failure *machine is all unknown. SL_EFORMAT, or as sl_file_read. */
sl_status sl__machine_of_file(const char *path, sl__machine *machine);
/* Raises *machine to earlier runs' measurements, because other work on the machine only lowers them; the node's first
 * rank writes the result. */
void sl__machine_keep(const sl_runtime *runtime, sl__machine *machine);

/* The machine of predicted schedules on CPUs and GPUs. Returns 0 where there are no GPUs or some speed is not known:
 * then predictions go by the speeds of an ordinary machine. */
int sl__machine_predicts(const sl_runtime *runtime, sl_machine *machine);

#endif
