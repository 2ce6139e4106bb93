/* linear on a GPU; the meaning is linear.c's: y = activation(x W^T + b), dx = dy W, dW = dy^T x and db = the column
 * sums of dy. cuBLAS makes the products; bias and activation take one more pass over y. Row blocks of W are columns of
 * y and dy. */
#include "codelets/attributes.h"
#include "codelets/cuda.h"

namespace {
/* y[:, from .. from + n) += b, and the activation; ld columns in all. By fours where V is float4 (n, ld and from are in
 * V then). */
template <bool RELU>
__device__ inline float finish(float y, float b) {
  y += b;
  return RELU && y < 0 ? 0 : y;
}
template <bool RELU>
__device__ inline float4 finish(float4 y, float4 b) {
  return make_float4(finish<RELU>(y.x, b.x), finish<RELU>(y.y, b.y), finish<RELU>(y.z, b.z), finish<RELU>(y.w, b.w));
}
template <bool RELU, class V>
__global__ void finish_kernel(int64_t rows, uint32_t n, int64_t ld, const V *b, V *y) {
  /* a thread keeps its column, so that the division is done once */
  uint32_t groups = (uint32_t)sl_cuda_stride() / n, i = (uint32_t)sl_cuda_index();
  if (i >= groups * n) return;
  uint32_t column = i % n;
  V add = b[column];
  for (int64_t row = i / n; row < rows; row += groups) y[row * ld + column] = finish<RELU>(y[row * ld + column], add);
}

template <bool RELU, class V>
sl_status finish(sl_cuda *cuda, int64_t rows, int64_t n, int64_t ld, const float *b, float *y) {
  const int64_t each = sizeof(V) / sizeof(float), columns = n / each;
  int64_t blocks = sl_cuda_grid(rows * columns); /* at least a thread for each column */
  if (blocks * SL_CUDA_THREADS < columns) blocks = (columns + SL_CUDA_THREADS - 1) / SL_CUDA_THREADS;
  finish_kernel<RELU, V><<<(unsigned)blocks, SL_CUDA_THREADS, 0, cuda->stream>>>(rows, (uint32_t)columns, ld / each,
                                                                                 (const V *)b, (V *)y);
  return sl_cuda_launched("linear");
}

struct relu {
  __device__ float operator()(float y) const { return y < 0 ? 0 : y; }
};

struct column {
  const float *dy;
  int64_t ld;
  __device__ sl_cuda_vector<1> operator()(int64_t m, int64_t n) const { return {{(double)dy[m * ld + n]}}; }
};
struct store {
  float *db;
  bool add;
  __device__ void operator()(int64_t n, sl_cuda_vector<1> sum) const {
    db[n] = add ? db[n] + (float)sum.v[0] : (float)sum.v[0];
  }
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
    const float *b = (const float *)bias->data;
    float *to = y + bias->row0;
    int64_t n = bias->shape.dim[0];
    if (n == 0) continue;
    if (n % 4 == 0 && N % 4 == 0 && sl_cuda_aligned(b) && sl_cuda_aligned(to))
      SL_TRY((rectify ? finish<true, float4> : finish<false, float4>)(cuda, R, n, N, b, to));
    else
      SL_TRY((rectify ? finish<true, float> : finish<false, float>)(cuda, R, n, N, b, to));
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
  return sl_cuda_columns<1>(cuda, "linear_dw", 0, R, n, column{dy, N},
                            store{(float *)c->out[1].data, (c->accumulate & 2) != 0});
}
