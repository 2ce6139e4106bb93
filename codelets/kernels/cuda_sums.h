/* Scratch memory of the CUDA sums (codelets/kernels/cuda.h), for the scratch_cuda rules of operations, which are C. */
#ifndef SL_CUDA_SUMS_H
#define SL_CUDA_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* A sum over any number of elements. */
enum { SL_CUDA_SUM_CHUNKS = 1024, SL_CUDA_SUM_BYTES = SL_CUDA_SUM_CHUNKS * 8 };

/* k sums at once down the M rows of N columns. The rows are cut into chunks of 128 or more, at most 512 of them,
 * whatever the GPU. */
static inline int64_t sl_cuda_column_rows(int64_t M) { return M < 512 * 128 ? 128 : (M + 511) / 512; }
static inline int64_t sl_cuda_column_chunks(int64_t M) {
  return (M + sl_cuda_column_rows(M) - 1) / sl_cuda_column_rows(M);
}
static inline size_t sl_cuda_columns_bytes(int k, int64_t M, int64_t N) {
  return (size_t)(k * N * sl_cuda_column_chunks(M)) * sizeof(double);
}

#endif
