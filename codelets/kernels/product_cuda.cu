/* Bias and activation of linear layers on a GPU. */
#include "codelets/kernels/cuda.h"

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

/* V is float, or float4 if N, ld and the addresses allow it; N and ld count elements of type V. A thread stays in one
 * column, so it divides and reads the bias only once. The grid has at least one thread per column. */
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
