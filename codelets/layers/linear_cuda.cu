/* linear on a GPU; the meaning and the order of sums are linear.c's: y = activation(x W^T + b), dx = dy W, dW = dy^T x
 * and db = the column sums of dy. Row blocks of W are columns of y and dy. The fast kernels leave the products, and the
 * order of their sums, to cuBLAS. */
#include <cublas_v2.h>
#include <limits.h>

#include "codelets/attributes.h"
#include "codelets/kernels/product_cuda.h"

namespace {
struct relu {
  __device__ float operator()(float y) const { return y < 0 ? 0 : y; }
};

int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }
int64_t rows_of(const sl_shape *s) { return last(s) ? sl_shape_count(s) / last(s) : 0; }
int pieces_of(int64_t n) { return n > SL_PRODUCT_DEPTH ? (int)((n + SL_PRODUCT_DEPTH - 1) / SL_PRODUCT_DEPTH) : 1; }
sl_cuda_each_pieces sums_of(int64_t rows) {
  return {rows, SL_LINEAR_SUM_BLOCK, (int)((rows + SL_LINEAR_SUM_BLOCK - 1) / SL_LINEAR_SUM_BLOCK)};
}
bool wide(const void *p, int64_t ld) { return sl_cuda_aligned(p) && ld % 4 == 0; }

template <bool WIDE>
using rows_by_k = sl_cuda_rows_of<WIDE, sl_cuda_even_pieces>;
template <bool WIDE>
using columns_by_k = sl_cuda_columns_of<WIDE, sl_cuda_even_pieces>;
template <bool WIDE>
using columns_by_row = sl_cuda_columns_of<WIDE, sl_cuda_each_pieces>;
}  // namespace

/* y [R, N]: adds the bias, if there is one, and applies the activation. */
static sl_status finish(const sl_call *c, sl_cuda *cuda, int64_t R, int64_t N) {
  const bool rectify = ((const sl_linear_attr *)c->attr)->activation == SL_ACTIVATION_RELU;
  float *y = (float *)c->out[0].data;
  if (c->n_in < 3) return rectify ? sl_cuda_map(cuda, "linear", relu(), R * N, y, (const float *)y) : SL_OK;
  for (int part = 0; part < c->in[2].parts; part++) {
    const sl_array *bias = &c->in[2].part[part];
    SL_TRY(sl_cuda_bias(cuda, "linear", rectify, R, bias->shape.dim[0], N, (const float *)bias->data, y + bias->row0));
  }
  return SL_OK;
}

/* dy [R, N] -> maybe db [n], the column sums from out[0].row0 on */
static sl_status bias_gradient(const sl_call *c, sl_cuda *cuda, int64_t N, const sl_cuda_each_pieces &pieces) {
  if (c->n_out < 2) return SL_OK;
  const float *dy = (const float *)c->in[0].data + c->out[0].row0;
  return sl_cuda_column_sums(cuda, "linear_dw", 0, pieces, c->out[0].shape.dim[0], N, dy,
                             c->accumulate & 2 ? SL_CUDA_ADD_BEFORE : SL_CUDA_OVERWRITE, (float *)c->out[1].data);
}

/* x [R, K], W [N, K], maybe b [N] -> y [R, N] */
extern "C" sl_status sl__linear_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), K = last(&c->in[0].shape), N = last(&c->out[0].shape);
  const float *x = (const float *)c->in[0].data;
  float *y = (float *)c->out[0].data;
  if (R == 0 || N == 0) return SL_OK;
  const sl_cuda_even_pieces pieces = {K, pieces_of(K)};
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    const int64_t n = w->shape.dim[0];
    const float *W = (const float *)w->data;
    float *to = y + w->row0;
    SL_TRY(sl_cuda_either(wide(x, K) && wide(W, K), [&](auto is_wide) {
      using rows = rows_by_k<decltype(is_wide)::value>;
      return sl_cuda_product(cuda, "linear", 0, R, n, rows{x, K, R, pieces}, rows{W, K, n, pieces}, pieces,
                             sl_cuda_matrix{to, N}, wide(to, N), NULL, SL_CUDA_OVERWRITE);
    }));
  }
  return finish(c, cuda, R, N);
}

/* dy [R, N], W [N, K] -> dx [R, K]; each part of W has pieces of its own */
extern "C" sl_status sl__linear_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->out[0].shape);
  float *dx = (float *)c->out[0].data;
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    const float *W = (const float *)w->data, *dy = (const float *)c->in[0].data + w->row0;
    const sl_cuda_even_pieces pieces = {w->shape.dim[0], pieces_of(w->shape.dim[0])};
    const sl_cuda_adding adding = part ? SL_CUDA_ADD_BEFORE : SL_CUDA_OVERWRITE;
    SL_TRY(sl_cuda_either(wide(dy, N) && wide(W, K), [&](auto is_wide) {
      constexpr bool WIDE = decltype(is_wide)::value;
      return sl_cuda_product(cuda, "linear_dx", 0, R, K, rows_by_k<WIDE>{dy, N, R, pieces},
                             columns_by_k<WIDE>{W, K, K, pieces}, pieces, sl_cuda_matrix{dx, K}, wide(dx, K), NULL,
                             adding);
    }));
  }
  return SL_OK;
}

/* dy [R, N], x [R, K] -> dW [n, K] and maybe db [n], of the rows from out[0].row0 */
extern "C" sl_status sl__linear_dw_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->in[1].shape),
                n = c->out[0].shape.dim[0];
  const float *dy = (const float *)c->in[0].data + c->out[0].row0, *x = (const float *)c->in[1].data;
  float *dW = (float *)c->out[0].data;
  const sl_cuda_each_pieces pieces = sums_of(R);
  const sl_cuda_adding adding = c->accumulate & 1 ? SL_CUDA_ADD_BEFORE : SL_CUDA_OVERWRITE;
  SL_TRY(sl_cuda_either(wide(dy, N) && wide(x, K), [&](auto is_wide) {
    using columns = columns_by_row<decltype(is_wide)::value>;
    return sl_cuda_product(cuda, "linear_dw", 0, n, K, columns{dy, N, n, pieces}, columns{x, K, K, pieces}, pieces,
                           sl_cuda_matrix{dW, K}, wide(dW, K), NULL, adding);
  }));
  /* On the stream the sums come after the products, so that they may use the same memory. */
  return bias_gradient(c, cuda, N, pieces);
}

/* ---- fast kernels: cuBLAS ---------------------------------------------------------------------------------------- */

/* C = op(A) op(B), or C += ..., by columns as cuBLAS has it: C [m, n] with ldc floats from column to column. */
static sl_status product(sl_cuda *cuda, const char *operation, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                         int64_t k, const float *A, int64_t lda, const float *B, int64_t ldb, bool add, float *C,
                         int64_t ldc) {
  const float one = 1, beta = add ? 1 : 0;
  if (m == 0 || n == 0) return SL_OK;
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX)
    return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS takes no matrix of more than %d rows or columns", operation, INT_MAX);
  const cublasStatus_t status =
      cublasSgemm(cuda->blas, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, (int)m,
                  (int)n, (int)k, &one, A, (int)lda, B, (int)ldb, &beta, C, (int)ldc);
  if (status == CUBLAS_STATUS_SUCCESS) return SL_OK;
  return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS: %s", operation, cublasGetStatusString(status));
}

extern "C" sl_status sl__linear_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), K = last(&c->in[0].shape), N = last(&c->out[0].shape);
  if (R == 0 || N == 0) return SL_OK;
  for (int part = 0; part < c->in[1].parts; part++) { /* y^T = W x^T */
    const sl_array *w = &c->in[1].part[part];
    SL_TRY(product(cuda, "linear", true, false, w->shape.dim[0], R, K, (const float *)w->data, K,
                   (const float *)c->in[0].data, K, false, (float *)c->out[0].data + w->row0, N));
  }
  return finish(c, cuda, R, N);
}

extern "C" sl_status sl__linear_dx_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->out[0].shape);
  for (int part = 0; part < c->in[1].parts; part++) { /* dx^T = W^T dy^T */
    const sl_array *w = &c->in[1].part[part];
    SL_TRY(product(cuda, "linear_dx", false, false, K, R, w->shape.dim[0], (const float *)w->data, K,
                   (const float *)c->in[0].data + w->row0, N, part > 0, (float *)c->out[0].data, K));
  }
  return SL_OK;
}

extern "C" sl_status sl__linear_dw_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->in[1].shape);
  /* dW^T = x^T dy */
  SL_TRY(product(cuda, "linear_dw", false, true, K, c->out[0].shape.dim[0], R, (const float *)c->in[1].data, K,
                 (const float *)c->in[0].data + c->out[0].row0, N, c->accumulate & 1, (float *)c->out[0].data, K));
  return bias_gradient(c, cuda, N, sums_of(R));
}
