/* The context of a worker's CUDA kernels. */
#include <cublas_v2.h>
#include <stdlib.h>

#include "runtime/base/time.h"
#include "runtime/processors/cuda_context.h"

extern "C" int sl_cuda_devices(void) {
  int n = 0;
  if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
  (void)cudaGetLastError(); /* without driver or GPU: clears the error, so that later calls do not report it */
  return 0;
}

static sl_status check(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return SL_OK;
  (void)cudaGetLastError();
  return sl_fail(error == cudaErrorMemoryAllocation ? SL_ENOMEM : SL_ESTARPU, "GPU: %s: %s", what,
                 cudaGetErrorString(error));
}

static sl_status reserve(const sl_cuda *cuda, void **memory, size_t bytes, const char *what) {
  size_t left = 0, all = 0;
  if (cudaMalloc(memory, bytes) == cudaSuccess) return SL_OK;
  (void)cudaGetLastError();
  (void)cudaMemGetInfo(&left, &all);
  return sl_fail(SL_ENOMEM, "GPU %d: no memory for %s, %.1f MB: %.1f of its %.1f MB are free", cuda->device, what,
                 1e-6 * (double)bytes, 1e-6 * (double)left, 1e-6 * (double)all);
}

static sl_status start(sl_cuda *cuda, size_t scratch_bytes) {
  SL_TRY(check(cudaGetDevice(&cuda->device), "its number"));
  if (scratch_bytes) {
    SL_TRY(reserve(cuda, &cuda->scratch, scratch_bytes, "the scratch of kernels"));
    cuda->scratch_bytes = scratch_bytes;
  }
  cudaError_t error = cudaEventCreate(&cuda->anchor);
  for (int i = 0; i < SL_CUDA_MARKS && error == cudaSuccess; i++) {
    error = cudaEventCreate(&cuda->mark[i].start);
    if (error == cudaSuccess) error = cudaEventCreate(&cuda->mark[i].end);
  }
  SL_TRY(check(error, "events"));
  return check(cudaStreamSynchronize(cuda->stream), "first use");
}

extern "C" sl_cuda *sl_cuda_create(void *stream, size_t scratch_bytes, sl_status *status) {
  sl_status ignored;
  if (!status) status = &ignored;
  if (sl_cuda_devices() == 0) {
    *status = sl_fail(SL_EUNSUPPORTED, "no GPU that CUDA can use (nvidia-smi shows what there is)");
    return NULL;
  }
  sl_cuda *cuda = (sl_cuda *)calloc(1, sizeof *cuda);
  if (!cuda) {
    *status = sl_no_memory("for the state of a GPU worker");
    return NULL;
  }
  cuda->stream = (cudaStream_t)stream;
  *status = start(cuda, scratch_bytes);
  if (*status == SL_OK) return cuda;
  sl_cuda_destroy(cuda);
  return NULL;
}

/* Size of cuBLAS's work space that NVIDIA recommends, for large GPUs and for others. */
static size_t blas_bytes() {
  size_t left, all;
  return cudaMemGetInfo(&left, &all) == cudaSuccess && all >= (size_t)16 << 30 ? (size_t)32 << 20 : (size_t)4 << 20;
}

extern "C" sl_status sl_cuda_open_blas(sl_cuda *cuda, sl_gpu_kernels kernels, int bf16) {
  const size_t bytes = blas_bytes();
  int generation = 0;
  if ((kernels == SL_GPU_TF32 || bf16) &&
      (cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, cuda->device) != cudaSuccess ||
       generation < 8))
    return sl_blame(sl_fail(SL_EUNSUPPORTED, "GPU %d has no %s (its compute capability is %d, not 8 or more)",
                            cuda->device, kernels == SL_GPU_TF32 ? "TF32" : "products of bf16", generation),
                    "gpu_kernels");
  SL_TRY(reserve(cuda, &cuda->blas_space, bytes, "the work space of cuBLAS"));
  cuda->blas_bytes = bytes;
  cublasStatus_t status = cublasCreate(&cuda->blas);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetStream(cuda->blas, cuda->stream);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetWorkspace(cuda->blas, cuda->blas_space, bytes);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasSetMathMode(cuda->blas, kernels == SL_GPU_TF32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetAtomicsMode(cuda->blas, CUBLAS_ATOMICS_NOT_ALLOWED);
  if (status == CUBLAS_STATUS_SUCCESS) return SL_OK;
  return sl_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? SL_ENOMEM : SL_ESTARPU, "GPU %d: cuBLAS: %s", cuda->device,
                 cublasGetStatusString(status));
}

extern "C" void sl_cuda_forget_error(void) { (void)cudaGetLastError(); }

extern "C" void *sl_cuda_scratch_memory(const sl_cuda *cuda) { return cuda->scratch; }

extern "C" size_t sl_cuda_bytes(const sl_cuda *cuda) { return cuda->scratch_bytes + cuda->blas_bytes; }

extern "C" void sl_cuda_destroy(sl_cuda *cuda) {
  if (!cuda) return;
  (void)cudaStreamSynchronize(cuda->stream);
  if (cuda->blas) (void)cublasDestroy(cuda->blas);
  (void)cudaFree(cuda->blas_space);
  (void)cudaFree(cuda->scratch);
  for (int i = 0; i < SL_CUDA_MARKS; i++) {
    if (cuda->mark[i].start) (void)cudaEventDestroy(cuda->mark[i].start);
    if (cuda->mark[i].end) (void)cudaEventDestroy(cuda->mark[i].end);
  }
  if (cuda->anchor) (void)cudaEventDestroy(cuda->anchor);
  free(cuda);
}

extern "C" sl_status sl_cuda_read(sl_cuda *cuda, void *to, const void *from, size_t bytes) {
  SL_TRY(check(cudaStreamSynchronize(cuda->stream), "a kernel"));
  return check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "a copy to the host");
}

extern "C" int sl_cuda_mark_begin(sl_cuda *cuda) {
  if (cuda->open == SL_CUDA_MARKS) return -1;
  const int mark = cuda->next;
  cuda->next = (mark + 1) % SL_CUDA_MARKS;
  if (cuda->open++ == 0) { /* the stream is idle, so the event is reached at once */
    (void)cudaEventRecord(cuda->anchor, cuda->stream);
    cuda->anchor_ns = sl_now();
  }
  (void)cudaEventRecord(cuda->mark[mark].start, cuda->stream);
  return mark;
}

extern "C" void sl_cuda_mark_end(sl_cuda *cuda, int mark) { (void)cudaEventRecord(cuda->mark[mark].end, cuda->stream); }

/* Time of an event; `otherwise` if the device has failed. */
static int64_t time_of(const sl_cuda *cuda, cudaEvent_t event, int64_t otherwise) {
  float ms = 0;
  if (cudaEventElapsedTime(&ms, cuda->anchor, event) != cudaSuccess) return otherwise;
  return cuda->anchor_ns + (int64_t)(1e6 * (double)ms);
}

extern "C" void sl_cuda_mark_read(sl_cuda *cuda, int mark, int64_t *start, int64_t *end) {
  const int64_t now = sl_now();
  *end = time_of(cuda, cuda->mark[mark].end, now);
  *start = time_of(cuda, cuda->mark[mark].start, *end);
  if (*end > now) *end = now;
  if (*start < cuda->last_ns) *start = cuda->last_ns;
  if (*start > *end) *start = *end;
  cuda->last_ns = *end;
  cuda->open--;
}
