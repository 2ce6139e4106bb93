/* Measured times of this machine's tasks, kept in a file for simulations and predictions
 * (docs/reference/formats.md). */
#ifndef SL_TOOLS_TIMES_H
#define SL_TOOLS_TIMES_H

#include <stddef.h>

#include "runtime/machine/runtime.h"
#include "tasks/schedule/times.h"

/* The file beside StarPU's performance models: one for each machine, number of workers on it and size of their teams;
 * others with OpenBLAS's products (blas 1), and with fast kernels on GPUs. */
char *sl__times_path(const sl_runtime *runtime, int blas, char *path, size_t n);
/* Adds the times in the file to *times. SL_EIO, SL_EFORMAT. */
sl_status sl__times_read(const char *path, sl_times *times);
/* Writes these times to the file, with those of other kinds of tasks that it holds already. */
sl_status sl__times_keep(const char *path, const sl_times *times);

#endif
