/* layernorm on a GPU; computes the same as layernorm.c, with the same order of sums: a warp adds up a run of 1024
 * elements, whose sum consists of 64 or 32 parts, as on the CPU. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
constexpr int RUN = 1024, GROUP = 8, MOST_TILES = 32; /* layernorm.c's */
constexpr int WARPS = SL_CUDA_THREADS / 32;

struct moments {
  float mean, rest, rstd;
};
__device__ inline moments moments_of(double mean, double rstd) {
  return {(float)mean, (float)(mean - (double)(float)mean), (float)rstd};
}
__device__ inline float normal(float x, const moments &m) { return ((x - m.mean) - m.rest) * m.rstd; }

/* Adds over the lanes of a warp, at the distances `from`, half of it, ..., 1; all get the sum. */
__device__ inline float over_lanes(float v, int from) {
  for (int offset = from; offset; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

struct sums {
  double a, b;
};
struct parts {
  float a, b;
};

/* Sums over a row. f(from, n, lane) returns a warp's sums over the run of n elements from `from` on; runs are added in
 * order. The row's T threads call it together, and all get the result. */
template <int T, class F>
__device__ inline sums over_runs(int64_t C, int thread, F f) {
  sums s = {0, 0};
  if (T == 32) {
    for (int64_t from = 0; from < C; from += RUN) {
      const parts p = f(from, (int)(C - from < RUN ? C - from : RUN), thread);
      s.a += (double)p.a, s.b += (double)p.b;
    }
    return s;
  }
  __shared__ float all[WARPS][2];
  const int warp = thread / 32, lane = thread % 32;
  for (int64_t first = 0; first < C; first += WARPS * RUN) {
    const int64_t from = first + warp * RUN;
    __syncthreads(); /* wait until all threads have read the previous sums */
    if (from < C) {
      const parts p = f(from, (int)(C - from < RUN ? C - from : RUN), lane);
      if (lane == 0) all[warp][0] = p.a, all[warp][1] = p.b;
    }
    __syncthreads();
    for (int w = 0; w < WARPS && first + w * RUN < C; w++) s.a += (double)all[w][0], s.b += (double)all[w][1];
  }
  return s;
}

/* The sum over a run: lane l adds elements l, l + 64, ... to a and l + 32, l + 96, ... to b. Of the elements that are
 * left, the first half warp adds whole sixteens, and the second half warp adds the rest. */
struct plain_run {
  const float *row;
  __device__ parts operator()(int64_t from, int n, int lane) const {
    const float *x = row + from;
    float a = 0, b = 0;
    int k = 0;
    for (; k + 64 <= n; k += 64) a += x[k + lane], b += x[k + 32 + lane];
    for (; k + 16 <= n; k += 16)
      if (lane < 16) a += x[k + lane];
    if (lane >= 16 && k + lane - 16 < n) a += x[k + lane - 16];
    a += __shfl_xor_sync(0xffffffffu, a, 16);
    b += __shfl_xor_sync(0xffffffffu, b, 16);
    return {over_lanes(a + b, 8), 0};
  }
};

/* Two sums over a run: lane l adds f(l), f(l + 32), ...; the first half warp adds all elements that are left. */
template <class F>
__device__ inline parts pair_run(int n, int lane, F f) {
  parts s = {0, 0};
  int k = 0;
  for (; k + 32 <= n; k += 32) f(k + lane, s);
  for (; k < n; k += 16)
    if (lane < 16 && k + lane < n) f(k + lane, s);
  return {over_lanes(s.a, 16), over_lanes(s.b, 16)};
}
struct deviations_run {
  const float *row;
  float pivot;
  __device__ parts operator()(int64_t from, int n, int lane) const {
    const float *x = row + from, p = pivot;
    return pair_run(n, lane, [x, p](int k, parts &s) {
      const float d = x[k] - p;
      s.a += d;
      s.b = sl_fma(d, d, s.b);
    });
  }
};
struct products_run {
  const float *dy_row, *x_row, *gammas;
  moments m;
  __device__ parts operator()(int64_t from, int n, int lane) const {
    const float *dy = dy_row + from, *x = x_row + from, *gamma = gammas + from;
    const moments m = this->m;
    return pair_run(n, lane, [dy, x, gamma, m](int k, parts &s) {
      const float g = dy[k] * gamma[k];
      s.a += g;
      s.b = sl_fma(g, normal(x[k], m), s.b);
    });
  }
};

struct forward {
  const float *from, *gamma, *beta;
  float *to;
  double *stats;
  int64_t C;
  double eps;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = from + i * C;
    const float pivot = (float)(over_runs<T>(C, thread, plain_run{x}).a / (double)C);
    const sums s = over_runs<T>(C, thread, deviations_run{x, pivot});
    const double off = s.a / (double)C, var = sl_fmad(-off, off, s.b / (double)C);
    const double mean = (double)pivot + off, rstd = 1 / sqrt((var < 0 ? 0 : var) + eps);
    if (thread == 0) stats[2 * i] = mean, stats[2 * i + 1] = rstd;
    const moments m = moments_of(mean, rstd);
    for (int64_t k = thread; k < C; k += T) to[i * C + k] = sl_fma(normal(x[k], m), gamma[k], beta[k]);
  }
};

struct backward {
  const float *gradient, *from, *gamma;
  const double *stats;
  float *to;
  int64_t C;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *dy = gradient + i * C, *x = from + i * C;
    const moments m = moments_of(stats[2 * i], stats[2 * i + 1]);
    const sums s = over_runs<T>(C, thread, products_run{dy, x, gamma, m});
    const float a = (float)(s.a / (double)C), b = (float)(s.b / (double)C);
    for (int64_t k = thread; k < C; k += T)
      to[i * C + k] = sl_fma(normal(x[k], m), -b, sl_fma(dy[k], gamma[k], -a)) * m.rstd;
  }
};

/* Block (x, y) sums tile y's rows of columns 32 x .. 32 x + 31: a warp adds up GROUP rows in float; then the first two
 * warps add those sums in double, in order: one warp the sums of dy n, the other the sums of dy. */
__global__ void column_sums(const float *dy, const float *x, const double *stats, int64_t M, int64_t C, int64_t rows,
                            double *partial) {
  __shared__ float part[2][WARPS][2][32]; /* two buffers, so that a step has one barrier */
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t k = (int64_t)blockIdx.x * 32 + lane, from = (int64_t)blockIdx.y * rows,
                to = from + rows < M ? from + rows : M;
  double sum = 0;
  int buffer = 0;
  for (int64_t first = from; first < to; first += WARPS * GROUP, buffer ^= 1) {
    const int64_t row = first + warp * GROUP, n = to - row;
    moments mine = {0, 0, 0};
    if (lane < GROUP && lane < n) mine = moments_of(stats[2 * (row + lane)], stats[2 * (row + lane) + 1]);
    float g[GROUP], v[GROUP], product = 0, plain = 0;
    for (int r = 0; r < GROUP; r++) {
      const bool there = r < n && k < C;
      g[r] = there ? dy[(row + r) * C + k] : 0;
      v[r] = there ? x[(row + r) * C + k] : 0;
    }
    for (int r = 0; r < GROUP; r++) {
      const moments m = {__shfl_sync(0xffffffffu, mine.mean, r), __shfl_sync(0xffffffffu, mine.rest, r),
                         __shfl_sync(0xffffffffu, mine.rstd, r)};
      if (r < n) {
        product = sl_fma(g[r], normal(v[r], m), product);
        plain += g[r];
      }
    }
    part[buffer][warp][0][lane] = product;
    part[buffer][warp][1][lane] = plain;
    __syncthreads();
    if (warp < 2)
      for (int g = 0; g < WARPS && first + g * GROUP < to; g++) sum += (double)part[buffer][g][warp][lane];
  }
  if (warp < 2 && k < C) partial[(2 * (int64_t)blockIdx.y + warp) * C + k] = sum;
}

/* Adds the tiles' sums in order. */
__global__ void tile_sums(int64_t C, int64_t tiles, const double *partial, bool add_gamma, bool add_beta, float *dgamma,
                          float *dbeta) {
  for (int64_t i = sl_cuda_index(); i < 2 * C; i += sl_cuda_stride()) {
    double total = 0;
    for (int64_t tile = 0; tile < tiles; tile++) total += partial[2 * C * tile + i];
    const float sum = (float)total;
    if (i < C)
      dgamma[i] = add_gamma ? dgamma[i] + sum : sum;
    else
      dbeta[i - C] = add_beta ? dbeta[i - C] + sum : sum;
  }
}

int64_t features(const sl_array *a) { return a->shape.dim[a->shape.ndim - 1]; }
int64_t rows_of(const sl_array *a) { return sl_shape_count(&a->shape) / features(a); }
}  // namespace

extern "C" sl_status sl__layernorm_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = features(&c->in[0]);
  return sl_cuda_rows(
      cuda, "layernorm", rows_of(&c->in[0]), C,
      forward{(const float *)c->in[0].data, (const float *)c->in[1].data, (const float *)c->in[2].data,
              (float *)c->out[0].data, (double *)c->out[1].data, C, ((const sl_layernorm_attr *)c->attr)->eps});
}

extern "C" sl_status sl__layernorm_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = features(&c->in[0]);
  return sl_cuda_rows(cuda, "layernorm_dx", rows_of(&c->in[0]), C,
                      backward{(const float *)c->in[0].data, (const float *)c->in[1].data, (const float *)c->in[3].data,
                               (const double *)c->in[2].data, (float *)c->out[0].data, C});
}

extern "C" sl_status sl__layernorm_dparam_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = features(&c->in[0]), M = rows_of(&c->in[0]), least = (M + MOST_TILES - 1) / MOST_TILES;
  int64_t rows = c->tiles.elements / C; /* of a tile, as in layernorm.c */
  if (rows < 1) rows = 1;
  if (rows < least) rows = least;
  const int64_t tiles = (M + rows - 1) / rows;
  double *partial = (double *)cuda->scratch;
  SL_TRY(sl_cuda_scratch(cuda, (size_t)(tiles * 2 * C) * sizeof *partial, "layernorm_dparam"));
  if (tiles > 0) {
    column_sums<<<dim3((unsigned)((C + 31) / 32), (unsigned)tiles), SL_CUDA_THREADS, 0, cuda->stream>>>(
        (const float *)c->in[0].data, (const float *)c->in[1].data, (const double *)c->in[2].data, M, C, rows, partial);
    SL_TRY(sl_cuda_launched("layernorm_dparam"));
  }
  tile_sums<<<sl_cuda_grid(2 * C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, tiles, partial, (c->accumulate & 1) != 0, (c->accumulate & 2) != 0, (float *)c->out[0].data,
      (float *)c->out[1].data);
  return sl_cuda_launched("layernorm_dparam");
}
