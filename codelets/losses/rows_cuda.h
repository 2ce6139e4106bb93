/* Rows of logits on a GPU: their log-sum-exp and sum, in the order of rows.h. */
#ifndef SL_LOSSES_ROWS_CUDA_H
#define SL_LOSSES_ROWS_CUDA_H

#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
constexpr int RUN = 256, EACH = RUN / 16; /* as in rows.h; elements of a lane */

/* The elements of a run that belong to one lane (a sixteenth of the run), and the lane's share of maximum and sums. */
struct run {
  float x[EACH];
  int n; /* how many elements lie from the lane's first to the row's end, at most RUN; below 1 if none */
  __device__ void read(const float *row, int64_t at, int lane, int64_t V) {
    const int64_t left = V - at - lane;
    n = left > RUN ? RUN : left < 0 ? 0 : (int)left;
#pragma unroll
    for (int j = 0; j < EACH; j++) x[j] = 16 * j < n ? row[at + lane + 16 * j] : -INFINITY;
  }
  __device__ float max() const {
    float max = -INFINITY;
#pragma unroll
    for (int j = 0; j < EACH; j++) max = sl_cuda_greater()(max, x[j]);
    return sl_cuda_max_lanes(max);
  }
  /* Returns the sum of exp(x - max). *odd stays 0 while all elements are finite. */
  __device__ float exps(float max, float *odd) const {
    float part = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
      if (16 * j < n) {
        *odd += x[j] - x[j];
        part += sl_exp(x[j] - max);
      }
    return sl_cuda_sum_lanes(part);
  }
  __device__ float plain() const {
    float part = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
      if (16 * j < n) part += x[j];
    return sl_cuda_sum_lanes(part);
  }
};

/* The sums of a row so far: of exp(x - max) and, if PLAIN, of x. */
struct sums {
  float max;
  double exps, plain;
  __device__ void add(float of_max, double rescale, float of_exps, float of_plain) {
    if (!(of_max <= max)) {
      exps *= rescale;
      max = of_max;
    }
    exps += (double)of_exps;
    plain += (double)of_plain;
  }
};

/* Computes the sums of a row of V logits. The threads of the row work together; thread 0 gets the sums. odd: see
 * run. */
template <bool PLAIN>
struct row_sums {
  int64_t V;

  /* Takes two runs at once, one in each half of the warp. */
  __device__ sums warp_sums(const float *x, int thread, float *odd) const {
    sums all = {-INFINITY, 0, 0};
    for (int64_t at = 0; at < V; at += 2 * RUN) {
      run r;
      r.read(x, at + thread / 16 * RUN, thread % 16, V);
      const float mine = r.max(), first = __shfl_sync(0xffffffffu, mine, 0),
                  second = __shfl_sync(0xffffffffu, mine, 16);
      const float max0 = first <= all.max ? all.max : first, max1 = second <= max0 ? max0 : second;
      const float exps = r.exps(thread < 16 ? max0 : max1, odd), plain = PLAIN ? r.plain() : 0;
      all.add(max0, sl_exp_d((double)all.max - (double)max0), __shfl_sync(0xffffffffu, exps, 0),
              __shfl_sync(0xffffffffu, plain, 0));
      all.add(max1, sl_exp_d((double)max0 - (double)max1), __shfl_sync(0xffffffffu, exps, 16),
              __shfl_sync(0xffffffffu, plain, 16));
    }
    return all;
  }

  /* Takes as many runs at once as the block has half warps. Thread 0 adds the sums of a round during the next round,
   * and returns the total. There is one barrier per round, and two buffers. */
  __device__ sums block_sums(const float *x, int thread, float *odd) const {
    constexpr int MANY = SL_CUDA_THREADS / 16;
    __shared__ float of_max[2][MANY];
    __shared__ float above[2][MANY];
    __shared__ float exps[2][MANY];
    __shared__ float plain[2][MANY];
    __shared__ double rescale[2][MANY];
    const int lane = thread % 16, half = thread / 16;
    sums all = {-INFINITY, 0, 0};
    float max = -INFINITY; /* of all rounds before */
    int buffer = 0;
    for (int64_t at = 0; at < V; at += MANY * RUN, buffer ^= 1) {
      run r;
      r.read(x, at + half * RUN, lane, V);
      const float mine = r.max();
      if (lane == 0) of_max[buffer][half] = mine;
      __syncthreads();
      if (thread == 0 && at > 0)
        for (int i = 0; i < MANY; i++)
          all.add(above[!buffer][i], rescale[!buffer][i], exps[!buffer][i], plain[!buffer][i]);
      float before = max, here = max;
#pragma unroll
      for (int i = 0; i < MANY; i++) {
        const float m = of_max[buffer][i];
        max = m <= max ? max : m;
        if (i < half) before = max;
        if (i <= half) here = max;
      }
      const float part = r.exps(here, odd), of_plain = PLAIN ? r.plain() : 0;
      if (lane == 0) {
        above[buffer][half] = here, exps[buffer][half] = part, plain[buffer][half] = of_plain;
        rescale[buffer][half] = here <= before ? 1 : sl_exp_d((double)before - (double)here);
      }
    }
    __syncthreads();
    if (thread == 0)
      for (int i = 0; i < MANY; i++)
        all.add(above[!buffer][i], rescale[!buffer][i], exps[!buffer][i], plain[!buffer][i]);
    return all;
  }

  template <int T>
  __device__ sums of(const float *x, int thread, float *odd) const {
    const sums all = T == 32 ? warp_sums(x, thread, odd) : block_sums(x, thread, odd);
    *odd = sl_cuda_reduce<T>(*odd, sl_cuda_plus());
    return all;
  }
};

/* Sums each tile of the CPU, then the sums of the tiles. */
struct value {
  const double *of;
  __device__ double operator()(int64_t i, int64_t) const { return of[i]; }
};
struct store_tile {
  double *to;
  __device__ void operator()(int64_t tile, int64_t, double sum) const { to[tile] = sum; }
};
struct store_loss {
  sl_cuda_store out;
  __device__ void operator()(int64_t, int64_t, double sum) const { out(sum); }
};

/* Adds the parts loss[rows] of a loss in the CPU's order: sums by tiles of rows of n elements, then the sum of the
 * tiles. loss[rows] lies in scratch memory; after it there is room for the sums of the tiles. */
inline sl_status add_rows(const sl_call *c, sl_cuda *cuda, const char *operation, int64_t rows, int64_t n) {
  const int64_t fit = c->tiles.elements / (n > 1 ? n : 1), tile = fit > 1 ? fit : 1, many = (rows + tile - 1) / tile;
  double *loss = (double *)cuda->scratch, *tiles = tile > 1 ? loss + rows : loss;
  if (tile > 1 && rows > 0) SL_TRY(sl_cuda_in_order(cuda, operation, rows, 1, tile, value{loss}, store_tile{tiles}));
  return sl_cuda_in_order(cuda, operation, many, 1, many, value{tiles}, store_loss{sl_cuda_output(c, 0)});
}
/* Provides the scratch memory for add_rows. */
inline sl_status add_rows_scratch(sl_cuda *cuda, const sl_call *c, const char *operation, int64_t rows, int64_t n) {
  const int64_t fit = c->tiles.elements / (n > 1 ? n : 1), tile = fit > 1 ? fit : 1;
  return sl_cuda_scratch(cuda, (size_t)(rows + (tile > 1 ? (rows + tile - 1) / tile : 0)) * sizeof(double), operation);
}

/* dx[k] = factor exp(x[k] - high) - even, minus `aim` at the target. The T threads of a row work together. */
template <int T>
__device__ void row_slopes(const float *x, int64_t V, int64_t target, double lse, double scale, float even, float aim,
                           float *dx, int thread) {
  const float high = (float)lse, factor = (float)(sl_exp_d((double)high - lse) * scale);
  constexpr int MANY = 4; /* elements that are read at once */
  for (int64_t from = thread; from < V; from += MANY * T) {
    float value[MANY];
#pragma unroll
    for (int j = 0; j < MANY; j++) value[j] = from + j * T < V ? x[from + j * T] : 0;
#pragma unroll
    for (int j = 0; j < MANY; j++) {
      const int64_t k = from + j * T;
      const float d = sl_fma(sl_exp(value[j] - high), factor, -even);
      if (k < V) dx[k] = k == target ? d - aim : d;
    }
  }
}

/* Calls f(i) for i in [0, n). */
template <class F>
__global__ void each_kernel(F f, int64_t n) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) f(i);
}
template <class F>
inline sl_status each_row(sl_cuda *cuda, const char *operation, int64_t n, F f) {
  if (n == 0) return SL_OK;
  each_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(f, n);
  return sl_cuda_launched(operation);
}
}  // namespace

#endif
