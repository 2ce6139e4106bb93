/* class_token, first_token and their gradients on a GPU; computes the same as class_token.c. */
#include "codelets/kernels/cuda.h"

namespace {
/* Writes one part of the token, features [row0, row0 + rows); with the first part (x not NULL) also the rest of y. */
__global__ void prepend_kernel(int64_t n, int64_t T, int64_t C, int64_t row0, int64_t rows, const float *x,
                               const float *token, float *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    const int64_t b = i / (T * C), at = i - b * T * C;
    if (at >= row0 && at < row0 + rows)
      y[i] = token[at - row0];
    else if (at >= C && x)
      y[i] = x[b * (T - 1) * C + at - C];
  }
}

/* Writes dx, then dtoken. */
__global__ void prepend_grad_kernel(int64_t n, int64_t B, int64_t T, int64_t C, bool add, const float *dy, float *dx,
                                    float *token) {
  for (int64_t i = sl_cuda_index(); i < n + C; i += sl_cuda_stride())
    if (i < n) {
      dx[i] = dy[i + (i / ((T - 1) * C) + 1) * C];
    } else {
      const int64_t k = i - n;
      float sum = add ? token[k] : 0;
      for (int64_t b = 0; b < B; b++) sum += dy[b * T * C + k];
      token[k] = sum;
    }
}

__global__ void first_kernel(int64_t n, int64_t T, int64_t C, const float *x, float *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) y[i] = x[i / C * T * C + i % C];
}

__global__ void first_grad_kernel(int64_t n, int64_t T, int64_t C, const float *dy, float *dx) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    const int64_t b = i / (T * C), at = i - b * T * C;
    dx[i] = at < C ? dy[b * C + at] : 0;
  }
}
}  // namespace

extern "C" sl_status sl__class_token_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape), T = c->out[0].shape.dim[1], C = c->out[0].shape.dim[2];
  for (int p = 0; p < c->in[1].parts; p++) {
    const sl_array *token = &c->in[1].part[p];
    prepend_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
        n, T, C, token->row0, token->shape.dim[0], p ? NULL : (const float *)c->in[0].data, (const float *)token->data,
        (float *)c->out[0].data);
    SL_TRY(sl_cuda_launched("class_token"));
  }
  return SL_OK;
}

extern "C" sl_status sl__class_token_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_shape *dy = &c->in[0].shape;
  const int64_t n = sl_shape_count(&c->out[0].shape);
  prepend_grad_kernel<<<sl_cuda_grid(n + dy->dim[2]), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, dy->dim[0], dy->dim[1], dy->dim[2], (c->accumulate & 2) != 0, (const float *)c->in[0].data,
      (float *)c->out[0].data, (float *)c->out[1].data);
  return sl_cuda_launched("class_token_grad");
}

extern "C" sl_status sl__first_token_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  first_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, c->in[0].shape.dim[1], c->in[0].shape.dim[2], (const float *)c->in[0].data, (float *)c->out[0].data);
  return sl_cuda_launched("first_token");
}

extern "C" sl_status sl__first_token_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  first_grad_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, c->out[0].shape.dim[1], c->out[0].shape.dim[2], (const float *)c->in[0].data, (float *)c->out[0].data);
  return sl_cuda_launched("first_token_grad");
}
