/* Batch normalisation as a graph of small operations, so that "over a leaf" and "over the global batch" differ only in
 * the scope of the sums between them: bn_stats -> bn_normalize, and backward bn_grad_stats -> bn_dx and bn_dparam
 * (Ioffe and Szegedy 2015, section 3). Sums are in double, where sum of squares less square of sum loses nothing that a
 * float had. */
#include "codelets/attributes.h"
#include "codelets/math.h"
#include "tasks/cuda_context.h"

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
  double mean = sum / count, var = squares / count - mean * mean;
  return (moments){mean, 1 / sqrt((var < 0 ? 0 : var) + SL_BATCHNORM_EPS)};
}

/* --- sums down the channels: of a, and of a b, over [M, C] ------------------------------------------------------- */

/* Positions of a tile: at most 64 tiles, so that the partial sums stay small. */
static int64_t sum_tile(const sl_call *c) {
  return sl_max64(sl_tile_rows(c, channels(&c->in[0])), (positions(&c->in[0]) + 63) / 64);
}

/* s and q are [C], to be added to, four positions at a time: memory is read in its order, and the sums stay in the
 * first cache. */
static inline void column_sums(const float *a, const float *b, int rows, int64_t C, double *s, double *q) {
  int64_t k = 0;
  for (; k + SL_LANES_D <= C; k += SL_LANES_D) {
    sl_vecd sum = *(sl_vecdu *)(s + k), product = *(sl_vecdu *)(q + k);
    for (int m = 0; m < rows; m++) {
      sl_vecd v = sl_load_d(a + m * C + k);
      sum += v;
      product += v * sl_load_d(b + m * C + k);
    }
    *(sl_vecdu *)(s + k) = sum, *(sl_vecdu *)(q + k) = product;
  }
  for (; k < C; k++)
    for (int m = 0; m < rows; m++) {
      s[k] += (double)a[m * C + k];
      q[k] += (double)a[m * C + k] * (double)b[m * C + k];
    }
}

static void sums_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = channels(&c->in[0]);
  const float *a = c->in[0].data, *b = c->in[c->n_in > 1 ? 1 : 0].data;
  double *partial = (double *)c->team->scratch[0] + 2 * C * tile;
  memset(partial, 0, (size_t)(2 * C) * sizeof *partial);
  sl_range r = sl_tile_range(tile, sum_tile(c), positions(&c->in[0]));
  int64_t m = r.from;
  for (; m + 4 <= r.to; m += 4) column_sums(a + m * C, b + m * C, 4, C, partial, partial + C);
  for (; m < r.to; m++) column_sums(a + m * C, b + m * C, 1, C, partial, partial + C);
}

/* The sums over all tiles, in the first tile's place: [2, C]. */
static const double *sums(const sl_call *c) {
  const int64_t C = channels(&c->in[0]), n = sl_tiles_of(positions(&c->in[0]), sum_tile(c));
  double *total = c->team->scratch[0];
  sl_team_for(c->team, n, sums_body, (void *)c);
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
  const double *total = sums(c);
  for (int64_t k = 0; k < C; k++) {
    put(c, 0, k, total[k]);
    put(c, 1, k, total[C + k]);
  }
  return SL_OK;
}

/* dy, x, sum, squares -> sums of dy, and of dy (x - mean) rstd. */
sl_status SL_KERNEL(bn_grad_stats)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  const double *sum = c->in[2].data, *squares = c->in[3].data, *total = sums(c);
  for (int64_t k = 0; k < C; k++) {
    moments m = moments_of(sum[k], squares[k], sl_batchnorm_count(c));
    put(c, 0, k, total[k]);
    put(c, 1, k, (total[C + k] - m.mean * total[k]) * m.rstd);
  }
  return SL_OK;
}

/* --- elementwise, with constants of each channel in the leader's scratch ------------------------------------------ */

/* [shift, scale, add]: y = (x - shift) scale + add. */
static void affine_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = channels(&c->out[0]);
  const float *shift = c->team->scratch[0], *scale = shift + C, *add = scale + C;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), positions(&c->out[0]));
  for (int64_t m = r.from; m < r.to; m++) {
    const float *x = (const float *)c->in[0].data + m * C;
    float *y = (float *)c->out[0].data + m * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) y[k] = (x[k] - shift[k]) * scale[k] + add[k];
  }
}

static void each_tile(const sl_call *c, sl_team_body body) {
  sl_team_for(c->team, sl_tiles_of(positions(&c->out[0]), sl_tile_rows(c, channels(&c->out[0]))), body, (void *)c);
}

/* x, sum, squares, gamma, beta -> y. */
sl_status SL_KERNEL(bn_normalize)(const sl_call *c) {
  const int64_t C = channels(&c->out[0]);
  const double *sum = c->in[1].data, *squares = c->in[2].data;
  const float *gamma = c->in[3].data;
  float *constant = c->team->scratch[0];
  for (int64_t k = 0; k < C; k++) {
    moments m = moments_of(sum[k], squares[k], sl_batchnorm_count(c));
    constant[k] = (float)m.mean;
    constant[C + k] = (float)((double)gamma[k] * m.rstd);
  }
  memcpy(constant + 2 * C, c->in[4].data, (size_t)C * sizeof *constant);
  each_tile(c, affine_body);
  return SL_OK;
}

/* x, running mean, running variance, gamma, beta -> y. */
sl_status SL_KERNEL(bn_infer)(const sl_call *c) {
  const int64_t C = channels(&c->out[0]);
  const float *var = c->in[2].data, *gamma = c->in[3].data;
  float *constant = c->team->scratch[0];
  memcpy(constant, c->in[1].data, (size_t)C * sizeof *constant);
  for (int64_t k = 0; k < C; k++) constant[C + k] = (float)((double)gamma[k] / sqrt((double)var[k] + SL_BATCHNORM_EPS));
  memcpy(constant + 2 * C, c->in[4].data, (size_t)C * sizeof *constant);
  each_tile(c, affine_body);
  return SL_OK;
}

/* [scale, mean of dy, mean of dy xhat times rstd, mean]. */
static void dx_body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = channels(&c->out[0]);
  const float *scale = c->team->scratch[0], *a = scale + C, *b = a + C, *mean = b + C;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), positions(&c->out[0]));
  for (int64_t m = r.from; m < r.to; m++) {
    const float *dy = (const float *)c->in[0].data + m * C, *x = (const float *)c->in[1].data + m * C;
    float *dx = (float *)c->out[0].data + m * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) dx[k] = scale[k] * (dy[k] - a[k] - (x[k] - mean[k]) * b[k]);
  }
}

/* dy, x, sum, squares, gamma, sum of dy, sum of dy xhat -> dx. */
sl_status SL_KERNEL(bn_dx)(const sl_call *c) {
  const int64_t C = channels(&c->out[0]);
  const double *sum = c->in[2].data, *squares = c->in[3].data, *sdy = c->in[5].data, *sdyx = c->in[6].data;
  const double N = sl_batchnorm_count(c);
  const float *gamma = c->in[4].data;
  float *constant = c->team->scratch[0];
  for (int64_t k = 0; k < C; k++) {
    moments m = moments_of(sum[k], squares[k], N);
    constant[k] = (float)((double)gamma[k] * m.rstd);
    constant[C + k] = (float)(sdy[k] / N);
    constant[2 * C + k] = (float)(sdyx[k] / N * m.rstd);
    constant[3 * C + k] = (float)m.mean;
  }
  each_tile(c, dx_body);
  return SL_OK;
}

/* --- over channels alone ------------------------------------------------------------------------------------------ */

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

/* Sums of leaves -> of the batch. */
sl_status SL_KERNEL(bn_total)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  for (int i = 0; i < 2; i++)
    for (int64_t k = 0; k < C; k++) put(c, i, k, ((const double *)c->in[i].data)[k]);
  return SL_OK;
}

/* Sums of the batch; running mean and (unbiased) variance, updated. */
sl_status SL_KERNEL(bn_running)(const sl_call *c) {
  const int64_t C = channels(&c->in[0]);
  const double *sum = c->in[0].data, *squares = c->in[1].data, N = sl_batchnorm_count(c);
  float *mean = c->out[0].data, *var = c->out[1].data;
  for (int64_t k = 0; k < C; k++) {
    double m = sum[k] / N, v = squares[k] / N - m * m;
    v = (v < 0 ? 0 : v) * (N > 1 ? N / (N - 1) : 1);
    mean[k] = (float)((1 - SL_BATCHNORM_MOMENTUM) * (double)mean[k] + SL_BATCHNORM_MOMENTUM * m);
    var[k] = (float)((1 - SL_BATCHNORM_MOMENTUM) * (double)var[k] + SL_BATCHNORM_MOMENTUM * v);
  }
  return SL_OK;
}

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
  return (size_t)(sl_tiles_of(positions(&c->in[0]), sum_tile(c)) * 2 * channels(&c->in[0])) * sizeof(double);
}
static size_t sums_scratch_cuda(const sl_call *c) {
  return sl_cuda_columns_bytes(2, positions(&c->in[0]), channels(&c->in[0]));
}
static size_t constants_scratch(const sl_call *c) { return (size_t)(4 * channels(&c->out[0])) * sizeof(float); }

static void cost4(const sl_call *c, sl_cost *cost) { cost->flops = 4 * (double)sl_shape_count(&c->in[0].shape); }

/* in[0] [..., C] -> two F64 [C] at the attribute's scope. */
static sl_status sums_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in;
  const sl_batchnorm_attr *a = attr;
  for (int j = 0; j < n_out; j++) {
    out[j].shape = SL_SHAPE(in[0]->shape.dim[in[0]->shape.ndim - 1]);
    out[j].dtype = SL_F64;
    out[j].scope = (sl_scope)a->scope;
  }
  return SL_OK;
}
static sl_status same_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}
/* Two [C] of the whole batch: F32 parameters' gradients, or F64 totals. */
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

/* The sums depend on x too; dx has all of that, so bn_stats has no rule of its own. */
static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_value x = node->in[0], sum = node->in[1], squares = node->in[2], gamma = node->in[3], dy = dout[0];
  sl_value stats[2], dparam[2];
  sl_graph_add(graph, &sl_op_bn_grad_stats, node->name, node->attr, (sl_value[]){dy, x, sum, squares}, 4, stats, 2);
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_bn_dx, node->name, node->attr,
                           (sl_value[]){dy, x, sum, squares, gamma, stats[0], stats[1]}, 7);
  if (!need[3] && !need[4]) return;
  sl_graph_add(graph, &sl_op_bn_dparam, node->name, node->attr, stats, 2, dparam, 2);
  if (need[3]) din[3] = dparam[0];
  if (need[4]) din[4] = dparam[1];
}

#define BATCHNORM_OPERATION(NAME) \
  .name = #NAME, .attr_bytes = sizeof(sl_batchnorm_attr), .cpu = SL_KERNELS(NAME), .cuda = SL_CUDA_KERNEL(NAME)

const sl_operation sl_op_bn_stats = {BATCHNORM_OPERATION(bn_stats), .shape = sums_shape, .cost = cost4,
                                     .scratch = sums_scratch, .scratch_cuda = sums_scratch_cuda};
const sl_operation sl_op_bn_normalize = {BATCHNORM_OPERATION(bn_normalize),
                                         .shape = same_shape,
                                         .gradient = gradient,
                                         .cost = cost4,
                                         .scratch = constants_scratch,
                                         .scratch_cuda = constants_scratch,
                                         .inplace = {1}};
const sl_operation sl_op_bn_grad_stats = {BATCHNORM_OPERATION(bn_grad_stats), .shape = sums_shape, .cost = cost4,
                                          .scratch = sums_scratch, .scratch_cuda = sums_scratch_cuda};
const sl_operation sl_op_bn_dx = {
    BATCHNORM_OPERATION(bn_dx),        .shape = same_shape, .cost = cost4, .scratch = constants_scratch,
    .scratch_cuda = constants_scratch, .inplace = {1}};
const sl_operation sl_op_bn_dparam = {BATCHNORM_OPERATION(bn_dparam), .shape = dparam_shape};
const sl_operation sl_op_bn_total = {BATCHNORM_OPERATION(bn_total), .shape = total_shape};
const sl_operation sl_op_bn_running = {BATCHNORM_OPERATION(bn_running), .shape = running_shape, .update = {3, 4}};
const sl_operation sl_op_bn_infer = {
    BATCHNORM_OPERATION(bn_infer),     .shape = same_shape, .cost = cost4, .scratch = constants_scratch,
    .scratch_cuda = constants_scratch, .inplace = {1}};

sl_value sl_batchnorm(sl_graph *graph, const char *layer, sl_value x, sl_batchnorm_over over, int training) {
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
  const int64_t C = shape->dim[shape->ndim - 1];
  const sl_batchnorm_attr attr = {over == SL_BATCHNORM_LEAF ? SL_SCOPE_LEAF : SL_SCOPE_WHOLE, sl_shape_row(shape) / C},
                          whole = {SL_SCOPE_WHOLE, attr.spatial};
  const sl_init zero = {SL_INIT_CONSTANT, 0}, one = {SL_INIT_CONSTANT, 1};
  sl_value gamma = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32, SL_SHAPE(C), one);
  sl_value beta = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "bias", SL_F32, SL_SHAPE(C), zero);
  sl_value mean = sl_graph_tensor(graph, SL_ROLE_STATE, layer, "running_mean", SL_F32, SL_SHAPE(C), zero);
  sl_value var = sl_graph_tensor(graph, SL_ROLE_STATE, layer, "running_var", SL_F32, SL_SHAPE(C), one);
  if (!training) return sl_graph_add1(graph, &sl_op_bn_infer, layer, &attr, (sl_value[]){x, mean, var, gamma, beta}, 5);
  sl_value stats[2], total[2], running[2];
  sl_graph_add(graph, &sl_op_bn_stats, layer, &attr, &x, 1, stats, 2);
  sl_value y =
      sl_graph_add1(graph, &sl_op_bn_normalize, layer, &attr, (sl_value[]){x, stats[0], stats[1], gamma, beta}, 5);
  memcpy(total, stats, sizeof total);
  if (over == SL_BATCHNORM_LEAF) sl_graph_add(graph, &sl_op_bn_total, layer, &attr, stats, 2, total, 2);
  sl_graph_add(graph, &sl_op_bn_running, layer, &whole, (sl_value[]){total[0], total[1], mean, var}, 4, running, 2);
  return y;
}
#endif
