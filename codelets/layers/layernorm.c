/* Layer normalisation (Ba, Kiros and Hinton 2016): y = (x - mean) rstd gamma + beta over the last dimension, with the
 * variance of the row itself (not the unbiased one). Mean and rstd of each row are kept, in double, for the backward
 * pass, which is two operations: layernorm_dx, row by row, and layernorm_dparam, sums over all rows.
 *
 * A kernel reads a row three times while the row lies in the first-level cache. The first pass gives a float close to
 * the mean. In the second pass, deviations from that float are nearly exact and give mean and variance without
 * cancellation, however far the row is from zero (the corrected two-pass algorithm, Chan, Golub and LeVeque 1983). So
 * runs can be summed in floats; the sums of the runs are added in double. The third pass writes y. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(layernorm);
SL_KERNEL_DECLARE(layernorm_dx);
SL_KERNEL_DECLARE(layernorm_dparam);

enum {
  RUN = 1024,      /* elements summed in floats */
  GROUP = 8,       /* rows summed in floats, down a column */
  MOST_TILES = 32, /* most partial sums of layernorm_dparam */
};

static int64_t features(const sl_array *a) { return a->shape.dim[a->shape.ndim - 1]; }
static int64_t rows_of(const sl_array *a) { return sl_shape_count(&a->shape) / features(a); }

/* Two sums at once, so that their additions overlap. */
typedef struct pair {
  sl_sum a, b;
} pair;

static double sum_row(const sl_real *x, int64_t C) {
  double sum = 0;
  for (int64_t from = 0; from < C; from += RUN) {
    const int64_t to = sl_min64(C, from + RUN);
    sl_sum s[4] = {{{{0}}}};
    int64_t k = from;
    for (; k + 4 * SL_SUM_LANES <= to; k += 4 * SL_SUM_LANES)
      for (int j = 0; j < 4; j++)
        for (int w = 0; w < SL_SUM_VECTORS; w++) s[j].v[w] += sl_load(x + k + j * SL_SUM_LANES + w * SL_LANES);
    for (; k + SL_SUM_LANES <= to; k += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++) s[0].v[w] += sl_load(x + k + w * SL_LANES);
    for (int w = 0; k + w * SL_LANES < to; w++)
      s[1].v[w] += sl_load_left(x + k + w * SL_LANES, to - k - w * SL_LANES, 0);
    sum += (double)sl_sum_lanes(sl_sum_add(sl_sum_add(s[0], s[1]), sl_sum_add(s[2], s[3])));
  }
  return sum;
}

/* Sums of x - pivot, and of its square. */
static void deviations(const sl_real *x, int64_t C, float pivot, double *sum, double *squares) {
  *sum = *squares = 0;
  for (int64_t from = 0; from < C; from += RUN) {
    const int64_t to = sl_min64(C, from + RUN);
    pair s[2] = {{{{{0}}}, {{{0}}}}, {{{{0}}}, {{{0}}}}};
    int64_t k = from;
    for (; k + 2 * SL_SUM_LANES <= to; k += 2 * SL_SUM_LANES)
      for (int j = 0; j < 2; j++)
        for (int w = 0; w < SL_SUM_VECTORS; w++) {
          sl_vec d = sl_load(x + k + j * SL_SUM_LANES + w * SL_LANES) - pivot;
          s[j].a.v[w] += d;
          s[j].b.v[w] = sl_fma(d, d, s[j].b.v[w]);
        }
    for (; k < to; k += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++) {
        sl_vec d = sl_load_left(x + k + w * SL_LANES, to - k - w * SL_LANES, pivot) - pivot;
        s[0].a.v[w] += d;
        s[0].b.v[w] = sl_fma(d, d, s[0].b.v[w]);
      }
    *sum += (double)sl_sum_lanes(sl_sum_add(s[0].a, s[1].a));
    *squares += (double)sl_sum_lanes(sl_sum_add(s[0].b, s[1].b));
  }
}

/* Constants of a row: its mean as the sum of two floats, and 1 / deviation. */
typedef struct moments {
  float mean, rest, rstd;
} moments;
static inline moments moments_of(const double stats[2]) {
  const float mean = (float)stats[0];
  return (moments){mean, (float)(stats[0] - (double)mean), (float)stats[1]};
}
static inline sl_vec normal(sl_vec x, moments m) { return ((x - m.mean) - m.rest) * m.rstd; }

/* A tile is a run of rows. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = features(&c->in[0]);
  const float *gamma = c->in[1].data, *beta = c->in[2].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), rows_of(&c->in[0]));
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *x = (const sl_real *)c->in[0].data + i * C;
    sl_real *y = (sl_real *)c->out[0].data + i * C;
    double *stats = (double *)c->out[1].data + 2 * i, sum, squares;
    const float pivot = (float)(sum_row(x, C) / (double)C);
    deviations(x, C, pivot, &sum, &squares);
    const double off = sum / (double)C, var = sl_fmad(-off, off, squares / (double)C);
    stats[0] = (double)pivot + off;
    stats[1] = 1 / sqrt((var < 0 ? 0 : var) + ((const sl_layernorm_attr *)c->attr)->eps);
    const moments m = moments_of(stats);
    int64_t k = 0;
    for (; k + SL_LANES <= C; k += SL_LANES)
      sl_store(y + k, sl_fma(normal(sl_load(x + k), m), sl_load(gamma + k), sl_load(beta + k)));
    if (k < C) {
      const int64_t n = C - k;
      sl_store_n(y + k,
                 sl_fma(normal(sl_load_n(x + k, n, 0), m), sl_load_n(gamma + k, n, 0), sl_load_n(beta + k, n, 0)), n);
    }
  }
}

/* x [..., C], gamma [C], beta [C] -> y, and mean and rstd F64 [..., 2]. */
sl_status SL_KERNEL(layernorm)(const sl_call *c) {
  const int64_t C = features(&c->in[0]);
  sl_team_for(c->team, sl_tiles_of(rows_of(&c->in[0]), sl_tile_rows(c, C)), forward, (void *)c);
  return SL_OK;
}

/* With g = dy gamma and n = (x - mean) rstd: dx = rstd (g - mean of g - n mean of g n). */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = features(&c->in[0]);
  const float *gamma = c->in[3].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), rows_of(&c->in[0]));
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *dy = (const sl_real *)c->in[0].data + i * C, *x = (const sl_real *)c->in[1].data + i * C;
    sl_real *dx = (sl_real *)c->out[0].data + i * C;
    const moments m = moments_of((const double *)c->in[2].data + 2 * i);
    double plain = 0, product = 0;
    for (int64_t from = 0; from < C; from += RUN) {
      const int64_t to = sl_min64(C, from + RUN);
      pair s[2] = {{{{{0}}}, {{{0}}}}, {{{{0}}}, {{{0}}}}};
      int64_t k = from;
      for (; k + 2 * SL_SUM_LANES <= to; k += 2 * SL_SUM_LANES)
        for (int j = 0; j < 2; j++)
          for (int w = 0; w < SL_SUM_VECTORS; w++) {
            const int64_t at = k + j * SL_SUM_LANES + w * SL_LANES;
            sl_vec g = sl_load(dy + at) * sl_load(gamma + at);
            s[j].a.v[w] += g;
            s[j].b.v[w] = sl_fma(g, normal(sl_load(x + at), m), s[j].b.v[w]);
          }
      for (; k < to; k += SL_SUM_LANES)
        for (int w = 0; w < SL_SUM_VECTORS; w++) {
          const int64_t at = k + w * SL_LANES, left = to - at;
          sl_vec g = sl_load_left(dy + at, left, 0) * sl_load_left(gamma + at, left, 0);
          s[0].a.v[w] += g;
          s[0].b.v[w] = sl_fma(g, normal(sl_load_left(x + at, left, 0), m), s[0].b.v[w]);
        }
      plain += (double)sl_sum_lanes(sl_sum_add(s[0].a, s[1].a));
      product += (double)sl_sum_lanes(sl_sum_add(s[0].b, s[1].b));
    }
    const float a = (float)(plain / (double)C), b = (float)(product / (double)C);
    int64_t k = 0;
    for (; k < C; k += SL_LANES) {
      const int64_t n = C - k;
      sl_vec d = sl_fma(sl_load_left(dy + k, n, 0), sl_load_left(gamma + k, n, 0), sl_splat(-a));
      d = sl_fma(normal(sl_load_left(x + k, n, 0), m), sl_splat(-b), d) * m.rstd;
      if (n >= SL_LANES)
        sl_store(dx + k, d);
      else
        sl_store_n(dx + k, d, n);
    }
  }
}

/* dy, x, stats, gamma -> dx. */
sl_status SL_KERNEL(layernorm_dx)(const sl_call *c) {
  const int64_t C = features(&c->in[0]);
  sl_team_for(c->team, sl_tiles_of(rows_of(&c->in[0]), sl_tile_rows(c, C)), backward, (void *)c);
  return SL_OK;
}

static int64_t sum_rows(const sl_call *c) {
  const int64_t rows = rows_of(&c->in[0]);
  return sl_max64(sl_tile_rows(c, features(&c->in[0])), sl_tiles_of(rows, MOST_TILES));
}

/* Adds the sums down `rows` rows (GROUP at most) of dy n and of dy to s and q, [C] each. */
static inline void column_sums(const sl_real *dy, const sl_real *x, const moments *m, int rows, int64_t C, double *s,
                               double *q) {
  for (int64_t k = 0; k < C; k += SL_LANES) {
    sl_vec product = sl_splat(0), plain = sl_splat(0);
    const int64_t n = C - k;
    if (n >= SL_LANES) {
      for (int i = 0; i < rows; i++) {
        sl_vec d = sl_load(dy + i * C + k);
        product = sl_fma(d, normal(sl_load(x + i * C + k), m[i]), product);
        plain += d;
      }
      typedef float half __attribute__((vector_size(SL_LANES * 2)));
      half part[2];
      memcpy(part, &product, sizeof part);
      for (int h = 0; h < 2; h++) *(sl_vecdu *)(s + k + h * SL_LANES_D) += __builtin_convertvector(part[h], sl_vecd);
      memcpy(part, &plain, sizeof part);
      for (int h = 0; h < 2; h++) *(sl_vecdu *)(q + k + h * SL_LANES_D) += __builtin_convertvector(part[h], sl_vecd);
      continue;
    }
    for (int i = 0; i < rows; i++) {
      sl_vec d = sl_load_n(dy + i * C + k, n, 0);
      product = sl_fma(d, normal(sl_load_n(x + i * C + k, n, 0), m[i]), product);
      plain += d;
    }
    float a[SL_LANES], b[SL_LANES];
    memcpy(a, &product, sizeof a);
    memcpy(b, &plain, sizeof b);
    for (int64_t j = 0; j < n; j++) {
      s[k + j] += (double)a[j];
      q[k + j] += (double)b[j];
    }
  }
}

static void sums(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = features(&c->in[0]);
  double *partial = (double *)c->team->scratch[0] + 2 * C * tile;
  memset(partial, 0, (size_t)(2 * C) * sizeof *partial);
  sl_range r = sl_tile_range(tile, sum_rows(c), rows_of(&c->in[0]));
  for (int64_t i = r.from; i < r.to; i += GROUP) {
    const int rows = (int)sl_min64(GROUP, r.to - i);
    const sl_real *dy = (const sl_real *)c->in[0].data + i * C, *x = (const sl_real *)c->in[1].data + i * C;
    moments m[GROUP];
    for (int j = 0; j < rows; j++) m[j] = moments_of((const double *)c->in[2].data + 2 * (i + j));
    if (rows == GROUP)
      column_sums(dy, x, m, GROUP, C, partial, partial + C);
    else
      column_sums(dy, x, m, rows, C, partial, partial + C);
  }
}

/* dy, x, stats -> dgamma, dbeta. */
sl_status SL_KERNEL(layernorm_dparam)(const sl_call *c) {
  const int64_t C = features(&c->in[0]), n = sl_tiles_of(rows_of(&c->in[0]), sum_rows(c));
  double *total = c->team->scratch[0];
  sl_team_for(c->team, n, sums, (void *)c);
  for (int64_t tile = 1; tile < n; tile++)
    for (int64_t k = 0; k < 2 * C; k++) total[k] += total[2 * C * tile + k];
  for (int j = 0; j < 2; j++) {
    float *out = c->out[j].data;
    for (int64_t k = 0; k < C; k++) {
      const float sum = (float)total[j * C + k];
      out[k] = c->accumulate >> j & 1 ? out[k] + sum : sum;
    }
  }
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(layernorm);
SL_CUDA_DECLARE(layernorm_dx);
SL_CUDA_DECLARE(layernorm_dparam);

static size_t scratch(const sl_call *c) {
  return (size_t)(sl_tiles_of(rows_of(&c->in[0]), sum_rows(c)) * 2 * features(&c->in[0])) * sizeof(double);
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 8 * (double)sl_shape_count(&c->in[0].shape); }

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_shape *x = &in[0]->shape;
  const double eps = ((const sl_layernorm_attr *)attr)->eps;
  char text[SL_SHAPE_TEXT];
  if (in[0]->dtype != SL_F32 || x->ndim < 2 || x->dim[x->ndim - 1] < 1)
    return sl_fail(SL_ESHAPE, "takes F32 [B, ..., C], not %s %s", sl_dtype_name(in[0]->dtype),
                   sl_shape_text(x, text, sizeof text));
  if (!(eps >= 0)) return sl_fail(SL_EINVAL, "eps = %g: it must not be below 0", eps);
  for (int i = 1; i < 3; i++)
    if (in[i]->dtype != SL_F32 || in[i]->shape.ndim != 1 || in[i]->shape.dim[0] != x->dim[x->ndim - 1])
      return sl_fail(SL_ESHAPE, "parameter %s does not fit %lld features",
                     sl_shape_text(&in[i]->shape, text, sizeof text), (long long)x->dim[x->ndim - 1]);
  out[0].shape = out[1].shape = *x;
  out[1].shape.dim[x->ndim - 1] = 2;
  out[1].dtype = SL_F64;
  return SL_OK;
}

static sl_status dx_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static sl_status dparam_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)n_in;
  for (int j = 0; j < n_out; j++) {
    out[j].shape = SL_SHAPE(in[0]->shape.dim[in[0]->shape.ndim - 1]);
    out[j].scope = SL_SCOPE_WHOLE;
  }
  return SL_OK;
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  sl_value in[] = {dout[0], node->in[0], node->out[1], node->in[1]}, dparam[2];
  if (need[1] || need[2]) {
    sl_graph_add(graph, &sl_op_layernorm_dparam, node->name, NULL, in, 3, dparam, 2);
    for (int j = 0; j < 2; j++)
      if (need[1 + j]) din[1 + j] = dparam[j];
  }
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_layernorm_dx, node->name, NULL, in, 4);
}

const sl_operation sl_op_layernorm = {
    .name = "layernorm",
    .attr_bytes = sizeof(sl_layernorm_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(layernorm),
    .cpu_bf16 = SL_KERNELS_BF16(layernorm),
    .cuda = SL_CUDA_KERNEL(layernorm),
    .along = 1,
    .inplace = {1},
};
const sl_operation sl_op_layernorm_dx = {
    .name = "layernorm_dx",
    .shape = dx_shape,
    .cost = cost,
    .cpu = SL_KERNELS(layernorm_dx),
    .cpu_bf16 = SL_KERNELS_BF16(layernorm_dx),
    .cuda = SL_CUDA_KERNEL(layernorm_dx),
    .inplace = {1},
};
const sl_operation sl_op_layernorm_dparam = {
    .name = "layernorm_dparam",
    .shape = dparam_shape,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch,
    .cpu = SL_KERNELS(layernorm_dparam),
    .cpu_bf16 = SL_KERNELS_BF16(layernorm_dparam),
    .cuda = SL_CUDA_KERNEL(layernorm_dparam),
};

sl_value sl_layernorm(sl_graph *graph, const char *layer, sl_value x, double eps) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  const sl_shape C = SL_SHAPE(info->shape.dim[info->shape.ndim - 1]);
  sl_value gamma =
      sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32, C, (sl_init){SL_INIT_CONSTANT, 1});
  sl_value beta = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "bias", SL_F32, C, (sl_init){SL_INIT_CONSTANT, 0});
  sl_value out[2];
  sl_graph_add(graph, &sl_op_layernorm, layer, &(sl_layernorm_attr){eps}, (sl_value[]){x, gamma, beta}, 3, out, 2);
  return out[0];
}
#endif
