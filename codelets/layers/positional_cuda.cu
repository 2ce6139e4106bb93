/* positional on a GPU; computes the same as positional.c. */
#include "codelets/kernels/cuda.h"

namespace {
/* One part of P: positions [row0, row0 + rows). */
__global__ void forward_kernel(int64_t n, int64_t T, int64_t C, int64_t row0, int64_t rows, const float *x,
                               const float *P, float *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    const int64_t t = i / C % T - row0;
    if (t >= 0 && t < rows) y[i] = x[i] + P[t * C + i % C];
  }
}

__global__ void backward_kernel(int64_t n, int64_t B, int64_t T, int64_t C, int64_t row0, bool add, const float *dy,
                                float *dp) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    const int64_t t = row0 + i / C;
    float sum = add ? dp[i] : 0;
    for (int64_t b = 0; b < B && t < T; b++) sum += dy[(b * T + t) * C + i % C];
    dp[i] = sum;
  }
}
}  // namespace

extern "C" sl_status sl__positional_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape), T = c->out[0].shape.dim[1], C = c->out[0].shape.dim[2];
  for (int p = 0; p < c->in[1].parts; p++) {
    const sl_array *P = &c->in[1].part[p];
    forward_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
        n, T, C, P->row0, P->shape.dim[0], (const float *)c->in[0].data, (const float *)P->data,
        (float *)c->out[0].data);
    SL_TRY(sl_cuda_launched("positional"));
  }
  return SL_OK;
}

extern "C" sl_status sl__positional_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  const sl_shape *dy = &c->in[0].shape;
  backward_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, dy->dim[0], dy->dim[1], dy->dim[2], c->out[0].row0, (c->accumulate & 1) != 0, (const float *)c->in[0].data,
      (float *)c->out[0].data);
  return sl_cuda_launched("positional_grad");
}
