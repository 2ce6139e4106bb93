/* meanpool on a GPU; computes the same as meanpool.c. */
#include "codelets/kernels/cuda.h"

namespace {
__global__ void forward_kernel(int64_t n, int64_t P, int64_t C, const float *x, float *y) {
  const float scale = 1.0f / (float)P;
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    const float *from = x + i / C * P * C + i % C;
    float sum = 0;
    for (int64_t p = 0; p < P; p++) sum += from[p * C];
    y[i] = sum * scale;
  }
}

__global__ void backward_kernel(int64_t n, int64_t P, int64_t C, const float *dy, float *dx) {
  const float scale = 1.0f / (float)P;
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) dx[i] = dy[i / (P * C) * C + i % C] * scale;
}
}  // namespace

extern "C" sl_status sl__meanpool_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape), C = c->out[0].shape.dim[1];
  if (n == 0) return SL_OK;
  forward_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, sl_shape_count(&c->in[0].shape) / n, C, (const float *)c->in[0].data, (float *)c->out[0].data);
  return sl_cuda_launched("meanpool");
}

extern "C" sl_status sl__meanpool_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape), C = c->in[0].shape.dim[1];
  if (n == 0) return SL_OK;
  backward_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, n / sl_shape_count(&c->in[0].shape), C, (const float *)c->in[0].data, (float *)c->out[0].data);
  return sl_cuda_launched("meanpool_grad");
}
