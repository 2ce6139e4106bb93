/* Measured times of this machine's tasks, kept in a file for simulations and predictions
 * (docs/reference/formats.md). */
#ifndef SL_TOOLS_TIMES_H
#define SL_TOOLS_TIMES_H

#include <stddef.h>

#include "runtime/machine/runtime.h"
#include "tasks/schedule/times.h"

/* Writes the path of the file to path[n] and returns path. The file lies in the folder of StarPU's calibration. Each
 * machine has a file for each number of CPU workers on the node, threads per worker, source of products (blas 1:
 * OpenBLAS) and kind of GPU kernels (sl_gpu_kernels). */
char *sl__times_path(const sl_runtime *runtime, int blas, char *path, size_t n);
/* Adds the times in the file to *times. SL_EIO, SL_EFORMAT. */
sl_status sl__times_read(const char *path, sl_times *times);
/* Writes these times to the file, with those of other kinds of tasks that it holds already. */
sl_status sl__times_keep(const char *path, const sl_times *times);

#endif
