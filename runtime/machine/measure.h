/* Measures the machine's peak GFLOP/s and GB/s on the pinned workers, for comparison with runs. */
#ifndef SL_MEASURE_H
#define SL_MEASURE_H

#include "runtime/machine/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* GFLOP/s of sgemm, summed over all team threads of all CPU workers. All threads run single-threaded sgemm at the same
 * time, on square matrices of 1024 and of 2048, for about `seconds` in all; the better of the two sizes counts. Blocks;
 * no tasks may be in flight. */
sl_status sl_measure_sgemm(sl_runtime *runtime, double seconds, double *gflops);
/* Likewise for TDPBF16PS of AMX or, on CPUs without it, VDPBF16PS of AVX512-BF16. The instructions work on registers
 * and not on memory, so products of bf16 cannot be faster. 0: the CPU has neither instruction. */
sl_status sl_measure_bf16(sl_runtime *runtime, double seconds, double *gflops);
/* Likewise for a triad a = b + s c (McCalpin's STREAM) over arrays of `megabytes` a thread (0: 64), in GB/s. An
 * element counts as 12 bytes: two reads and a write, without the read for ownership. */
sl_status sl_measure_triad(sl_runtime *runtime, double seconds, size_t megabytes, double *gigabytes);

#ifdef __cplusplus
}
#endif
#endif
