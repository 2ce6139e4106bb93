/* The stream and scratch memory that the CUDA kernels of one worker share. C files see it as opaque and need no CUDA
 * header; .cu files see its members. The functions exist only in a build with CUDA (SL_HAVE_CUDA). */
#ifndef SL_CUDA_CONTEXT_H
#define SL_CUDA_CONTEXT_H

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of GPUs. Exact ones have the bits of CPUs; fast ones use cuBLAS. TF32: fast kernels that also
 * multiply floats on tensor cores. These round factors to 11 significant bits and add in float. */
typedef enum sl_gpu_kernels { SL_GPU_EXACT, SL_GPU_FAST, SL_GPU_TF32 } sl_gpu_kernels;

typedef struct sl_cuda sl_cuda;
enum { SL_CUDA_MARKS = 16 }; /* more than StarPU queues on a stream at once */

#ifdef __CUDACC__
struct sl_cuda {
  cudaStream_t stream;
  void *scratch; /* 256-byte aligned; used by one task at a time, in the order of the stream */
  size_t scratch_bytes;
  int device;
  cudaEvent_t anchor; /* was reached at anchor_ns of the host's clock */
  struct {
    cudaEvent_t start, end;
  } mark[SL_CUDA_MARKS];
  int next, open;             /* the next pair to use; pairs in use */
  int64_t anchor_ns, last_ns; /* last_ns: end of the latest mark that was read */
  struct cublasContext *blas; /* NULL before sl_cuda_open_blas */
  void *blas_space;
  size_t blas_bytes;
};
#endif

/* Number of GPUs that this process can use; 0 when there is no driver. Starts nothing on them. */
int sl_cuda_devices(void);

/* Makes the context on the calling thread's current device. stream: a cudaStream_t that outlives it; NULL: the default
 * stream. scratch_bytes: the greatest scratch_cuda of all tasks that will run with it. Call it once for each worker,
 * outside of steps: it allocates and waits. One task at a time may queue work with it; the stream runs queued tasks in
 * turn, so they can share the scratch. On failure returns NULL and sets *status, unless that is NULL (SL_EUNSUPPORTED:
 * no GPU; SL_ENOMEM; SL_ESTARPU). */
sl_cuda *sl_cuda_create(void *stream, size_t scratch_bytes, sl_status *status);
/* Prepares cuBLAS on the context's stream, for fast kernels. Its results are reproducible on devices of one kind: no
 * atomics, sums in float, a work space of fixed size. SL_ENOMEM, SL_ESTARPU; SL_EUNSUPPORTED: the GPU has no TF32, or
 * multiplies no bf16 although kernels do (bf16 = 1). */
sl_status sl_cuda_open_blas(sl_cuda *cuda, sl_gpu_kernels kernels, int bf16);
/* Forgets a failure of an earlier call of the CUDA runtime on this thread: StarPU leaves that of an allocation that it
 * makes up for by evicting data, and the next launch would be taken for failed. Failures of kernels stay. */
void sl_cuda_forget_error(void);
/* The scratch memory. */
void *sl_cuda_scratch_memory(const sl_cuda *cuda);
/* Bytes of device memory that the context holds: scratch, and the work space of cuBLAS. */
size_t sl_cuda_bytes(const sl_cuda *cuda);
/* Waits for the stream. NULL is allowed. */
void sl_cuda_destroy(sl_cuda *cuda);
/* Waits for the stream, then copies device memory to the host. */
sl_status sl_cuda_read(sl_cuda *cuda, void *to, const void *from, size_t bytes);

/* Times of work on the device, measured by events. Queue the work between begin, which returns the mark's number, and
 * end. Read the mark when the work has ended, in the order of begin, on the same thread. Times are ns of sl_now(),
 * accurate to some microseconds: whenever the stream is idle, an event ties the device's clock to the host's. Marks of
 * a context do not overlap. begin returns -1 if SL_CUDA_MARKS marks are in use. */
int sl_cuda_mark_begin(sl_cuda *cuda);
void sl_cuda_mark_end(sl_cuda *cuda, int mark);
void sl_cuda_mark_read(sl_cuda *cuda, int mark, int64_t *start, int64_t *end);

#ifdef __cplusplus
}
#endif
#endif
