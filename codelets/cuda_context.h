/* The CUDA side as seen from C: making and freeing what the CUDA kernels of one worker share. No CUDA header is needed
 * to include this; the functions exist only in a build with CUDA (SL_HAVE_CUDA). */
#ifndef SL_CUDA_CONTEXT_H
#define SL_CUDA_CONTEXT_H

#include <stddef.h>

#include "tasks/operation.h"

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

#ifdef __cplusplus
}
#endif
#endif
