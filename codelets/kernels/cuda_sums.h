/* Scratch memory of the CUDA sums (codelets/kernels/cuda.h), for the scratch_cuda rules of operations, which are C. */
#ifndef SL_CUDA_SUMS_H
#define SL_CUDA_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* Chunks and scratch bytes of a sum over any number of elements. */
enum { SL_CUDA_SUM_CHUNKS = 1024, SL_CUDA_SUM_BYTES = SL_CUDA_SUM_CHUNKS * 8 };

#endif
