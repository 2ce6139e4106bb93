/* Batch normalisation on a GPU; each operation gives the same bits as in batchnorm.c. To give the same bits, each sum
 * is a chain down one tile of the plan. There are at most 64 tiles, so with few channels most of a GPU is idle. The
 * constants of the channels are computed first, into scratch memory, because a square root in double for each element
 * would cost more than the memory traffic. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
int64_t channels(const sl_array *x) { return x->shape.dim[x->shape.ndim - 1]; }
int64_t positions(const sl_array *x) { return channels(x) ? sl_shape_count(&x->shape) / channels(x) : 0; }

struct moments {
  double mean, rstd;
};
__device__ inline moments moments_of(double sum, double squares, double count) {
  double mean = sum / count, var = sl_fmad(-mean, mean, squares / count);
  return {mean, 1 / sqrt((var < 0 ? 0 : var) + SL_BATCHNORM_EPS)};
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

/* Function objects that select elements a for the sums. `plain` takes all. The others apply the mask of a rectifier:
 * one takes a where (b - shift) scale + add > 0 with these constants; the other takes a where y > 0, and also stores
 * the masked a in g. */
struct plain {
  __device__ float operator()(float a, float, int64_t, int64_t) const { return a; }
};
struct masked {
  const float *constant;
  int64_t C;
  __device__ float operator()(float a, float b, int64_t, int64_t k) const {
    return sl_fmaf(b - constant[k], constant[C + k], constant[2 * C + k]) > 0 ? a : 0;
  }
};
struct masked_by_output {
  const float *y;
  float *g;
  __device__ float operator()(float a, float, int64_t i, int64_t) const {
    a = y[i] > 0 ? a : 0;
    g[i] = a;
    return a;
  }
};

/* Block (x, y) sums a and a b over tile x, for 64 of the channels. Each sum is one chain down the tile. */
constexpr int CHANNELS = 64;
template <class F>
__global__ void sums_kernel(F f, int64_t M, int64_t C, int64_t each, const float *a, const float *b, double *partial) {
  const int64_t k = (int64_t)blockIdx.y * CHANNELS + threadIdx.x, from = (int64_t)blockIdx.x * each,
                to = from + each < M ? from + each : M;
  if (k >= C) return;
  double sum = 0, product = 0;
#pragma unroll 8
  for (int64_t m = from; m < to; m++) {
    const float other = b[m * C + k];
    const double x = (double)f(a[m * C + k], other, m * C + k, k);
    sum += x;
    product = sl_fmad(x, (double)other, product);
  }
  partial[2 * C * blockIdx.x + k] = sum;
  partial[2 * C * blockIdx.x + C + k] = product;
}
/* Adds the tiles' sums in order. */
template <class G>
__global__ void total_sums_kernel(G store, int64_t C, int tiles, const double *partial) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) {
    double sum = partial[k], product = partial[C + k];
    for (int64_t tile = 1; tile < tiles; tile++) {
      sum += partial[2 * C * tile + k];
      product += partial[2 * C * tile + C + k];
    }
    store(k, sum, product);
  }
}
/* Calls store(channel, sum of a, sum of a b). Uses scratch memory from offset `scratch` on: 2 C doubles a tile. */
template <class F, class G>
sl_status sums(const sl_call *c, sl_cuda *cuda, const char *operation, size_t scratch, const float *a, const float *b,
               F f, G store) {
  const int64_t C = channels(&c->in[0]), M = positions(&c->in[0]);
  if (C == 0) return SL_OK;
  const int64_t each = sl_batchnorm_sum_tile(c->tiles.elements, M, C), tiles = M ? (M + each - 1) / each : 0;
  SL_TRY(sl_cuda_scratch(cuda, scratch + (size_t)(2 * C * tiles) * sizeof(double), operation));
  double *partial = (double *)((char *)cuda->scratch + scratch);
  if (tiles == 0) return sl_fail(SL_ETASK, "%s on a GPU: no samples", operation);
  sums_kernel<<<dim3((unsigned)tiles, (unsigned)((C + CHANNELS - 1) / CHANNELS)), CHANNELS, 0, cuda->stream>>>(
      f, M, C, each, a, b, partial);
  SL_TRY(sl_cuda_launched(operation));
  total_sums_kernel<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(store, C, (int)tiles, partial);
  return sl_cuda_launched(operation);
}

struct pair {
  double *out[2];
  bool add[2];
  __device__ void put(int64_t k, double first, double second) const {
    out[0][k] = add[0] ? out[0][k] + first : first;
    out[1][k] = add[1] ? out[1][k] + second : second;
  }
};
pair outputs(const sl_call *c) {
  return {{(double *)c->out[0].data, (double *)c->out[1].data}, {(c->accumulate & 1) != 0, (c->accumulate & 2) != 0}};
}
struct store_stats {
  pair to;
  __device__ void operator()(int64_t k, double sum, double squares) const { to.put(k, sum, squares); }
};
struct store_grad_stats {
  pair to;
  const double *sum, *squares;
  double count;
  __device__ void operator()(int64_t k, double total, double product) const {
    moments m = moments_of(sum[k], squares[k], count);
    to.put(k, total, sl_fmad(-m.mean, total, product) * m.rstd);
  }
};

/* ---- elements -------------------------------------------------------------------------------------------------- */

/* [shift, scale, add]: y = (x - shift) scale + add */
__global__ void normalize_constants(int64_t C, const double *sum, const double *squares, double count,
                                    const float *gamma, const float *beta, float *constant) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) {
    moments m = moments_of(sum[k], squares[k], count);
    constant[k] = (float)m.mean;
    constant[C + k] = (float)((double)gamma[k] * m.rstd);
    constant[2 * C + k] = beta[k];
  }
}
__global__ void infer_constants(int64_t C, const float *mean, const float *var, const float *gamma, const float *beta,
                                float *constant) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) {
    constant[k] = mean[k];
    constant[C + k] = (float)((double)gamma[k] / sqrt((double)var[k] + SL_BATCHNORM_EPS));
    constant[2 * C + k] = beta[k];
  }
}
/* [scale, mean of dy, mean of dy xhat times rstd, mean, beta] */
__global__ void dx_constants(int64_t C, const double *sum, const double *squares, double count, const float *gamma,
                             const double *sdy, const double *sdyx, const float *beta, float *constant) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) {
    moments m = moments_of(sum[k], squares[k], count);
    constant[k] = (float)((double)gamma[k] * m.rstd);
    constant[C + k] = (float)(sdy[k] / count);
    constant[2 * C + k] = (float)(sdyx[k] / count * m.rstd);
    constant[3 * C + k] = (float)m.mean;
    if (beta) constant[4 * C + k] = beta[k];
  }
}

/* A thread stays in one channel, so it divides and reads the constants only once. Thread i takes elements i, i + step
 * and so on, if i < step. The grid has at least one thread per channel. */
__device__ inline int64_t step_of(int64_t C) { return sl_cuda_stride() / C * C; }
__global__ void affine_kernel(int64_t n, int64_t C, const float *constant, const float *x, const float *residual,
                              bool relu, float *y) {
  int64_t i = sl_cuda_index(), k = i % C, step = step_of(C);
  if (i >= step) return;
  float shift = constant[k], scale = constant[C + k], add = constant[2 * C + k];
  for (; i < n; i += step) {
    float z = sl_fmaf(x[i] - shift, scale, add);
    if (residual) z += residual[i];
    y[i] = relu && z < 0 ? 0 : z;
  }
}
__global__ void dx_kernel(int64_t n, int64_t C, const float *constant, const float *dy, const float *x, bool masked,
                          float *dx) {
  int64_t i = sl_cuda_index(), k = i % C, step = step_of(C);
  if (i >= step) return;
  float scale = constant[k], a = constant[C + k], b = constant[2 * C + k], mean = constant[3 * C + k];
  float beta = masked ? constant[4 * C + k] : 0;
  for (; i < n; i += step) {
    float centred = x[i] - mean, g = masked && !(sl_fmaf(centred, scale, beta) > 0) ? 0 : dy[i];
    dx[i] = scale * sl_fmaf(-centred, b, g - a);
  }
}
unsigned channel_grid(int64_t n, int64_t C) {
  int64_t blocks = sl_cuda_grid(n), least = (C + SL_CUDA_THREADS - 1) / SL_CUDA_THREADS;
  return (unsigned)(blocks < least ? least : blocks);
}

sl_status constants(const sl_call *c, sl_cuda *cuda, const char *operation, float **constant) {
  *constant = (float *)cuda->scratch;
  return sl_cuda_scratch(cuda, (size_t)(5 * channels(&c->out[0])) * sizeof(float), operation);
}

/* ---- channels -------------------------------------------------------------------------------------------------- */

__global__ void dparam_kernel(int64_t C, const double *sdy, const double *sdyx, float *dgamma, bool add_gamma,
                              float *dbeta, bool add_beta) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) {
    dgamma[k] = (add_gamma ? dgamma[k] : 0) + (float)sdyx[k];
    dbeta[k] = (add_beta ? dbeta[k] : 0) + (float)sdy[k];
  }
}
__global__ void total_kernel(int64_t C, pair to, const double *sum, const double *squares) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) to.put(k, sum[k], squares[k]);
}
__global__ void running_kernel(int64_t C, const double *sum, const double *squares, double N, float *mean, float *var) {
  for (int64_t k = sl_cuda_index(); k < C; k += sl_cuda_stride()) {
    double m = sum[k] / N, v = sl_fmad(-m, m, squares[k] / N);
    v = (v < 0 ? 0 : v) * (N > 1 ? N / (N - 1) : 1);
    mean[k] = (float)sl_fmad(1 - SL_BATCHNORM_MOMENTUM, (double)mean[k], SL_BATCHNORM_MOMENTUM * m);
    var[k] = (float)sl_fmad(1 - SL_BATCHNORM_MOMENTUM, (double)var[k], SL_BATCHNORM_MOMENTUM * v);
  }
}
}  // namespace

extern "C" sl_status sl__bn_stats_cuda(const sl_call *c, sl_cuda *cuda) {
  const float *x = (const float *)c->in[0].data;
  return sums(c, cuda, "bn_stats", 0, x, x, plain(), store_stats{outputs(c)});
}

extern "C" sl_status sl__bn_grad_stats_cuda(const sl_call *c, sl_cuda *cuda) {
  const float *dy = (const float *)c->in[0].data, *x = (const float *)c->in[1].data;
  const double *sum = (const double *)c->in[2].data, *squares = (const double *)c->in[3].data;
  const int64_t C = channels(&c->in[0]);
  const store_grad_stats store = {outputs(c), sum, squares, sl_batchnorm_count(c)};
  if (c->n_in == 5)
    return sums(c, cuda, "bn_grad_stats", 0, dy, x,
                masked_by_output{(const float *)c->in[4].data, (float *)c->out[2].data}, store);
  if (c->n_in == 4) return sums(c, cuda, "bn_grad_stats", 0, dy, x, plain(), store);
  float *constant = (float *)cuda->scratch;
  const size_t bytes = sl_batchnorm_mask_bytes(C);
  SL_TRY(sl_cuda_scratch(cuda, bytes, "bn_grad_stats"));
  normalize_constants<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, sum, squares, sl_batchnorm_count(c), (const float *)c->in[4].data, (const float *)c->in[5].data, constant);
  SL_TRY(sl_cuda_launched("bn_grad_stats"));
  return sums(c, cuda, "bn_grad_stats", bytes, dy, x, masked{constant, C}, store);
}

static sl_status affine(const sl_call *c, sl_cuda *cuda, const char *operation, const float *constant) {
  int64_t n = sl_shape_count(&c->out[0].shape), C = channels(&c->out[0]);
  affine_kernel<<<channel_grid(n, C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, C, constant, (const float *)c->in[0].data, c->n_in > 5 ? (const float *)c->in[5].data : NULL,
      ((const sl_batchnorm_attr *)c->attr)->relu != 0, (float *)c->out[0].data);
  return sl_cuda_launched(operation);
}

extern "C" sl_status sl__bn_normalize_cuda(const sl_call *c, sl_cuda *cuda) {
  float *constant;
  int64_t C = channels(&c->out[0]);
  SL_TRY(constants(c, cuda, "bn_normalize", &constant));
  normalize_constants<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, (const double *)c->in[1].data, (const double *)c->in[2].data, sl_batchnorm_count(c),
      (const float *)c->in[3].data, (const float *)c->in[4].data, constant);
  SL_TRY(sl_cuda_launched("bn_normalize"));
  return affine(c, cuda, "bn_normalize", constant);
}

extern "C" sl_status sl__bn_infer_cuda(const sl_call *c, sl_cuda *cuda) {
  float *constant;
  int64_t C = channels(&c->out[0]);
  SL_TRY(constants(c, cuda, "bn_infer", &constant));
  infer_constants<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, (const float *)c->in[1].data, (const float *)c->in[2].data, (const float *)c->in[3].data,
      (const float *)c->in[4].data, constant);
  SL_TRY(sl_cuda_launched("bn_infer"));
  return affine(c, cuda, "bn_infer", constant);
}

extern "C" sl_status sl__bn_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  float *constant;
  int64_t C = channels(&c->out[0]), n = sl_shape_count(&c->out[0].shape);
  SL_TRY(constants(c, cuda, "bn_dx", &constant));
  dx_constants<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, (const double *)c->in[2].data, (const double *)c->in[3].data, sl_batchnorm_count(c),
      (const float *)c->in[4].data, (const double *)c->in[5].data, (const double *)c->in[6].data,
      c->n_in > 7 ? (const float *)c->in[7].data : NULL, constant);
  SL_TRY(sl_cuda_launched("bn_dx"));
  dx_kernel<<<channel_grid(n, C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, C, constant, (const float *)c->in[0].data, (const float *)c->in[1].data, c->n_in > 7, (float *)c->out[0].data);
  return sl_cuda_launched("bn_dx");
}

extern "C" sl_status sl__bn_dparam_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t C = channels(&c->in[0]);
  dparam_kernel<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, (const double *)c->in[0].data, (const double *)c->in[1].data, (float *)c->out[0].data,
      (c->accumulate & 1) != 0, (float *)c->out[1].data, (c->accumulate & 2) != 0);
  return sl_cuda_launched("bn_dparam");
}

extern "C" sl_status sl__bn_total_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t C = channels(&c->in[0]);
  total_kernel<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(C, outputs(c), (const double *)c->in[0].data,
                                                                      (const double *)c->in[1].data);
  return sl_cuda_launched("bn_total");
}

extern "C" sl_status sl__bn_running_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t C = channels(&c->in[0]);
  running_kernel<<<sl_cuda_grid(C), SL_CUDA_THREADS, 0, cuda->stream>>>(
      C, (const double *)c->in[0].data, (const double *)c->in[1].data, sl_batchnorm_count(c), (float *)c->out[0].data,
      (float *)c->out[1].data);
  return sl_cuda_launched("bn_running");
}
