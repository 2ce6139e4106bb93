/* Measured times of this machine's tasks, kept in a file for simulations and predictions
 * (docs/reference/formats.md). */
#ifndef SL_TOOLS_TIMES_H
#define SL_TOOLS_TIMES_H

#include <stddef.h>

#include "runtime/machine/runtime.h"
#include "runtime/processors/cuda_context.h"
#include "tasks/schedule/machine.h"
#include "tasks/schedule/times.h"

/* Writes the path of the file to path[n] and returns path. The file lies in the folder of StarPU's calibration. Each
 * machine has a file for each number of CPU workers on the node, threads per worker, source of products (blas 1:
 * OpenBLAS) and kind of GPU kernels (sl_gpu_kernels). */
char *sl__times_path(const sl_runtime *runtime, int blas, char *path, size_t n);
/* What the times of a file depend on, beside the machine. */
typedef struct sl__times_of {
  int threads;            /* of a CPU worker */
  sl_gpu_kernels kernels; /* of the GPUs */
  const char *policy;     /* of StarPU, for the overhead; NULL: the standard one */
} sl__times_of;

sl__times_of sl__times_of_run(const sl_runtime *runtime);
/* Adds the times in the file to *times. If the file says that its times are of other teams than `of` has, those of CPUs
 * are left out with a warning; if they are of other kernels, those of GPUs. The overhead is that of the policy, or that
 * of the last calibration if none ran under this policy. SL_EIO, SL_EFORMAT. */
sl_status sl__times_read(const char *path, const sl__times_of *of, sl_times *times);
/* Gives the machine these times and overheads. Borrows the times. */
void sl__times_apply(const sl_times *times, sl_machine *machine);
/* Writes these times to the file, with those of other kinds of tasks and overheads of other policies that it holds
 * already. */
sl_status sl__times_keep(const char *path, const sl__times_of *of, const sl_times *times);

#endif
