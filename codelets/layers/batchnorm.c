/* Batch normalisation as a graph of small operations, so that "over a leaf" and "over the global batch" differ only in
 * the scope of the sums between them: bn_stats -> bn_normalize, and backward bn_grad_stats -> bn_dx and bn_dparam
 * (Ioffe and Szegedy 2015, section 3). Sums are in double, so that the difference between the sum of squares and the
 * square of the sum keeps the precision of a float.
 *
 * All these operations are bound by memory, so the same passes also add a residual and apply a rectifier (attribute
 * relu). Without a residual, the backward pass recomputes the rectifier's mask from x. With a residual, it takes the
 * mask from the output, and bn_grad_stats writes the masked gradient, which is the gradient of the residual. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(bn_stats);
SL_KERNEL_DECLARE(bn_normalize);
SL_KERNEL_DECLARE(bn_grad_stats);
SL_KERNEL_DECLARE(bn_dx);
SL_KERNEL_DECLARE(bn_dparam);
SL_KERNEL_DECLARE(bn_total);
SL_KERNEL_DECLARE(bn_running);
SL_KERNEL_DECLARE(bn_infer);

static int64_t channels(const sl_array *x) { return x->shape.dim[x->shape.ndim - 1]; }
static int64_t positions(const sl_array *x) { return sl_shape_count(&x->shape) / channels(x); }

typedef struct moments {
  double mean, rstd;
} moments;
static inline moments moments_of(double sum, double squares, double count) {
  double mean = sum / count, var = sl_fmad(-mean, mean, squares / count);
  return (moments){mean, 1 / sqrt((var < 0 ? 0 : var) + SL_BATCHNORM_EPS)};
}

/* --- sums down the channels: of a, and of a b, over [M, C] ------------------------------------------------------- */

static int64_t sum_tile(const sl_call *c) {
  return sl_batchnorm_sum_tile(c->tiles.elements, positions(&c->in[0]), channels(&c->in[0]));
}

/* Which elements the sums cover. PLAIN: all. SQUARES: all, with b = a. MASKED: only elements where (b - shift) scale +
 * add > 0. OUTPUT: only elements where y > 0; the masked a is also written to g. */
typedef enum sums_kind { SUMS_PLAIN, SUMS_SQUARES, SUMS_MASKED, SUMS_OUTPUT } sums_kind;
typedef struct columns {
  const sl_real *a, *b, *y;
  sl_real *g; /* may be a */
  const float *shift, *scale, *add;
} columns;

typedef float half __attribute__((vector_size(SL_LANES * 2)));
typedef int32_t half_mask __attribute__((vector_size(SL_LANES * 2)));
static inline half load_half_f32(const float *p) { return *(const sl_vechu *)p; }
static inline void store_half_f32(float *p, half v) { *(sl_vechu *)p = v; }
typedef uint32_t half_bits __attribute__((vector_size(SL_LANES * 2)));
typedef uint16_t half_bf16 __attribute__((vector_size(SL_LANES), aligned(2)));
/* GCC converts a vector element by element, so the code names the vector instructions of the processors that have them.
 * store_half stores numbers that need no rounding. */
#if defined SL_ISA_AVX512
static inline half load_half_bf16(const sl_bf16 *p) {
  return (half)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16);
}
static inline void store_half_bf16(sl_bf16 *p, half v) {
  _mm_storeu_si128((void *)p, _mm256_cvtepi32_epi16((__m256i)((half_bits)v >> 16)));
}
static inline sl_vecd widen(half v) { return (sl_vecd)_mm512_cvtps_pd((__m256)v); }
#elif defined SL_ISA_AVX2
static inline half load_half_bf16(const sl_bf16 *p) {
  return (half)_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const void *)p)), 16);
}
static inline void store_half_bf16(sl_bf16 *p, half v) {
  const __m128i bits = (__m128i)((half_bits)v >> 16);
  _mm_storel_epi64((void *)p, _mm_packus_epi32(bits, bits));
}
static inline sl_vecd widen(half v) { return (sl_vecd)_mm256_cvtps_pd((__m128)v); }
#else
static inline half load_half_bf16(const sl_bf16 *p) {
  return (half)(__builtin_convertvector(*(const half_bf16 *)(const void *)p, half_bits) << 16);
}
static inline void store_half_bf16(sl_bf16 *p, half v) {
  *(half_bf16 *)(void *)p = __builtin_convertvector((half_bits)v >> 16, half_bf16);
}
static inline sl_vecd widen(half v) { return __builtin_convertvector(v, sl_vecd); }
#endif
#define load_half(p) SL_BY_TYPE(p, load_half)(p)
#define store_half(p, v) SL_BY_TYPE(p, store_half)(p, v)
static inline half fma_half(half a, half b, half c) {
#if SL_FUSES
  for (int i = 0; i < SL_LANES_D; i++) c[i] = sl_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

/* Adds to s and q, [C] each, four positions at a time: memory is read in order, and the sums stay in the
 * first-level cache. */
static inline __attribute__((always_inline)) void column_sums(const sums_kind kind, columns m, int rows, int64_t C,
                                                              double *s, double *q) {
  int64_t k = 0;
  for (; k + SL_LANES_D <= C; k += SL_LANES_D) {
    sl_vecd sum = *(sl_vecdu *)(s + k), product = *(sl_vecdu *)(q + k);
    for (int64_t i = k; i < k + rows * C; i += C) {
      half a = load_half(m.a + i), b = kind == SUMS_SQUARES ? a : load_half(m.b + i);
      if (kind == SUMS_MASKED) {
        half z = fma_half(b - load_half(m.shift + k), load_half(m.scale + k), load_half(m.add + k));
        a = (half)((half_mask)a & (half_mask)(z > 0));
      } else if (kind == SUMS_OUTPUT) {
        a = (half)((half_mask)a & (half_mask)(load_half(m.y + i) > 0));
        store_half(m.g + i, a);
      }
      sl_vecd v = widen(a);
      sum += v;
      product = sl_fma_d(v, widen(b), product);
    }
    *(sl_vecdu *)(s + k) = sum, *(sl_vecdu *)(q + k) = product;
  }
  for (; k < C; k++)
    for (int64_t i = k; i < k + rows * C; i += C) {
      float a = sl_get(m.a + i), b = sl_get(m.b + i);
      if (kind == SUMS_MASKED) a = sl_fmaf(b - m.shift[k], m.scale[k], m.add[k]) > 0 ? a : 0;
      if (kind == SUMS_OUTPUT) {
        a = sl_get(m.y + i) > 0 ? a : 0;
        sl_put(m.g + i, a);
      }
      s[k] += (double)a;
      q[k] += (double)a * (double)b;
    }
}

static inline __attribute__((always_inline)) void tile_sums(const sums_kind kind, const sl_call *c, columns all,
                                                            int64_t tile) {
  const int64_t C = channels(&c->in[0]);
  double *partial = (double *)c->team->scratch[0] + 2 * C * tile;
  memset(partial, 0, (size_t)(2 * C) * sizeof *partial);
  sl_range r = sl_tile_range(tile, sum_tile(c), positions(&c->in[0]));
  for (int64_t m = r.from, rows; m < r.to; m += rows) {
    rows = r.to - m < 4 ? 1 : 4;
    columns here = all;
    here.a += m * C, here.b += m * C;
    if (kind == SUMS_OUTPUT) here.y += m * C, here.g += m * C;
    if (rows == 4)
      column_sums(kind, here, 4, C, partial, partial + C);
    else
      column_sums(kind, here, 1, C, partial, partial + C);
  }
}

/* The constants of the rectifier's mask. In scratch memory they lie after the partial sums. */
static float *mask_constants(const sl_call *c) {
  const int64_t C = channels(&c->in[0]), n = sl_tiles_of(positions(&c->in[0]), sum_tile(c));
  return (float *)((double *)c->team->scratch[0] + 2 * C * n);
}

static void sums_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  if (c->n_in > 1)
    tile_sums(SUMS_PLAIN, c, (columns){.a = c->in[0].data, .b = c->in[1].data}, tile);
  else
    tile_sums(SUMS_SQUARES, c, (columns){.a = c->in[0].data, .b = c->in[0].data}, tile);
}
static void masked_sums_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = channels(&c->in[0]);
  const float *constant = mask_constants(c);
  tile_sums(
      SUMS_MASKED, c,
      (columns){
          .a = c->in[0].data, .b = c->in[1].data, .shift = constant, .scale = constant + C, .add = constant + 2 * C},
      tile);
}
static void output_sums_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  tile_sums(SUMS_OUTPUT, c, (columns){.a = c->in[0].data, .b = c->in[1].data, .y = c->in[4].data, .g = c->out[2].data},
            tile);
}

/* Runs the body, then adds the sums of all tiles to the sums of the first tile: [2, C]. */
static const double *sums(const sl_call *c, sl_team_body body) {
  const int64_t C = channels(&c->in[0]), n = sl_tiles_of(positions(&c->in[0]), sum_tile(c));
  double *total = c->team->scratch[0];
  sl_team_for(c->team, n, body, (void *)c);
  for (int64_t tile = 1; tile < n; tile++)
    for (int64_t i = 0; i < 2 * C; i++) total[i] += total[2 * C * tile + i];
  return total;
}

static inline void put(const sl_call *c, int i, int64_t k, double x) {
  double *out = c->out[i].data;
  out[k] = c->accumulate >> i & 1 ? out[k] + x : x;
}

/* x -> sum, sum of squares: F64 [C]. */
sl_status SL_KERNEL(bn_stats)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  const double *total = sums(c, sums_body);
  for (int64_t k = 0; k < C; k++) {
    put(c, 0, k, total[k]);
    put(c, 1, k, total[C + k]);
  }
  return SL_OK;
}

/* [shift, scale, add] of the channels: y = (x - shift) scale + add. */
static void affine_constants(const sl_call *c, const double *sum, const double *squares, const float *gamma,
                             const float *beta, int64_t C, float *constant) {
  for (int64_t k = 0; k < C; k++) {
    moments m = moments_of(sum[k], squares[k], sl_batchnorm_count(c));
    constant[k] = (float)m.mean;
    constant[C + k] = (float)((double)gamma[k] * m.rstd);
  }
  memcpy(constant + 2 * C, beta, (size_t)C * sizeof *constant);
}

/* dy, x, sum, squares -> sums of dy, and of dy (x - mean) rstd. With a rectifier, dy is masked first. Without a
 * residual: dy, x, sum, squares, gamma, beta -> sums. With a residual: dy, x, sum, squares, y -> sums, and the masked
 * dy. */
sl_status SL_KERNEL(bn_grad_stats)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  const double *sum = c->in[2].data, *squares = c->in[3].data;
  if (c->n_in == 6) affine_constants(c, sum, squares, c->in[4].data, c->in[5].data, C, mask_constants(c));
  const double *total = sums(c, c->n_in == 6 ? masked_sums_body : c->n_in == 5 ? output_sums_body : sums_body);
  for (int64_t k = 0; k < C; k++) {
    moments m = moments_of(sum[k], squares[k], sl_batchnorm_count(c));
    put(c, 0, k, total[k]);
    put(c, 1, k, sl_fmad(-m.mean, total[k], total[C + k]) * m.rstd);
  }
  return SL_OK;
}

/* --- elementwise, with constants of each channel in the leader's scratch ------------------------------------------ */

/* y = max((x - shift) scale + add + residual, 0) with the constants [shift, scale, add]; residual and maximum are
 * optional. A NaN passes, as in relu. */
static inline __attribute__((always_inline)) void affine(const sl_call *c, const int relu, const int residual,
                                                         int64_t tile) {
  const int64_t C = channels(&c->out[0]);
  const float *shift = c->team->scratch[0], *scale = shift + C, *add = scale + C;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), positions(&c->out[0]));
  for (int64_t m = r.from; m < r.to; m++) {
    const sl_real *x = (const sl_real *)c->in[0].data + m * C;
    const sl_real *other = residual ? (const sl_real *)c->in[5].data + m * C : NULL;
    sl_real *y = (sl_real *)c->out[0].data + m * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) {
      float z = sl_fmaf(sl_get(x + k) - shift[k], scale[k], add[k]);
      if (residual) z += sl_get(other + k);
      sl_put(y + k, relu && z < 0 ? 0 : z);
    }
  }
}
static void affine_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  affine(arg, 0, 0, tile);
}
static void affine_relu_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  affine(arg, 1, 0, tile);
}
static void residual_relu_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  affine(arg, 1, 1, tile);
}

static void each_tile(const sl_call *c, sl_team_body body) {
  sl_team_for(c->team, sl_tiles_of(positions(&c->out[0]), sl_tile_rows(c, channels(&c->out[0]))), body, (void *)c);
}

static void each_affine(const sl_call *c) {
  const sl_batchnorm_attr *a = c->attr;
  each_tile(c, c->n_in > 5 ? residual_relu_body : a->relu ? affine_relu_body : affine_body);
}

/* x, sum, squares, gamma, beta (, residual) -> y. */
sl_status SL_KERNEL(bn_normalize)(const sl_call *c) {
  affine_constants(c, c->in[1].data, c->in[2].data, c->in[3].data, c->in[4].data, channels(&c->out[0]),
                   c->team->scratch[0]);
  each_affine(c);
  return SL_OK;
}

/* x, running mean, running variance, gamma, beta (, residual) -> y. */
sl_status SL_KERNEL(bn_infer)(const sl_call *c) {
  const int64_t C = channels(&c->out[0]);
  const float *var = c->in[2].data, *gamma = c->in[3].data;
  float *constant = c->team->scratch[0];
  memcpy(constant, c->in[1].data, (size_t)C * sizeof *constant);
  for (int64_t k = 0; k < C; k++) constant[C + k] = (float)((double)gamma[k] / sqrt((double)var[k] + SL_BATCHNORM_EPS));
  memcpy(constant + 2 * C, c->in[4].data, (size_t)C * sizeof *constant);
  each_affine(c);
  return SL_OK;
}

/* The constants of the channels: [mean, scale, beta, mean of dy, mean of dy xhat times rstd]. */
static inline __attribute__((always_inline)) void dx_of(const sl_call *c, const int masked, int64_t tile) {
  const int64_t C = channels(&c->out[0]);
  const float *mean = c->team->scratch[0], *scale = mean + C, *beta = scale + C, *a = beta + C, *b = a + C;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), positions(&c->out[0]));
  for (int64_t m = r.from; m < r.to; m++) {
    const sl_real *dy = (const sl_real *)c->in[0].data + m * C, *x = (const sl_real *)c->in[1].data + m * C;
    sl_real *dx = (sl_real *)c->out[0].data + m * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) {
      float centred = sl_get(x + k) - mean[k], g = sl_get(dy + k);
      if (masked) g = sl_fmaf(centred, scale[k], beta[k]) > 0 ? g : 0;
      sl_put(dx + k, scale[k] * sl_fmaf(-centred, b[k], g - a[k]));
    }
  }
}
static void dx_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  dx_of(arg, 0, tile);
}
static void masked_dx_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  dx_of(arg, 1, tile);
}

/* dy, x, sum, squares, gamma, sum of dy, sum of dy xhat -> dx; with beta, dy is masked by a rectifier first. */
sl_status SL_KERNEL(bn_dx)(const sl_call *c) {
  const int64_t C = channels(&c->out[0]);
  const double *sum = c->in[2].data, *squares = c->in[3].data, *sdy = c->in[5].data, *sdyx = c->in[6].data;
  const double N = sl_batchnorm_count(c);
  const float *gamma = c->in[4].data;
  float *constant = c->team->scratch[0];
  affine_constants(c, sum, squares, gamma, c->in[c->n_in > 7 ? 7 : 4].data, C, constant);
  for (int64_t k = 0; k < C; k++) {
    constant[3 * C + k] = (float)(sdy[k] / N);
    constant[4 * C + k] = (float)(sdyx[k] / N * moments_of(sum[k], squares[k], N).rstd);
  }
  each_tile(c, c->n_in > 7 ? masked_dx_body : dx_body);
  return SL_OK;
}

/* --- over channels alone ------------------------------------------------------------------------------------------ */

#ifndef SL_STORE_BF16 /* no samples, so nothing in bf16 */
/* Sums of dy and dy xhat -> dgamma, dbeta. */
sl_status SL_KERNEL(bn_dparam)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  const double *sdy = c->in[0].data, *sdyx = c->in[1].data;
  float *dgamma = c->out[0].data, *dbeta = c->out[1].data;
  for (int64_t k = 0; k < C; k++) {
    dgamma[k] = (c->accumulate & 1 ? dgamma[k] : 0) + (float)sdyx[k];
    dbeta[k] = (c->accumulate & 2 ? dbeta[k] : 0) + (float)sdy[k];
  }
  return SL_OK;
}

/* Sums of leaves -> sums of the batch. */
sl_status SL_KERNEL(bn_total)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  for (int i = 0; i < 2; i++)
    for (int64_t k = 0; k < C; k++) put(c, i, k, ((const double *)c->in[i].data)[k]);
  return SL_OK;
}

/* Sums of the batch -> running mean and (unbiased) variance, updated in place. */
sl_status SL_KERNEL(bn_running)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  const double *sum = c->in[0].data, *squares = c->in[1].data, N = sl_batchnorm_count(c);
  float *mean = c->out[0].data, *var = c->out[1].data;
  for (int64_t k = 0; k < C; k++) {
    double m = sum[k] / N, v = sl_fmad(-m, m, squares[k] / N);
    v = (v < 0 ? 0 : v) * (N > 1 ? N / (N - 1) : 1);
    mean[k] = (float)sl_fmad(1 - SL_BATCHNORM_MOMENTUM, (double)mean[k], SL_BATCHNORM_MOMENTUM * m);
    var[k] = (float)sl_fmad(1 - SL_BATCHNORM_MOMENTUM, (double)var[k], SL_BATCHNORM_MOMENTUM * v);
  }
  return SL_OK;
}
#endif

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(bn_stats);
SL_CUDA_DECLARE(bn_normalize);
SL_CUDA_DECLARE(bn_grad_stats);
SL_CUDA_DECLARE(bn_dx);
SL_CUDA_DECLARE(bn_dparam);
SL_CUDA_DECLARE(bn_total);
SL_CUDA_DECLARE(bn_running);
SL_CUDA_DECLARE(bn_infer);

static size_t sums_scratch(const sl_call *c) {
  return (size_t)(sl_tiles_of(positions(&c->in[0]), sum_tile(c)) * 2 * channels(&c->in[0])) * sizeof(double) +
         (size_t)(3 * channels(&c->in[0])) * sizeof(float);
}
static size_t sums_scratch_cuda(const sl_call *c) {
  return sl_batchnorm_mask_bytes(channels(&c->in[0])) +
         (size_t)(sl_tiles_of(positions(&c->in[0]), sum_tile(c)) * 2 * channels(&c->in[0])) * sizeof(double);
}
static size_t constants_scratch(const sl_call *c) { return (size_t)(5 * channels(&c->out[0])) * sizeof(float); }

static void cost4(const sl_call *c, sl_cost *cost) { cost->flops = 4 * (double)sl_shape_count(&c->in[0].shape); }

/* in[0] [..., C] -> two F64 [C] with the scope of the attribute and, if there is a third output, a value of in[0]'s
 * shape. */
static sl_status sums_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in;
  const sl_batchnorm_attr *a = attr;
  for (int j = 0; j < 2; j++) {
    out[j].shape = SL_SHAPE(in[0]->shape.dim[in[0]->shape.ndim - 1]);
    out[j].dtype = SL_F64;
    out[j].scope = (sl_scope)a->scope;
  }
  if (n_out > 2) out[2].shape = in[0]->shape;
  return SL_OK;
}
static sl_status same_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}
/* Two values [C] of the whole batch: gradients of parameters in F32, or totals in F64. */
static sl_status dparam_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)n_in;
  for (int j = 0; j < n_out; j++) {
    out[j].shape = in[0]->shape;
    out[j].scope = SL_SCOPE_WHOLE;
  }
  return SL_OK;
}
static sl_status total_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  SL_TRY(dparam_shape(attr, in, n_in, out, n_out));
  for (int j = 0; j < n_out; j++) out[j].dtype = SL_F64;
  return SL_OK;
}
static sl_status running_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                               int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[2]->shape;
  out[1].shape = in[3]->shape;
  return SL_OK;
}

/* The sums depend on x, too. dx includes the gradient through the sums, so bn_stats has no gradient rule. */
static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_batchnorm_attr *a = node->attr;
  const sl_value x = node->in[0], sum = node->in[1], squares = node->in[2], gamma = node->in[3], beta = node->in[4];
  const int residual = node->n_in > 5, masked = a->relu && !residual;
  sl_value stats[3], dparam[2], dy = dout[0];
  sl_graph_add(graph, &sl_op_bn_grad_stats, node->name, node->attr,
               (sl_value[]){dy, x, sum, squares, residual ? node->out[0] : gamma, beta},
               masked     ? 6
               : residual ? 5
                          : 4,
               stats, residual ? 3 : 2);
  if (residual) dy = stats[2];
  if (residual && need[5]) din[5] = dy;
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_bn_dx, node->name, node->attr,
                           (sl_value[]){dy, x, sum, squares, gamma, stats[0], stats[1], beta}, masked ? 8 : 7);
  if (!need[3] && !need[4]) return;
  sl_graph_add(graph, &sl_op_bn_dparam, node->name, node->attr, stats, 2, dparam, 2);
  if (need[3]) din[3] = dparam[0];
  if (need[4]) din[4] = dparam[1];
}

#define BATCHNORM_OPERATION(NAME) \
  .name = #NAME, .attr_bytes = sizeof(sl_batchnorm_attr), .cpu = SL_KERNELS(NAME), .cuda = SL_CUDA_KERNEL(NAME)

const sl_operation sl_op_bn_stats = {BATCHNORM_OPERATION(bn_stats), .cpu_bf16 = SL_KERNELS_BF16(bn_stats),
                                     .shape = sums_shape,           .cost = cost4,
                                     .scratch = sums_scratch,       .scratch_cuda = sums_scratch_cuda};
const sl_operation sl_op_bn_normalize = {BATCHNORM_OPERATION(bn_normalize),
                                         .cpu_bf16 = SL_KERNELS_BF16(bn_normalize),
                                         .shape = same_shape,
                                         .gradient = gradient,
                                         .cost = cost4,
                                         .scratch = constants_scratch,
                                         .scratch_cuda = constants_scratch,
                                         .inplace = {1}};
const sl_operation sl_op_bn_grad_stats = {BATCHNORM_OPERATION(bn_grad_stats),
                                          .cpu_bf16 = SL_KERNELS_BF16(bn_grad_stats),
                                          .shape = sums_shape,
                                          .cost = cost4,
                                          .scratch = sums_scratch,
                                          .scratch_cuda = sums_scratch_cuda,
                                          .inplace = {0, 0, 1}};
const sl_operation sl_op_bn_dx = {
    BATCHNORM_OPERATION(bn_dx),   .cpu_bf16 = SL_KERNELS_BF16(bn_dx), .shape = same_shape, .cost = cost4,
    .scratch = constants_scratch, .scratch_cuda = constants_scratch,  .inplace = {1}};
const sl_operation sl_op_bn_dparam = {BATCHNORM_OPERATION(bn_dparam), .shape = dparam_shape};
const sl_operation sl_op_bn_total = {BATCHNORM_OPERATION(bn_total), .shape = total_shape};
const sl_operation sl_op_bn_running = {BATCHNORM_OPERATION(bn_running), .shape = running_shape, .update = {3, 4}};
const sl_operation sl_op_bn_infer = {
    BATCHNORM_OPERATION(bn_infer), .cpu_bf16 = SL_KERNELS_BF16(bn_infer), .shape = same_shape, .cost = cost4,
    .scratch = constants_scratch,  .scratch_cuda = constants_scratch,     .inplace = {1}};

static sl_value batchnorm(sl_graph *graph, const char *layer, sl_value x, int relu, sl_value residual,
                          sl_batchnorm_over over, int training) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info) return SL_NONE;
  const sl_shape *shape = &info->shape;
  if (shape->ndim < 2 || info->scope != SL_SCOPE_SAMPLE || info->dtype != SL_F32) {
    char text[SL_SHAPE_TEXT];
    sl_fail(SL_ESHAPE, "batchnorm: takes samples F32 [B, ..., C], not %s %s", sl_dtype_name(info->dtype),
            sl_shape_text(shape, text, sizeof text));
    sl_graph_fail(graph, SL_ESHAPE, layer);
    return SL_NONE;
  }
  const sl_value_info *other = residual == SL_NONE ? NULL : sl_graph_value(graph, residual);
  if (residual != SL_NONE && !other) return SL_NONE;
  if (other && (!sl_shape_equal(&other->shape, shape) || other->dtype != SL_F32)) {
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    sl_fail(SL_ESHAPE, "batchnorm: residual %s %s cannot be added to F32 %s", sl_dtype_name(other->dtype),
            sl_shape_text(&other->shape, a, sizeof a), sl_shape_text(shape, b, sizeof b));
    sl_graph_fail(graph, SL_ESHAPE, layer);
    return SL_NONE;
  }
  const int64_t C = shape->dim[shape->ndim - 1];
  const sl_batchnorm_attr attr = {over == SL_BATCHNORM_LEAF ? SL_SCOPE_LEAF : SL_SCOPE_WHOLE, sl_shape_row(shape) / C,
                                  relu},
                          whole = {SL_SCOPE_WHOLE, attr.spatial, 0};
  const int n = other ? 6 : 5;
  const sl_init zero = {SL_INIT_CONSTANT, 0}, one = {SL_INIT_CONSTANT, 1};
  sl_value gamma = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32, SL_SHAPE(C), one);
  sl_value beta = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "bias", SL_F32, SL_SHAPE(C), zero);
  sl_value mean = sl_graph_tensor(graph, SL_ROLE_STATE, layer, "running_mean", SL_F32, SL_SHAPE(C), zero);
  sl_value var = sl_graph_tensor(graph, SL_ROLE_STATE, layer, "running_var", SL_F32, SL_SHAPE(C), one);
  if (!training)
    return sl_graph_add1(graph, &sl_op_bn_infer, layer, &attr, (sl_value[]){x, mean, var, gamma, beta, residual}, n);
  sl_value stats[2], total[2], running[2];
  sl_graph_add(graph, &sl_op_bn_stats, layer, &attr, &x, 1, stats, 2);
  sl_value y = sl_graph_add1(graph, &sl_op_bn_normalize, layer, &attr,
                             (sl_value[]){x, stats[0], stats[1], gamma, beta, residual}, n);
  memcpy(total, stats, sizeof total);
  if (over == SL_BATCHNORM_LEAF) sl_graph_add(graph, &sl_op_bn_total, layer, &attr, stats, 2, total, 2);
  sl_graph_add(graph, &sl_op_bn_running, layer, &whole, (sl_value[]){total[0], total[1], mean, var}, 4, running, 2);
  return y;
}

sl_value sl_batchnorm(sl_graph *graph, const char *layer, sl_value x, sl_batchnorm_over over, int training) {
  return batchnorm(graph, layer, x, 0, SL_NONE, over, training);
}
sl_value sl_batchnorm_relu(sl_graph *graph, const char *layer, sl_value x, sl_value residual, sl_batchnorm_over over,
                           int training) {
  return batchnorm(graph, layer, x, 1, residual, over, training);
}
#endif
