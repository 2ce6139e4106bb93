/* next_tokens on a GPU; computes the same as next_tokens.c. */
#include "codelets/kernels/cuda.h"

static __global__ void next_tokens_kernel(int64_t n, int64_t T, const int32_t *window, const int32_t *label,
                                          int32_t *token, int32_t *target) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
    const int64_t b = i / T, at = i + b; /* windows have one token more */
    token[i] = window[at];
    target[i] = label[b] < 0 ? -1 : window[at + 1];
  }
}

extern "C" sl_status sl__next_tokens_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  if (n == 0) return SL_OK;
  next_tokens_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, c->out[0].shape.dim[1], (const int32_t *)c->in[0].data, (const int32_t *)c->in[1].data,
      (int32_t *)c->out[0].data, (int32_t *)c->out[1].data);
  return sl_cuda_check(cudaGetLastError(), "next_tokens");
}
