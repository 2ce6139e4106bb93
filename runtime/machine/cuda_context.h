/* What the CUDA kernels of one worker share: stream and scratch memory. C files see it as opaque and need no CUDA
 * header; .cu files see its members. The functions exist only in a build with CUDA (SL_HAVE_CUDA). */
#ifndef SL_CUDA_CONTEXT_H
#define SL_CUDA_CONTEXT_H

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif
#include <stddef.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_cuda sl_cuda;

#ifdef __CUDACC__
struct sl_cuda {
  cudaStream_t stream;
  void *scratch; /* 256-byte aligned; used by one task at a time, in the order of the stream */
  size_t scratch_bytes;
  int device;
};
#endif

/* Number of GPUs that this process can use; 0 when there is no driver. Starts nothing on them. */
int sl_cuda_devices(void);

/* Makes the context on the calling thread's current device. stream: a cudaStream_t that outlives it; NULL: the default
 * stream. scratch_bytes: the greatest scratch_cuda of all tasks that will run with it. Call it once a worker, outside
 * of steps: it allocates and waits. One task at a time may queue work with it; the stream runs queued tasks in turn, so
 * they can share the scratch. Returns NULL after a failure (SL_EUNSUPPORTED: no GPU; SL_ENOMEM; SL_ESTARPU), which goes
 * into *status unless that is NULL. */
sl_cuda *sl_cuda_create(void *stream, size_t scratch_bytes, sl_status *status);
/* Waits for the stream. NULL is allowed. */
void sl_cuda_destroy(sl_cuda *cuda);

#ifdef __cplusplus
}
#endif
#endif
