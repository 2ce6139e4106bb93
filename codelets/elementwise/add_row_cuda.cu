/* add_row on a GPU; computes the same as add_row.c. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct element {
  const float *dy;
  int64_t C;
  __device__ float operator()(int64_t i, int64_t k) const { return dy[i * C + k]; }
};
struct add_sum {
  float *dw;
  __device__ void operator()(int64_t, int64_t k, double sum) const { dw[k] = (float)((double)dw[k] + sum); }
};
}  // namespace

static __global__ void add_row_kernel(int64_t n, int64_t C, const float *x, const float *w, float *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) y[i] = x[i] + w[i % C];
}

extern "C" sl_status sl__add_row_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_shape *y = &c->out[0].shape;
  const int64_t n = sl_shape_count(y), C = y->dim[y->ndim - 1];
  if (n == 0) return SL_OK;
  add_row_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, C, (const float *)c->in[0].data, (const float *)c->in[1].data + ((const sl_add_row_attr *)c->attr)->row * C,
      (float *)c->out[0].data);
  return sl_cuda_launched("add_row");
}

extern "C" sl_status sl__add_row_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_add_row_attr *attr = (const sl_add_row_attr *)c->attr;
  const int64_t n = sl_shape_count(&c->in[0].shape), C = c->out[0].shape.dim[1];
  if (C == 0) return SL_OK;
  if (!(c->accumulate & 1))
    SL_TRY(sl_cuda_check(cudaMemsetAsync(c->out[0].data, 0, (size_t)(attr->rows * C) * sizeof(float), cuda->stream),
                         "add_row_grad"));
  return sl_cuda_in_order(cuda, "add_row_grad", n / C, C, n / C, element{(const float *)c->in[0].data, C},
                          add_sum{(float *)c->out[0].data + attr->row * C});
}
