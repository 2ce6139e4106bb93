/* The context of a worker's CUDA kernels. */
#include <stdlib.h>

#include "runtime/machine/cuda_context.h"

/* The size of cuBLAS's workspace that NVIDIA advises for Hopper. cuBLAS chooses algorithms by it, so all GPUs get the
 * same. */
enum { WORKSPACE_BYTES = 32 << 20, FIRST_BYTES = 2 * 64 * 64 * 4 };

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

static sl_status check(cublasStatus_t error, const char *what) {
  if (error == CUBLAS_STATUS_SUCCESS) return SL_OK;
  return sl_fail(error == CUBLAS_STATUS_ALLOC_FAILED ? SL_ENOMEM : SL_ESTARPU, "GPU: %s: %s", what,
                 cublasGetStatusString(error));
}

static sl_status start(sl_cuda *cuda, size_t scratch_bytes) {
  SL_TRY(check(cudaGetDevice(&cuda->device), "its number"));
  if (scratch_bytes) {
    SL_TRY(check(cudaMalloc(&cuda->scratch, scratch_bytes), "scratch memory"));
    cuda->scratch_bytes = scratch_bytes;
  }
  SL_TRY(check(cudaMalloc(&cuda->workspace, WORKSPACE_BYTES + FIRST_BYTES), "cuBLAS's workspace"));
  SL_TRY(check(cublasCreate(&cuda->blas), "cuBLAS"));
  SL_TRY(check(cublasSetStream(cuda->blas, cuda->stream),
               "cuBLAS's stream")); /* resets the workspace, so it comes first */
  SL_TRY(check(cublasSetWorkspace(cuda->blas, cuda->workspace, WORKSPACE_BYTES), "cuBLAS's workspace"));
  /* Plain float arithmetic: no TF32, and no emulation that an environment variable could turn on. */
  SL_TRY(check(cublasSetMathMode(cuda->blas, CUBLAS_PEDANTIC_MATH), "cuBLAS's precision"));
  SL_TRY(check(cublasSetAtomicsMode(cuda->blas, CUBLAS_ATOMICS_NOT_ALLOWED), "cuBLAS's determinism"));
  /* A first product loads cuBLAS's kernels, which would otherwise spoil the first task's time. */
  float *first = (float *)((char *)cuda->workspace + WORKSPACE_BYTES);
  SL_TRY(check(cudaMemsetAsync(first, 0, FIRST_BYTES, cuda->stream), "first use"));
  const float one = 1, zero = 0;
  SL_TRY(check(cublasSgemm(cuda->blas, CUBLAS_OP_T, CUBLAS_OP_N, 64, 64, 64, &one, first, 64, first, 64, &zero,
                           first + 64 * 64, 64),
               "first use"));
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

extern "C" void sl_cuda_destroy(sl_cuda *cuda) {
  if (!cuda) return;
  (void)cudaStreamSynchronize(cuda->stream);
  if (cuda->blas) (void)cublasDestroy(cuda->blas);
  (void)cudaFree(cuda->workspace);
  (void)cudaFree(cuda->scratch);
  free(cuda);
}
