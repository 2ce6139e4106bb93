/* linear on a GPU; the meaning is linear.c's: y = activation(x W^T + b), dx = dy W, dW = dy^T x and db = the column
 * sums of dy. cuBLAS makes the products; bias and activation take one more pass over y. Row blocks of W are columns of
 * y and dy. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct relu {
  __device__ float operator()(float y) const { return y < 0 ? 0 : y; }
};

int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }
int64_t rows_of(const sl_shape *s) { return last(s) ? sl_shape_count(s) / last(s) : 0; }
}  // namespace

/* x [R, K], W [N, K], maybe b [N] -> y [R, N] */
extern "C" sl_status sl__linear_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t R = rows_of(&c->in[0].shape), K = last(&c->in[0].shape), N = last(&c->out[0].shape);
  const float *x = (const float *)c->in[0].data;
  float *y = (float *)c->out[0].data;
  bool rectify = ((const sl_linear_attr *)c->attr)->activation == SL_ACTIVATION_RELU;
  if (R == 0 || N == 0) return SL_OK;
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    SL_TRY(sl_cuda_gemm(cuda, "linear", false, true, R, w->shape.dim[0], K, x, K, (const float *)w->data, K, 0,
                        y + w->row0, N));
  }
  if (c->n_in < 3) return rectify ? sl_cuda_map(cuda, "linear", relu(), R * N, y, (const float *)y) : SL_OK;
  for (int part = 0; part < c->in[2].parts; part++) {
    const sl_array *bias = &c->in[2].part[part];
    SL_TRY(sl_cuda_bias(cuda, "linear", rectify, R, bias->shape.dim[0], N, (const float *)bias->data, y + bias->row0));
  }
  return SL_OK;
}

/* dy [R, N], W [N, K] -> dx [R, K] */
extern "C" sl_status sl__linear_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->out[0].shape);
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    SL_TRY(sl_cuda_gemm(cuda, "linear_dx", false, false, R, K, w->shape.dim[0], (const float *)c->in[0].data + w->row0,
                        N, (const float *)w->data, K, part > 0, (float *)c->out[0].data, K));
  }
  return SL_OK;
}

/* dy [R, N], x [R, K] -> dW [n, K] and maybe db [n], of the rows from out[0].row0 */
extern "C" sl_status sl__linear_dw_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->in[1].shape),
          n = c->out[0].shape.dim[0];
  const float *dy = (const float *)c->in[0].data + c->out[0].row0;
  SL_TRY(sl_cuda_gemm(cuda, "linear_dw", true, false, n, K, R, dy, N, (const float *)c->in[1].data, K,
                      c->accumulate & 1, (float *)c->out[0].data, K));
  if (c->n_out < 2) return SL_OK;
  return sl_cuda_sum_rows(cuda, "linear_dw", R, n, N, dy, (c->accumulate & 2) != 0, (float *)c->out[1].data);
}
