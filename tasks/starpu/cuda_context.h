/* The CUDA side as seen from C: making and freeing what the CUDA kernels of one worker share. No CUDA header is needed
 * to include this. The functions exist only in a build with CUDA (SL_HAVE_CUDA), where codelets/kernels/cuda_context.cu
 * defines them; they are declared here because lowering, which stands below the operations, calls them. */
#ifndef SL_CUDA_CONTEXT_H
#define SL_CUDA_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "tasks/graph/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of GPUs that this process can use; 0 when there is no driver. Starts nothing on them. */
int sl_cuda_devices(void);

/* What kernels get as their second argument, on the calling thread's current device: cuBLAS on `stream` (a cudaStream_t
 * that outlives it; NULL: the default stream), and scratch_bytes of scratch memory, the greatest scratch_cuda of all
 * tasks that will run with it. Called once a worker, outside of steps: it allocates and waits. One task at a time may
 * queue work with it; tasks queued on its stream run in turn, so they can share the scratch. NULL after a failure
 * (SL_EUNSUPPORTED: no GPU; SL_ENOMEM; SL_ESTARPU), which is put into *status unless that is NULL. */
sl_cuda *sl_cuda_create(void *stream, size_t scratch_bytes, sl_status *status);
/* Waits for the stream. NULL is allowed. */
void sl_cuda_destroy(sl_cuda *cuda);

/* For scratch_cuda rules: what the sums of cuda.h need, over any number of elements, and down M rows of N columns, k at
 * once. The rows are cut into chunks of 128 or more, at most 512 of them, whatever the GPU. */
enum { SL_CUDA_SUM_CHUNKS = 1024, SL_CUDA_SUM_BYTES = SL_CUDA_SUM_CHUNKS * 8 };
static inline int64_t sl_cuda_column_rows(int64_t M) { return M < 512 * 128 ? 128 : (M + 511) / 512; }
static inline int64_t sl_cuda_column_chunks(int64_t M) {
  return (M + sl_cuda_column_rows(M) - 1) / sl_cuda_column_rows(M);
}
static inline size_t sl_cuda_columns_bytes(int k, int64_t M, int64_t N) {
  return (size_t)(k * N * sl_cuda_column_chunks(M)) * sizeof(double);
}

#ifdef __cplusplus
}
#endif
#endif
