/* cross_entropy on a GPU; the meaning is cross_entropy.c's, with one difference: a kernel cannot fail the step at once,
 * so a target beyond the classes makes its row's log-sum-exp, and with it the loss, NaN, and the check of the loss
 * stops the run. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
constexpr int RUN = 256, EACH = RUN / 16; /* as cross_entropy.c's; elements of a lane */

/* The elements of a run that are lane's, a 16th of them, and what they give. */
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
  /* sum exp(x - max). odd stays 0 while all are finite. */
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

/* A row's sum so far: of exp(x - max) and, with smoothing, of x. */
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

/* Each row's log-sum-exp, and its part of the loss in scratch memory. */
template <bool SMOOTH>
struct row_loss {
  const float *logits;
  const int32_t *target;
  const double *count;
  double *lse, *loss;
  int64_t V;
  double smooth;

  /* Two runs at once, one in each half of the warp. */
  __device__ sums warp_sums(const float *x, int thread, float *odd) const {
    sums all = {-INFINITY, 0, 0};
    for (int64_t at = 0; at < V; at += 2 * RUN) {
      run r;
      r.read(x, at + thread / 16 * RUN, thread % 16, V);
      const float mine = r.max(), first = __shfl_sync(0xffffffffu, mine, 0),
                  second = __shfl_sync(0xffffffffu, mine, 16);
      const float max0 = first <= all.max ? all.max : first, max1 = second <= max0 ? max0 : second;
      const float exps = r.exps(thread < 16 ? max0 : max1, odd), plain = SMOOTH ? r.plain() : 0;
      all.add(max0, sl_exp_d((double)all.max - (double)max0), __shfl_sync(0xffffffffu, exps, 0),
              __shfl_sync(0xffffffffu, plain, 0));
      all.add(max1, sl_exp_d((double)max0 - (double)max1), __shfl_sync(0xffffffffu, exps, 16),
              __shfl_sync(0xffffffffu, plain, 16));
    }
    return all;
  }

  /* As many runs at once as the block has half warps. Thread 0 adds a round's sums during the next, and returns them.
   * There is one barrier per round, and two buffers. */
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
      const float part = r.exps(here, odd), of_plain = SMOOTH ? r.plain() : 0;
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
  __device__ void row(int64_t i, int thread) const {
    const int32_t t = target[i];
    if (t < 0 || t >= V) { /* the same for all threads of the row */
      if (thread == 0) lse[i] = loss[i] = t < 0 ? 0 : (double)NAN;
      return;
    }
    const float *x = logits + i * V;
    float odd = 0;
    const sums all = T == 32 ? warp_sums(x, thread, &odd) : block_sums(x, thread, &odd);
    odd = sl_cuda_reduce<T>(odd, sl_cuda_plus());
    if (thread > 0) return;
    const double value = (double)all.max + sl_log_d(all.exps) + (double)odd, aim = (double)x[t];
    lse[i] = value;
    loss[i] = (value - (SMOOTH ? sl_fmad(smooth, all.plain / (double)V, (1 - smooth) * aim) : aim)) / *count;
  }
};

/* The sums of the CPU's tiles, then the sum of these. */
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

struct backward {
  const float *logits;
  const int32_t *target;
  const double *count, *lse, *dloss; /* dloss NULL: 1 */
  float *to;
  int64_t V;
  double smooth;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = logits + i * V;
    float *dx = to + i * V;
    if (target[i] < 0) {
      for (int64_t k = thread; k < V; k += T) dx[k] = 0;
      return;
    }
    const double scale = (dloss ? *dloss : 1.0) / *count;
    const float high = (float)lse[i], factor = (float)(sl_exp_d((double)high - lse[i]) * scale);
    const float even = (float)(scale * smooth / (double)V), one = (float)(scale * (1 - smooth));
    constexpr int MANY = 4; /* elements that are read at once */
    for (int64_t from = thread; from < V; from += MANY * T) {
      float value[MANY];
#pragma unroll
      for (int j = 0; j < MANY; j++) value[j] = from + j * T < V ? x[from + j * T] : 0;
#pragma unroll
      for (int j = 0; j < MANY; j++) {
        const int64_t k = from + j * T;
        const float d = sl_fma(sl_exp(value[j] - high), factor, -even);
        if (k < V) dx[k] = k == target[i] ? d - one : d;
      }
    }
  }
};

int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
double smoothing(const sl_call *c) { return ((const sl_cross_entropy_attr *)c->attr)->smoothing; }
}  // namespace

extern "C" sl_status sl__cross_entropy_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t rows = sl_shape_count(&c->in[1].shape), V = classes(c), fit = c->tiles.elements / (V > 1 ? V : 1),
                tile = fit > 1 ? fit : 1;
  const float *logits = (const float *)c->in[0].data;
  const int32_t *target = (const int32_t *)c->in[1].data;
  const double *count = (const double *)c->in[2].data;
  double *lse = (double *)c->out[1].data, *loss = (double *)cuda->scratch, *tiles = tile > 1 ? loss + rows : loss;
  const int64_t n = (rows + tile - 1) / tile;
  SL_TRY(sl_cuda_scratch(cuda, (size_t)(rows + (tile > 1 ? n : 0)) * sizeof(double), "cross_entropy"));
  if (smoothing(c) > 0)
    SL_TRY(sl_cuda_rows(cuda, "cross_entropy", rows, V,
                        row_loss<true>{logits, target, count, lse, loss, V, smoothing(c)}));
  else
    SL_TRY(sl_cuda_rows(cuda, "cross_entropy", rows, V, row_loss<false>{logits, target, count, lse, loss, V, 0}));
  if (tile > 1 && rows > 0)
    SL_TRY(sl_cuda_in_order(cuda, "cross_entropy", rows, 1, tile, value{loss}, store_tile{tiles}));
  return sl_cuda_in_order(cuda, "cross_entropy", n, 1, n, value{tiles}, store_loss{sl_cuda_output(c, 0)});
}

extern "C" sl_status sl__cross_entropy_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(
      cuda, "cross_entropy_grad", sl_shape_count(&c->in[1].shape), classes(c),
      backward{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, (const double *)c->in[2].data,
               (const double *)c->in[3].data, c->n_in > 4 ? (const double *)c->in[4].data : NULL,
               (float *)c->out[0].data, classes(c), smoothing(c)});
}
