/* The parts of linear layers and convolutions on a GPU: cuBLAS's product, bias with activation, sums down columns. */
#include <limits.h>

#include "codelets/kernels/cuda.h"

sl_status sl_cuda_gemm(sl_cuda *cuda, const char *operation, bool transpose_a, bool transpose_b, int64_t M, int64_t N,
                       int64_t K, const float *A, int64_t lda, const float *B, int64_t ldb, float beta, float *C,
                       int64_t ldc) {
  if (M == 0 || N == 0) return SL_OK;
  const int64_t size[] = {M, N, K, lda, ldb, ldc};
  for (int64_t n : size)
    if (n > INT_MAX)
      return sl_fail(SL_ETASK, "%s on a GPU: a matrix dimension of %lld is beyond cuBLAS; use more shards", operation,
                     (long long)n);
  const float one = 1;
  cublasStatus_t status =
      cublasSgemm(cuda->blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)N,
                  (int)M, (int)K, &one, B, (int)ldb, A, (int)lda, &beta, C, (int)ldc);
  if (status == CUBLAS_STATUS_SUCCESS) return SL_OK;
  return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS: %s", operation, cublasGetStatusString(status));
}

namespace {
template <bool RECTIFY>
__device__ inline float finish(float y, float b) {
  y += b;
  return RECTIFY && y < 0 ? 0 : y;
}
template <bool RECTIFY>
__device__ inline float4 finish(float4 y, float4 b) {
  return make_float4(finish<RECTIFY>(y.x, b.x), finish<RECTIFY>(y.y, b.y), finish<RECTIFY>(y.z, b.z),
                     finish<RECTIFY>(y.w, b.w));
}

/* V is float, or float4 if N, ld and the addresses allow; N and ld then count float4. A thread stays in its column, so
 * it divides and reads the bias only once; the grid has at least one thread per column. */
template <bool RECTIFY, class V>
__global__ void bias_kernel(int64_t rows, int64_t N, int64_t ld, const V *b, V *y) {
  int64_t groups = sl_cuda_stride() / N, i = sl_cuda_index();
  if (i >= groups * N) return;
  int64_t n = i % N;
  V add = b[n];
  for (int64_t m = i / N; m < rows; m += groups) y[m * ld + n] = finish<RECTIFY>(y[m * ld + n], add);
}
template <bool RECTIFY, class V>
void launch_bias(sl_cuda *cuda, int64_t rows, int64_t N, int64_t ld, const float *b, float *y) {
  int64_t blocks = sl_cuda_grid(rows * N), least = (N + SL_CUDA_THREADS - 1) / SL_CUDA_THREADS;
  if (blocks < least) blocks = least;
  bias_kernel<RECTIFY, V><<<(unsigned)blocks, SL_CUDA_THREADS, 0, cuda->stream>>>(rows, N, ld, (const V *)b, (V *)y);
}

struct element {
  const float *y;
  int64_t ld;
  __device__ sl_cuda_vector<1> operator()(int64_t m, int64_t n) const { return {{(double)y[m * ld + n]}}; }
};
struct store {
  float *sum;
  bool add;
  __device__ void operator()(int64_t n, sl_cuda_vector<1> total) const {
    sum[n] = add ? sum[n] + (float)total.v[0] : (float)total.v[0];
  }
};
}  // namespace

sl_status sl_cuda_bias(sl_cuda *cuda, const char *operation, bool rectify, int64_t rows, int64_t N, int64_t ld,
                       const float *b, float *y) {
  if (rows == 0 || N == 0) return SL_OK;
  if (N % 4 == 0 && ld % 4 == 0 && sl_cuda_aligned(b) && sl_cuda_aligned(y))
    (rectify ? launch_bias<true, float4> : launch_bias<false, float4>)(cuda, rows, N / 4, ld / 4, b, y);
  else
    (rectify ? launch_bias<true, float> : launch_bias<false, float>)(cuda, rows, N, ld, b, y);
  return sl_cuda_launched(operation);
}

sl_status sl_cuda_sum_rows(sl_cuda *cuda, const char *operation, int64_t M, int64_t N, int64_t ld, const float *y,
                           bool add, float *sum) {
  return sl_cuda_columns<1>(cuda, operation, 0, M, N, element{y, ld}, store{sum, add});
}
