/* The context of a worker's CUDA kernels. */
#include <stdlib.h>

#include "runtime/machine/cuda_context.h"

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

static sl_status start(sl_cuda *cuda, size_t scratch_bytes) {
  SL_TRY(check(cudaGetDevice(&cuda->device), "its number"));
  if (scratch_bytes) {
    SL_TRY(check(cudaMalloc(&cuda->scratch, scratch_bytes), "scratch memory"));
    cuda->scratch_bytes = scratch_bytes;
  }
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
  (void)cudaFree(cuda->scratch);
  free(cuda);
}
