/* linear on a GPU; computes the same as linear.c, with the same order of sums: y = activation(x W^T + b), dx = dy W, dW
 * = dy^T x and db = the column sums of dy. Row blocks of W are columns of y and dy. The fast kernels use cuBLAS for the
 * products. T is the type of activations and of W, float or sl_bf16. */
#include "codelets/attributes.h"
#include "codelets/kernels/blas_cuda.h"
#include "codelets/kernels/product_cuda.h"

namespace {
struct relu {
  __device__ float operator()(float y) const { return y < 0 ? 0 : y; }
};

int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }
int64_t rows_of(const sl_shape *s) { return last(s) ? sl_shape_count(s) / last(s) : 0; }
int pieces_of(int64_t n) { return n > SL_PRODUCT_DEPTH ? (int)((n + SL_PRODUCT_DEPTH - 1) / SL_PRODUCT_DEPTH) : 1; }
template <class T>
bool wide(const T *p, int64_t ld) {
  return sl_cuda_aligned(p) && ld % 4 == 0;
}

template <class T>
using by_k = sl_cuda_even_pieces<sl_cuda_narrow<T>>;
template <class T>
using by_row = sl_cuda_each_pieces<sl_cuda_narrow<T>>;
template <class T>
by_row<T> sums_of(int64_t rows) {
  return {rows, SL_LINEAR_SUM_BLOCK, (int)((rows + SL_LINEAR_SUM_BLOCK - 1) / SL_LINEAR_SUM_BLOCK)};
}

/* y[m ld + n] = sums[m ld + n] + b[n] (b may be NULL), rectified if asked for, then rounded. */
template <bool RECTIFY>
__global__ void finish_kernel(int64_t rows, int64_t N, int64_t ld, const float *sums, const float *b, sl_bf16 *y) {
  for (int64_t e = sl_cuda_index(); e < rows * N; e += sl_cuda_stride()) {
    const int64_t m = e / N, n = e - m * N;
    const float sum = b ? sums[m * ld + n] + b[n] : sums[m * ld + n];
    sl_put(y + m * ld + n, RECTIFY && sum < 0 ? 0 : sum);
  }
}
sl_status finish_part(sl_cuda *cuda, bool rectify, int64_t R, int64_t n, int64_t N, const float *sums, const float *b,
                      sl_bf16 *y) {
  if (R * n == 0) return SL_OK;
  const unsigned grid = sl_cuda_grid(R * n);
  if (rectify)
    finish_kernel<true><<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(R, n, N, sums, b, y);
  else
    finish_kernel<false><<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(R, n, N, sums, b, y);
  return sl_cuda_launched("linear");
}

/* y [R, N] = the sums, with the bias, if there is one, and the activation. */
template <class T>
sl_status finish(const sl_call *c, sl_cuda *cuda, int64_t R, int64_t N, float *sums) {
  const bool rectify = ((const sl_linear_attr *)c->attr)->activation == SL_ACTIVATION_RELU;
  T *y = (T *)c->out[0].data;
  if (c->n_in < 3) {
    if constexpr (sl_cuda_narrow<T>) return finish_part(cuda, rectify, R, N, N, sums, NULL, y);
    return rectify ? sl_cuda_map(cuda, "linear", relu(), R * N, sums, (const float *)sums) : SL_OK;
  }
  for (int part = 0; part < c->in[2].parts; part++) {
    const sl_array *bias = &c->in[2].part[part];
    const float *b = (const float *)bias->data;
    const int64_t n = bias->shape.dim[0];
    if constexpr (sl_cuda_narrow<T>)
      SL_TRY(finish_part(cuda, rectify, R, n, N, sums + bias->row0, b, y + bias->row0));
    else
      SL_TRY(sl_cuda_bias(cuda, "linear", rectify, R, n, N, b, sums + bias->row0));
  }
  return SL_OK;
}

/* dy [R, N] -> maybe db [n], the column sums from out[0].row0 on */
template <class T>
sl_status bias_gradient(const sl_call *c, sl_cuda *cuda, int64_t R, int64_t N) {
  if (c->n_out < 2) return SL_OK;
  const T *dy = (const T *)c->in[0].data + c->out[0].row0;
  return sl_cuda_column_sums(cuda, "linear_dw", 0, sums_of<T>(R), c->out[0].shape.dim[0], N, dy,
                             c->accumulate & 2 ? SL_CUDA_ADD_BEFORE : SL_CUDA_OVERWRITE, (float *)c->out[1].data);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* C += or = x W^T, dy W, dy^T x; x [R, K], W [n, K], dy: n columns of [R, N]. C's rows lie ld apart. */
template <class T>
struct exact {
  sl_cuda *cuda;
  size_t scratch; /* offset of the free scratch memory */

  sl_status y(int64_t R, int64_t K, int64_t n, const T *x, const T *W, float *C, int64_t ld) const {
    const by_k<T> pieces = {K, pieces_of(K)};
    return sl_cuda_either(wide(x, K) && wide(W, K), [&](auto is_wide) {
      using rows = sl_cuda_rows_of<decltype(is_wide)::value, T, by_k<T>>;
      return sl_cuda_product(cuda, "linear", scratch, R, n, rows{x, K, R, pieces}, rows{W, K, n, pieces}, pieces,
                             sl_cuda_matrix{C, ld}, wide(C, ld), NULL, SL_CUDA_OVERWRITE);
    });
  }
  sl_status dx(int64_t R, int64_t N, int64_t n, int64_t K, const T *dy, const T *W, bool add, float *C) const {
    const by_k<T> pieces = {n, pieces_of(n)};
    return sl_cuda_either(wide(dy, N) && wide(W, K), [&](auto is_wide) {
      constexpr bool WIDE = decltype(is_wide)::value;
      return sl_cuda_product(cuda, "linear_dx", scratch, R, K, sl_cuda_rows_of<WIDE, T, by_k<T>>{dy, N, R, pieces},
                             sl_cuda_columns_of<WIDE, T, by_k<T>>{W, K, K, pieces}, pieces, sl_cuda_matrix{C, K},
                             wide(C, K), NULL, add ? SL_CUDA_ADD_BEFORE : SL_CUDA_OVERWRITE);
    });
  }
  sl_status dw(int64_t R, int64_t N, int64_t n, int64_t K, const T *dy, const T *x, bool add, float *C) const {
    const by_row<T> pieces = sums_of<T>(R);
    return sl_cuda_either(wide(dy, N) && wide(x, K), [&](auto is_wide) {
      using columns = sl_cuda_columns_of<decltype(is_wide)::value, T, by_row<T>>;
      return sl_cuda_product(cuda, "linear_dw", scratch, n, K, columns{dy, N, n, pieces}, columns{x, K, K, pieces},
                             pieces, sl_cuda_matrix{C, K}, wide(C, K), NULL,
                             add ? SL_CUDA_ADD_BEFORE : SL_CUDA_OVERWRITE);
    });
  }
};

/* The same products by cuBLAS. */
template <class T>
struct fast {
  sl_cuda *cuda;
  size_t scratch;

  sl_status y(int64_t R, int64_t K, int64_t n, const T *x, const T *W, float *C, int64_t ld) const {
    return sl_cuda_blas(cuda, "linear", true, false, n, R, K, W, K, x, K, false, C, ld); /* y^T = W x^T */
  }
  sl_status dx(int64_t R, int64_t N, int64_t n, int64_t K, const T *dy, const T *W, bool add, float *C) const {
    return sl_cuda_blas(cuda, "linear_dx", false, false, K, R, n, W, K, dy, N, add, C, K); /* dx^T = W^T dy^T */
  }
  sl_status dw(int64_t R, int64_t N, int64_t n, int64_t K, const T *dy, const T *x, bool add, float *C) const {
    return sl_cuda_blas(cuda, "linear_dw", false, true, K, n, R, x, K, dy, N, add, C, K); /* dW^T = x^T dy */
  }
};

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* x [R, K], W [N, K], maybe b [N] -> y [R, N] */
template <template <class> class PRODUCTS, class T>
sl_status linear(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), K = last(&c->in[0].shape), N = last(&c->out[0].shape);
  if (R == 0 || N == 0) return SL_OK;
  const size_t bytes = sl_cuda_sums_bytes<T>(c);
  float *sums = sl_cuda_sums_at<T>(c, cuda);
  SL_TRY(sl_cuda_scratch(cuda, bytes, "linear"));
  const PRODUCTS<T> products = {cuda, bytes};
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    SL_TRY(products.y(R, K, w->shape.dim[0], (const T *)c->in[0].data, (const T *)w->data, sums + w->row0, N));
  }
  return finish<T>(c, cuda, R, N, sums);
}

/* dy [R, N], W [N, K] -> dx [R, K]; each part of W has pieces of its own */
template <template <class> class PRODUCTS, class T>
sl_status linear_dx(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->out[0].shape);
  const size_t bytes = sl_cuda_sums_bytes<T>(c);
  float *sums = sl_cuda_sums_at<T>(c, cuda);
  SL_TRY(sl_cuda_scratch(cuda, bytes, "linear_dx"));
  const PRODUCTS<T> products = {cuda, bytes};
  for (int part = 0; part < c->in[1].parts; part++) {
    const sl_array *w = &c->in[1].part[part];
    SL_TRY(
        products.dx(R, N, w->shape.dim[0], K, (const T *)c->in[0].data + w->row0, (const T *)w->data, part > 0, sums));
  }
  return sl_cuda_round_sums<T>(c, cuda, "linear_dx");
}

/* dy [R, N], x [R, K] -> dW [n, K], the features from out[0].row0 on, and maybe db [n] */
template <template <class> class PRODUCTS, class T>
sl_status linear_dw(const sl_call *c, sl_cuda *cuda) {
  const int64_t R = rows_of(&c->in[0].shape), N = last(&c->in[0].shape), K = last(&c->in[1].shape);
  const PRODUCTS<T> products = {cuda, 0};
  SL_TRY(products.dw(R, N, c->out[0].shape.dim[0], K, (const T *)c->in[0].data + c->out[0].row0,
                     (const T *)c->in[1].data, c->accumulate & 1, (float *)c->out[0].data));
  /* On the stream, the column sums run after the products, so both may use the same scratch memory. */
  return bias_gradient<T>(c, cuda, R, N);
}

bool in_bf16(const sl_call *c) { return c->in[0].dtype == SL_BF16; }
}  // namespace

extern "C" sl_status sl__linear_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? linear<exact, sl_bf16> : linear<exact, float>)(c, cuda);
}
extern "C" sl_status sl__linear_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? linear_dx<exact, sl_bf16> : linear_dx<exact, float>)(c, cuda);
}
extern "C" sl_status sl__linear_dw_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? linear_dw<exact, sl_bf16> : linear_dw<exact, float>)(c, cuda);
}
extern "C" sl_status sl__linear_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? linear<fast, sl_bf16> : linear<fast, float>)(c, cuda);
}
extern "C" sl_status sl__linear_dx_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? linear_dx<fast, sl_bf16> : linear_dx<fast, float>)(c, cuda);
}
extern "C" sl_status sl__linear_dw_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (in_bf16(c) ? linear_dw<fast, sl_bf16> : linear_dw<fast, float>)(c, cuda);
}
