/* Helpers that all CUDA kernels share. They launch asynchronously, and their results have fixed bits. For .cu files
 * only.
 *
 * All work is queued on the worker's stream; nothing here allocates or waits. Sums have the order of the CPU kernels,
 * which the plan fixes, so no kernel uses atomics. Counts are exact in any order, so they use other chunks than the
 * CPU. */
#ifndef SL_CUDA_H
#define SL_CUDA_H

#include <math.h>
#include <stdint.h>

#include <type_traits>

#include "codelets/kernels/cuda_sums.h"
#include "codelets/kernels/product_sizes.h"
#include "runtime/numbers/half.h"
#include "runtime/numbers/philox.h"
#include "runtime/processors/cuda_context.h"
#include "tasks/graph/graph.h"

constexpr int SL_CUDA_THREADS = 256;     /* threads of every block */
constexpr int64_t SL_CUDA_BLOCKS = 4096; /* largest grid; its threads stride over the elements */

/* ---- errors ---------------------------------------------------------------------------------------------------- */

static inline sl_status sl_cuda_check(cudaError_t error, const char *operation) {
  if (error == cudaSuccess) return SL_OK;
  return sl_fail(SL_ETASK, "%s on a GPU: %s (%s)", operation, cudaGetErrorString(error), cudaGetErrorName(error));
}
/* Call this function after every launch. It reports a launch that could not be queued, and failures of earlier
 * kernels. */
static inline sl_status sl_cuda_launched(const char *operation) { return sl_cuda_check(cudaGetLastError(), operation); }

/* Checks the size of the scratch memory. SL_ETASK: the plan reserved less than the kernel needs, because a scratch_cuda
 * rule is wrong. */
static inline sl_status sl_cuda_scratch(const sl_cuda *cuda, size_t bytes, const char *operation) {
  if (bytes <= cuda->scratch_bytes) return SL_OK;
  return sl_fail(SL_ETASK,
                 "%s on a GPU: needs %zu bytes of scratch memory and has %zu; mend its rule of scratch memory",
                 operation, bytes, cuda->scratch_bytes);
}

/* ---- arithmetic, as the CPU's ------------------------------------------------------------------------------------ */

/* Defines the names of kernel.h and math.h for one float; -fmad=false keeps nvcc from fusing multiply-adds by
 * itself. */
#define SL_FUNCTION __device__ inline
typedef float sl_vec;
typedef int32_t sl_veci;
static SL_FUNCTION float sl_splat(float x) { return x; }
static SL_FUNCTION float sl_fmaf(float a, float b, float c) { return __fmaf_rn(a, b, c); }
static SL_FUNCTION float sl_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
/* The same operations with denormals as zero, in arguments and results; products of bf16 use them (product.h). If a
 * result is within half a unit in the last place of the least normal number, GPUs may differ from x86. */
#ifdef __CUDA_ARCH__
static SL_FUNCTION float sl_fma_flushed(float a, float b, float c) {
  float sum;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
  return sum;
}
static SL_FUNCTION float sl_add_flushed(float a, float b) {
  float sum;
  asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}
#else /* an emulated GPU */
static SL_FUNCTION float sl_flush(float x) {
  return (__float_as_int(x) & 0x7f800000) == 0 ? __int_as_float(__float_as_int(x) & (int)0x80000000u) : x;
}
static SL_FUNCTION float sl_fma_flushed(float a, float b, float c) {
  return sl_flush(__fmaf_rn(sl_flush(a), sl_flush(b), sl_flush(c)));
}
static SL_FUNCTION float sl_add_flushed(float a, float b) { return sl_flush(sl_flush(a) + sl_flush(b)); }
#endif
static SL_FUNCTION double sl_fmad(double a, double b, double c) { return __fma_rn(a, b, c); }
static SL_FUNCTION float sl_select(bool mask, float a, float b) { return mask ? a : b; }
static SL_FUNCTION float sl_zero_below(float limit, float x, float y) { return x < limit ? 0 : y; }
static SL_FUNCTION float sl_abs(float x) { return __int_as_float(__float_as_int(x) & 0x7fffffff); }
static SL_FUNCTION int32_t sl_bits(float x) { return __float_as_int(x); }
static SL_FUNCTION float sl_of_bits(int32_t x) { return __int_as_float(x); }
static SL_FUNCTION int32_t sl_shift(int32_t x, int left) { return (int32_t)((uint32_t)x << left); }
static SL_FUNCTION int64_t sl_bits_d(double x) { return __double_as_longlong(x); }
static SL_FUNCTION double sl_of_bits_d(int64_t x) { return __longlong_as_double(x); }
static SL_FUNCTION float sl_polynomial(float, float p) { return p; }
template <class... C>
static SL_FUNCTION float sl_polynomial(float x, float p, float next, C... rest) {
  return sl_polynomial(x, sl_fma(p, x, next), rest...);
}
#define SL_POLYNOMIAL(...) sl_polynomial(__VA_ARGS__)
#include "codelets/kernels/functions.h"

/* ---- elements -------------------------------------------------------------------------------------------------- */

/* A number in bf16, with the conversions of kernel.h: rounded to nearest, ties to even; a NaN stays a NaN, denormals
 * are kept. */
struct sl_bf16 {
  uint16_t bits;
};
static SL_FUNCTION uint16_t sl_bits_bf16(float x) {
  const uint32_t u = __float_as_uint(x);
  return (uint16_t)((x != x ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static SL_FUNCTION float sl_of_bits_bf16(uint32_t bits) { return __uint_as_float(bits << 16); }
/* A number in fp16 (half.h). */
struct sl_fp16 {
  uint16_t bits;
};
/* Load and store one number, or four numbers at an address that is aligned for four. */
static SL_FUNCTION float sl_get(const float *p) { return *p; }
static SL_FUNCTION float sl_get(const sl_bf16 *p) { return sl_of_bits_bf16(p->bits); }
static SL_FUNCTION float sl_get(const sl_fp16 *p) { return sl_half_wide(p->bits); }
static SL_FUNCTION void sl_put(float *p, float x) { *p = x; }
static SL_FUNCTION void sl_put(sl_fp16 *p, float x) { p->bits = sl_half_of(x); }
static SL_FUNCTION void sl_put(sl_bf16 *p, float x) { p->bits = sl_bits_bf16(x); }
static SL_FUNCTION float4 sl_get4(const float *p) { return *(const float4 *)p; }
static SL_FUNCTION float4 sl_get4(const sl_bf16 *p) {
  const uint2 u = *(const uint2 *)p;
  return make_float4(sl_of_bits_bf16(u.x), sl_of_bits_bf16(u.x >> 16), sl_of_bits_bf16(u.y),
                     sl_of_bits_bf16(u.y >> 16));
}
static SL_FUNCTION float4 sl_get4(const sl_fp16 *p) {
  const uint2 u = *(const uint2 *)p;
  return make_float4(sl_half_wide((uint16_t)u.x), sl_half_wide((uint16_t)(u.x >> 16)), sl_half_wide((uint16_t)u.y),
                     sl_half_wide((uint16_t)(u.y >> 16)));
}
static SL_FUNCTION void sl_put4(float *p, float4 v) { *(float4 *)p = v; }
static SL_FUNCTION void sl_put4(sl_fp16 *p, float4 v) {
  *(uint2 *)p =
      make_uint2(sl_half_of(v.x) | (uint32_t)sl_half_of(v.y) << 16, sl_half_of(v.z) | (uint32_t)sl_half_of(v.w) << 16);
}
static SL_FUNCTION void sl_put4(sl_bf16 *p, float4 v) {
  *(uint2 *)p = make_uint2(sl_bits_bf16(v.x) | (uint32_t)sl_bits_bf16(v.y) << 16,
                           sl_bits_bf16(v.z) | (uint32_t)sl_bits_bf16(v.w) << 16);
}

/* Blocks of a grid-stride loop over n items. */
static inline unsigned sl_cuda_grid(int64_t n) {
  int64_t blocks = (n + SL_CUDA_THREADS - 1) / SL_CUDA_THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks > SL_CUDA_BLOCKS ? SL_CUDA_BLOCKS : blocks);
}
static __device__ inline int64_t sl_cuda_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ inline int64_t sl_cuda_stride() { return (int64_t)gridDim.x * blockDim.x; }

/* Whether four elements can be read at once. */
template <class T>
static inline bool sl_cuda_aligned(const T *p) {
  return ((uintptr_t)p & (4 * sizeof(T) - 1)) == 0;
}

template <class F, class... V>
static __device__ inline float4 sl_cuda_each(F f, V... v) {
  return make_float4(f(v.x...), f(v.y...), f(v.z...), f(v.w...));
}

/* y may be the same array as one of x: a thread reads an element of x before it writes the same element of y. */
template <class F, class Y, class... X>
__global__ void sl_cuda_map_kernel(F f, int64_t n, int64_t n4, Y *y, const X *...x) {
  for (int64_t i = sl_cuda_index(); i < n4; i += sl_cuda_stride())
    sl_put4(y + 4 * i, sl_cuda_each(f, sl_get4(x + 4 * i)...));
  for (int64_t i = 4 * n4 + sl_cuda_index(); i < n; i += sl_cuda_stride()) sl_put(y + i, f(sl_get(x + i)...));
}

/* y[i] = f(x[i]...) for i in [0, n), of floats, sl_bf16 or sl_fp16; F is a function object on floats with a __device__
 * operator(). Works on four elements at once if all arrays are aligned; the bits are the same, because an element's
 * result depends only on its inputs. */
template <class F, class Y, class... X>
static sl_status sl_cuda_map(sl_cuda *cuda, const char *operation, F f, int64_t n, Y *y, const X *...x) {
  if (n == 0) return SL_OK;
  int64_t n4 = sl_cuda_aligned(y) && (sl_cuda_aligned(x) && ...) ? n / 4 : 0;
  sl_cuda_map_kernel<<<sl_cuda_grid(n4 ? n4 : n), SL_CUDA_THREADS, 0, cuda->stream>>>(f, n, n4, y, x...);
  return sl_cuda_launched(operation);
}

/* The identity, for sl_cuda_map between types. */
struct sl_cuda_same {
  __device__ float operator()(float x) const { return x; }
};

/* sl_cuda_map on a call's first output and its first input or two, which all have the output's type. */
template <class F>
static sl_status sl_cuda_map1(const sl_call *c, sl_cuda *cuda, const char *operation, F f) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  const void *x = c->in[0].data;
  void *y = c->out[0].data;
  return c->out[0].dtype == SL_BF16 ? sl_cuda_map(cuda, operation, f, n, (sl_bf16 *)y, (const sl_bf16 *)x)
                                    : sl_cuda_map(cuda, operation, f, n, (float *)y, (const float *)x);
}
template <class F>
static sl_status sl_cuda_map2(const sl_call *c, sl_cuda *cuda, const char *operation, F f) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  const void *a = c->in[0].data, *b = c->in[1].data;
  void *y = c->out[0].data;
  return c->out[0].dtype == SL_BF16
             ? sl_cuda_map(cuda, operation, f, n, (sl_bf16 *)y, (const sl_bf16 *)a, (const sl_bf16 *)b)
             : sl_cuda_map(cuda, operation, f, n, (float *)y, (const float *)a, (const float *)b);
}

/* ---- rows and sums ----------------------------------------------------------------------------------------------- */

/* Reduction over the T threads (32, or a block's SL_CUDA_THREADS) that work on one row. All T threads call it together,
 * and all get the result. With a whole block, call it only once in a kernel: a second call with the same V and F would
 * need a barrier before it. */
struct sl_cuda_plus {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
/* If an argument is NaN, so is the maximum: a NaN must not get lost. */
struct sl_cuda_greater {
  __device__ float operator()(float a, float b) const { return a != a || a > b ? a : b; }
};
template <int T, class V, class F>
static __device__ inline V sl_cuda_reduce(V v, F f) {
  static_assert(T == 32 || T == SL_CUDA_THREADS, "a warp or a block");
  for (int offset = 16; offset; offset /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, offset));
  if (T == 32) return v;
  __shared__ V warp[SL_CUDA_THREADS / 32];
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = warp[0];
  for (int i = 1; i < SL_CUDA_THREADS / 32; i++) v = f(v, warp[i]);
  return v;
}

/* Calls f.template row<T>(i, thread) for every row i in [0, rows): one warp per row, or one block if rows are long
 * (n elements each). thread in [0, T) takes elements thread, thread + T, ..., so rows may be changed in place. */
template <int T, class F>
__global__ void sl_cuda_rows_kernel(F f, int64_t rows) {
  constexpr int each = SL_CUDA_THREADS / T;
  if constexpr (each == 1)
    f.template row<T>((int64_t)blockIdx.x, (int)threadIdx.x);
  else
    for (int64_t i = (int64_t)blockIdx.x * each + threadIdx.x / T; i < rows; i += (int64_t)gridDim.x * each)
      f.template row<T>(i, (int)threadIdx.x % T);
}
template <class F>
static sl_status sl_cuda_rows(sl_cuda *cuda, const char *operation, int64_t rows, int64_t n, F f) {
  if (rows == 0) return SL_OK;
  if (n > 1024)
    sl_cuda_rows_kernel<SL_CUDA_THREADS>
        <<<(unsigned)rows, SL_CUDA_THREADS, 0, cuda->stream>>>(f, rows); /* fits: a row has 4 KB or more */
  else
    sl_cuda_rows_kernel<32><<<sl_cuda_grid(rows * 32), SL_CUDA_THREADS, 0, cuda->stream>>>(f, rows);
  return sl_cuda_launched(operation);
}

/* The same with one warp per row of any length: f.template row<32>(i, thread). */
template <class F>
static sl_status sl_cuda_warps(sl_cuda *cuda, const char *operation, int64_t rows, F f) {
  if (rows == 0) return SL_OK;
  sl_cuda_rows_kernel<32><<<sl_cuda_grid(rows * 32), SL_CUDA_THREADS, 0, cuda->stream>>>(f, rows);
  return sl_cuda_launched(operation);
}

/* sl_sum_lanes and sl_max_lanes of math.h: each of 16 threads (half a warp) holds a lane, and all get the result. The
 * whole warp calls them. */
static __device__ inline float sl_cuda_sum_lanes(float v) {
#pragma unroll
  for (int offset = 8; offset; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}
static __device__ inline float sl_cuda_max_lanes(float v) {
#pragma unroll
  for (int offset = 8; offset; offset /= 2) v = sl_cuda_greater()(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}

/* sl_sum_lanes_d of math.h: each of the first 8 threads of a warp holds a lane, and all 32 get the sum. */
static __device__ inline double sl_cuda_sum_lanes_d(double v) {
  double sum = 0;
#pragma unroll
  for (int j = 0; j < 8; j++) sum += __shfl_sync(0xffffffffu, v, j);
  return sum;
}

/* Sums a row by runs of SL_CUDA_RUN elements: within a run in float, over 16 lanes; then the runs' sums in double, in
 * order. All T threads of the row get the sum. load(k) reads element k. add(k, value, part) adds the element to part,
 * the sum of its lane, and returns the new sum. */
constexpr int SL_CUDA_RUN = 256;
template <int T, class L, class A>
static __device__ inline double sl_cuda_sum_runs(int64_t n, int thread, L load, A add) {
  constexpr int EACH = SL_CUDA_RUN / 16;
  const int lane = thread % 16;
  auto run = [&](int64_t at) {
    decltype(load(0)) value[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++)
      if (at + lane + 16 * j < n) value[j] = load(at + lane + 16 * j);
    float part = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
      if (at + lane + 16 * j < n) part = add(at + lane + 16 * j, value[j], part);
    return sl_cuda_sum_lanes(part);
  };
  double sum = 0;
  if constexpr (T == 32) {
    for (int64_t at = 0; at < n; at += 2 * SL_CUDA_RUN) {
      const float part = run(at + thread / 16 * SL_CUDA_RUN);
      sum += (double)__shfl_sync(0xffffffffu, part, 0);
      sum += (double)__shfl_sync(0xffffffffu, part, 16);
    }
    __syncwarp();
  } else {
    constexpr int MANY = 512; /* runs added at once */
    __shared__ float part[MANY];
    for (int64_t from = 0; from < n; from += MANY * SL_CUDA_RUN) {
      const int64_t left = (n - from + SL_CUDA_RUN - 1) / SL_CUDA_RUN;
      const int runs = left < MANY ? (int)left : MANY;
      __syncthreads(); /* wait until all have read the sums of earlier runs */
      for (int i = 0; i < runs; i += T / 16) {
        const int mine = i + thread / 16;
        const float of_run = run(from + (int64_t)mine * SL_CUDA_RUN);
        if (lane == 0 && mine < runs) part[mine] = of_run;
      }
      __syncthreads();
      for (int i = 0; i < runs; i++) sum += (double)part[i];
    }
  }
  return sum;
}

/* Block (x, y) sums the rows [x each, x each + each) of a matrix [M, N] in the block's W columns, in order and in
 * double. All threads read, R elements at once; W of the threads add. */
template <int W, int R, class F, class G>
__global__ void sl_cuda_in_order_kernel(F f, G store, int64_t M, int64_t N, int64_t each) {
  constexpr int GROUPS = SL_CUDA_THREADS / W, ROWS = GROUPS * R;
  typedef decltype(f(0, 0)) element;
  __shared__ element part[2][ROWS][W];
  const int lane = threadIdx.x % W, group = threadIdx.x / W;
  const int64_t n = (int64_t)blockIdx.y * W + lane, from = (int64_t)blockIdx.x * each,
                to = from + each < M ? from + each : M;
  element value[R];
  auto read = [&](int64_t at) {
#pragma unroll
    for (int r = 0; r < R; r++) {
      const int64_t m = at + group + GROUPS * r;
      value[r] = m < to && n < N ? f(m, n) : element(0); /* adding 0 to a sum that began with 0 changes no bit */
    }
  };
  double sum = 0;
  int buffer = 0;
  read(from);
  for (int64_t at = from; at < to; at += ROWS, buffer ^= 1) {
#pragma unroll
    for (int r = 0; r < R; r++) part[buffer][group + GROUPS * r][lane] = value[r];
    __syncthreads(); /* also waits until the other buffer, which the next round writes, has been added */
    if (at + ROWS < to) read(at + ROWS);
    if (group > 0) continue;
    const int rows = to - at < ROWS ? (int)(to - at) : ROWS;
#pragma unroll 8
    for (int r = 0; r < rows; r++) sum += (double)part[buffer][r][lane];
  }
  if (group == 0 && n < N) store((int64_t)blockIdx.x, n, sum);
}

/* Calls store(tile, n, sum of f(m, n)) for tiles of `each` rows of M and all n in [0, N); the sum runs over the tile's
 * rows in order. f returns floats or doubles. */
template <class F, class G>
static sl_status sl_cuda_in_order(sl_cuda *cuda, const char *operation, int64_t M, int64_t N, int64_t each, F f,
                                  G store) {
  const int64_t tiles = M > 0 ? (M + each - 1) / each : 1; /* without rows the sum is 0 */
  if (N == 0) return SL_OK;
  if (N == 1)
    sl_cuda_in_order_kernel<1, 4><<<(unsigned)tiles, SL_CUDA_THREADS, 0, cuda->stream>>>(f, store, M, N, each);
  else
    sl_cuda_in_order_kernel<32, 8>
        <<<dim3((unsigned)tiles, (unsigned)((N + 31) / 32)), SL_CUDA_THREADS, 0, cuda->stream>>>(f, store, M, N, each);
  return sl_cuda_launched(operation);
}

/* Number of chunks of the first level for n items. Each chunk has 4096 items or more, so that a thread adds 16 or
 * more. */
static inline int64_t sl_cuda_chunks(int64_t n) {
  int64_t chunks = (n + 4095) / 4096;
  return chunks < 1 ? 1 : chunks > SL_CUDA_SUM_CHUNKS ? (int64_t)SL_CUDA_SUM_CHUNKS : chunks;
}

template <class F>
__global__ void sl_cuda_sum_kernel(F f, int64_t n, double *partial) {
  double sum = 0;
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) sum += f(i);
  sum = sl_cuda_reduce<SL_CUDA_THREADS>(sum, sl_cuda_plus());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
template <class G>
__global__ void sl_cuda_sum_last_kernel(G store, int chunks, const double *partial) {
  double sum = 0;
  for (int i = threadIdx.x; i < chunks; i += SL_CUDA_THREADS) sum += partial[i];
  sum = sl_cuda_reduce<SL_CUDA_THREADS>(sum, sl_cuda_plus());
  if (threadIdx.x == 0) store(sum);
}

/* Calls store(sum of f(i), i in [0, n)) on one thread. Needs SL_CUDA_SUM_BYTES of scratch memory from offset
 * `scratch` on. */
template <class F, class G>
static sl_status sl_cuda_sum(sl_cuda *cuda, const char *operation, size_t scratch, int64_t n, F f, G store) {
  SL_TRY(sl_cuda_scratch(cuda, scratch + SL_CUDA_SUM_BYTES, operation));
  int chunks = (int)sl_cuda_chunks(n);
  double *partial = (double *)((char *)cuda->scratch + scratch);
  sl_cuda_sum_kernel<<<chunks, SL_CUDA_THREADS, 0, cuda->stream>>>(f, n, partial);
  SL_TRY(sl_cuda_launched(operation));
  sl_cuda_sum_last_kernel<<<1, SL_CUDA_THREADS, 0, cuda->stream>>>(store, chunks, partial);
  return sl_cuda_launched(operation);
}

/* Stores a sum into an F64 [1] output, or adds it if the call accumulates. */
struct sl_cuda_store {
  double *out;
  bool add;
  __device__ void operator()(double sum) const { *out = add ? *out + sum : sum; }
};
static inline sl_cuda_store sl_cuda_output(const sl_call *c, int i) {
  return {(double *)c->out[i].data, (c->accumulate >> i & 1) != 0};
}

/* ---- images ---------------------------------------------------------------------------------------------------- */

/* Along an axis, a window of `kernel` pixels begins every `stride` pixels; the first window begins `pad` pixels before
 * the image. The first function returns the pixels [from, to) of window `at` along an axis of `size` pixels. The second
 * function returns which of `count` windows cover pixel `at`. */
struct sl_cuda_range {
  int from, to;
};
static __device__ inline sl_cuda_range sl_cuda_pixels(int at, int kernel, int stride, int pad, int size) {
  int start = at * stride - pad, end = start + kernel;
  return {start < 0 ? 0 : start, end > size ? size : end};
}
static __device__ inline sl_cuda_range sl_cuda_windows(int at, int kernel, int stride, int pad, int count) {
  int last = (at + pad) / stride + 1, before = at + pad - kernel;
  return {before < 0 ? 0 : before / stride + 1, last > count ? count : last};
}

/* ---- columns --------------------------------------------------------------------------------------------------- */

/* y[m ld + n] = max(y[m ld + n] + b[n], 0), or the same without the maximum, for m in [0, rows), n in [0, N). */
sl_status sl_cuda_bias(sl_cuda *cuda, const char *operation, bool rectify, int64_t rows, int64_t N, int64_t ld,
                       const float *b, float *y);

/* ---- results and products in bf16 -------------------------------------------------------------------------------- */

template <class T>
constexpr bool sl_cuda_narrow = std::is_same<T, sl_bf16>::value;

/* The sums that give output 0, whose type is T. They are made in place or, if they must still be rounded, in the first
 * sl_cuda_sums_bytes of the scratch memory. */
template <class T>
static size_t sl_cuda_sums_bytes(const sl_call *c) {
  return sl_cuda_narrow<T> ? sl_cuda_narrow_bytes(sl_shape_count(&c->out[0].shape)) : 0;
}
template <class T>
static float *sl_cuda_sums_at(const sl_call *c, sl_cuda *cuda) {
  return (float *)(sl_cuda_narrow<T> ? cuda->scratch : c->out[0].data);
}
template <class T>
static sl_status sl_cuda_round_sums(const sl_call *c, sl_cuda *cuda, const char *operation) {
  if constexpr (sl_cuda_narrow<T>)
    return sl_cuda_map(cuda, operation, sl_cuda_same(), sl_shape_count(&c->out[0].shape), (T *)c->out[0].data,
                       (const float *)cuda->scratch);
  return SL_OK;
}

/* A step of a product, and the sum of two products. If factors are multiplied by pairs, denormals count as zero
 * (product.h). */
template <bool PAIRS>
static SL_FUNCTION float sl_cuda_multiply_add(float a, float b, float c) {
  return PAIRS ? sl_fma_flushed(a, b, c) : sl_fma(a, b, c);
}
template <bool PAIRS>
static SL_FUNCTION float sl_cuda_add(float a, float b) {
  return PAIRS ? sl_add_flushed(a, b) : a + b;
}

#endif
