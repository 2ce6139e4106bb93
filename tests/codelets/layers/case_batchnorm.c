/* Cases of batch normalisation: each small operation, and the whole of it with its gradients. */
#include "tests/codelets/cases.h"

static const sl_batchnorm_attr leaf_relu = {SL_SCOPE_LEAF, 35, 1}, whole_relu = {SL_SCOPE_WHOLE, 35, 1},
                               whole_relu_3136 = {SL_SCOPE_WHOLE, 3136, 1};
static const sl_batchnorm_attr leaf_35 = {SL_SCOPE_LEAF, 35, 0}, whole_35 = {SL_SCOPE_WHOLE, 35, 0},
                               whole_1 = {SL_SCOPE_WHOLE, 1, 0}, whole_3136 = {SL_SCOPE_WHOLE, 3136, 0};
static const int over_leaf = SL_BATCHNORM_LEAF, over_all = SL_BATCHNORM_GLOBAL;

static double count(const case_run *r) {
  const sl_batchnorm_attr *a = r->c->attr;
  return (double)(r->graph->batch * a->spatial);
}
static double mean_of(const case_run *r, int in, int64_t k) { return r->in[in][k] / count(r); }
static double rstd_of(const case_run *r, int in, int64_t k) {
  double mean = mean_of(r, in, k);
  return 1 / sqrt(r->in[in + 1][k] / count(r) - mean * mean + 1e-5);
}

static void stats(const case_run *r) {
  const int64_t C = case_count(r->shape_out[0]);
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    double x = r->in[0][i];
    r->out[0][i % C] += x;
    r->scale[0][i % C] += fabs(x);
    r->out[1][i % C] += x * x;
  }
}

static void normalize(const case_run *r) {
  const int64_t C = case_count(r->shape_in[1]);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    int64_t k = i % C;
    double scale = r->in[3][k] * rstd_of(r, 1, k);
    r->out[0][i] = (r->in[0][i] - mean_of(r, 1, k)) * scale + r->in[4][k];
    r->scale[0][i] = (fabs(r->in[0][i]) + fabs(mean_of(r, 1, k))) * fabs(scale) + fabs(r->in[4][k]);
  }
}
/* With the residual, if there is one, and the rectifier. */
static void normalize_relu(const case_run *r) {
  normalize(r);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    if (r->c->n_in > 5) r->out[0][i] += r->in[5][i], r->scale[0][i] += fabs(r->in[5][i]);
    r->out[0][i] = fmax(r->out[0][i], 0);
  }
}

static void grad_stats(const case_run *r) {
  const int64_t C = case_count(r->shape_out[0]);
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    int64_t k = i % C;
    double dy = r->in[0][i], x = r->in[1][i], mean = mean_of(r, 2, k), rstd = rstd_of(r, 2, k);
    r->out[0][k] += dy;
    r->scale[0][k] += fabs(dy);
    r->out[1][k] += dy * (x - mean) * rstd;
    r->scale[1][k] += fabs(dy) * (fabs(x) + fabs(mean)) * rstd;
  }
}

/* dy where the rectifier's input, (x - mean) scale + beta, is positive. */
static void mask(const case_run *r, int beta) {
  const int64_t C = case_count(r->shape_in[2]);
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    int64_t k = i % C;
    if ((r->in[1][i] - mean_of(r, 2, k)) * r->in[4][k] * rstd_of(r, 2, k) + r->in[beta][k] <= 0) r->in[0][i] = 0;
  }
}
static void grad_stats_masked(const case_run *r) {
  mask(r, 5);
  grad_stats(r);
}
/* dy where y is positive; the masked dy is an output. */
static void grad_stats_output(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++)
    r->out[2][i] = r->in[0][i] = r->in[4][i] > 0 ? r->in[0][i] : 0;
  grad_stats(r);
}

static void dx(const case_run *r) {
  const int64_t C = case_count(r->shape_in[2]);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    int64_t k = i % C;
    double mean = mean_of(r, 2, k), rstd = rstd_of(r, 2, k), scale = r->in[4][k] * rstd, a = r->in[5][k] / count(r),
           b = r->in[6][k] / count(r) * rstd;
    r->out[0][i] = scale * (r->in[0][i] - a - (r->in[1][i] - mean) * b);
    r->scale[0][i] = fabs(scale) * (fabs(r->in[0][i]) + fabs(a) + (fabs(r->in[1][i]) + fabs(mean)) * fabs(b));
  }
}

static void dx_masked(const case_run *r) {
  mask(r, 7);
  dx(r);
}

static void dparam(const case_run *r) {
  for (int64_t k = 0; k < case_count(r->shape_out[0]); k++) {
    r->out[0][k] = r->in[1][k];
    r->out[1][k] = r->in[0][k];
  }
}

static void total(const case_run *r) {
  for (int j = 0; j < 2; j++)
    for (int64_t k = 0; k < case_count(r->shape_out[0]); k++) r->out[j][k] = r->in[j][k];
}

static void running(const case_run *r) {
  for (int64_t k = 0; k < case_count(r->shape_out[0]); k++) {
    double mean = mean_of(r, 0, k), var = r->in[1][k] / count(r) - mean * mean;
    r->out[0][k] = 0.9 * r->in[2][k] + 0.1 * mean;
    r->out[1][k] = 0.9 * r->in[3][k] + 0.1 * var * count(r) / (count(r) - 1);
    r->scale[0][k] = fabs(0.9 * r->in[2][k]) + fabs(0.1 * mean);
  }
}

static void infer(const case_run *r) {
  const int64_t C = case_count(r->shape_in[1]);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    int64_t k = i % C;
    double scale = r->in[3][k] / sqrt(r->in[2][k] + 1e-5);
    r->out[0][i] = (r->in[0][i] - r->in[1][k]) * scale + r->in[4][k];
    r->scale[0][i] = (fabs(r->in[0][i]) + fabs(r->in[1][k])) * fabs(scale) + fabs(r->in[4][k]);
  }
}

static void infer_relu(const case_run *r) {
  infer(r);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    r->out[0][i] = fmax(r->out[0][i] + r->in[5][i], 0);
    r->scale[0][i] += fabs(r->in[5][i]);
  }
}

/* Builds the layer: x, gamma and beta are inputs of the case, with the names that the layer looks up. */
static void build(sl_graph *graph, const test_case *c, const sl_value *in, sl_value *out) {
  sl_graph_rename(graph, in[1], "layer.weight");
  sl_graph_rename(graph, in[2], "layer.bias");
  out[0] = sl_batchnorm(graph, "layer", in[0], *(const sl_batchnorm_over *)c->attr, 1);
}

static void layer(const case_run *r) {
  const int64_t n = case_count(r->shape_out[0]), C = case_count(r->shape_in[1]), N = n / C;
  for (int64_t k = 0; k < C; k++) {
    double mean = 0, var = 0;
    for (int64_t i = k; i < n; i += C) mean += r->in[0][i] / (double)N;
    for (int64_t i = k; i < n; i += C) var += (r->in[0][i] - mean) * (r->in[0][i] - mean) / (double)N;
    double scale = r->in[1][k] / sqrt(var + 1e-5);
    for (int64_t i = k; i < n; i += C) {
      r->out[0][i] = (r->in[0][i] - mean) * scale + r->in[2][k];
      r->scale[0][i] = (fabs(r->in[0][i]) + fabs(mean)) * fabs(scale) + fabs(r->in[2][k]);
    }
  }
}

/* The same with a rectifier after it: x, gamma, beta, and a residual if there is a fourth input. */
static void build_relu(sl_graph *graph, const test_case *c, const sl_value *in, sl_value *out) {
  sl_graph_rename(graph, in[1], "layer.weight");
  sl_graph_rename(graph, in[2], "layer.bias");
  out[0] =
      sl_batchnorm_relu(graph, "layer", in[0], c->n_in > 3 ? in[3] : SL_NONE, *(const sl_batchnorm_over *)c->attr, 1);
}
static void layer_relu(const case_run *r) {
  layer(r);
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    if (r->c->n_in > 3) r->out[0][i] += r->in[3][i], r->scale[0][i] += fabs(r->in[3][i]);
    r->out[0][i] = fmax(r->out[0][i], 0);
  }
}

#define SUMS(scope, n, C) INPUT(SL_F64, scope, FILL_UNIFORM, -0.5 * (n), 0.5 * (n), C)
#define SQUARES(scope, n, C) INPUT(SL_F64, scope, FILL_UNIFORM, 1.0 * (n), 2.0 * (n), C)
#define VARIANCES(C) INPUT(SL_F32, SL_SCOPE_WHOLE, FILL_UNIFORM, 0.5, 2, C)
/* Inputs far from zero, where a naive variance in single precision is lost. */
#define FAR(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, 100, 1, __VA_ARGS__)

const test_case cases_batchnorm[] = {
    {"bn_stats",
     "leaf [3, 5, 7, 21]",
     1,
     2,
     {FAR(3, 5, 7, 21)},
     .attr = &leaf_35,
     .reference = stats,
     .tolerance = {200 * EPS64, 200 * EPS64}},
    {"bn_stats",
     "whole [131, 7]",
     1,
     2,
     {SAMPLES(131, 7)},
     .attr = &whole_1,
     .reference = stats,
     .tolerance = {200 * EPS64, 200 * EPS64}},
    {"bn_stats",
     "whole [900, 45]",
     1,
     2,
     {SAMPLES(900, 45)},
     .attr = &whole_1,
     .reference = stats,
     .tolerance = {400 * EPS64, 400 * EPS64}},
    {"bn_normalize",
     "leaf [3, 5, 7, 21]",
     5,
     1,
     {SAMPLES(3, 5, 7, 21), SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21), WHOLE(21), WHOLE(21)},
     .attr = &leaf_35,
     .reference = normalize,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"bn_grad_stats",
     "leaf [3, 5, 7, 21]",
     4,
     2,
     {SAMPLES(3, 5, 7, 21), SAMPLES(3, 5, 7, 21), SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21)},
     .attr = &leaf_35,
     .reference = grad_stats,
     .tolerance = {200 * EPS64, 200 * EPS64}},
    {"bn_grad_stats",
     "whole [3, 5, 7, 33]",
     4,
     2,
     {SAMPLES(3, 5, 7, 33), FAR(3, 5, 7, 33), SUMS(SL_SCOPE_WHOLE, 105, 33), SQUARES(SL_SCOPE_WHOLE, 105, 33)},
     .attr = &whole_35,
     .reference = grad_stats,
     .tolerance = {200 * EPS64, 200 * EPS64}},
    {"bn_dx",
     "leaf [3, 5, 7, 21]",
     7,
     1,
     {SAMPLES(3, 5, 7, 21), SAMPLES(3, 5, 7, 21), SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21),
      WHOLE(21), SUMS(SL_SCOPE_LEAF, 105, 21), SUMS(SL_SCOPE_LEAF, 105, 21)},
     .attr = &leaf_35,
     .reference = dx,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"bn_dparam",
     "leaf [21]",
     2,
     2,
     {SUMS(SL_SCOPE_LEAF, 105, 21), SUMS(SL_SCOPE_LEAF, 105, 21)},
     .attr = &leaf_35,
     .batch = 3,
     .reference = dparam,
     .tolerance = {EPS, EPS}},
    {"bn_total",
     "leaf [21]",
     2,
     2,
     {SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21)},
     .attr = &leaf_35,
     .batch = 3,
     .reference = total},
    {"bn_running",
     "[21]",
     4,
     2,
     {SUMS(SL_SCOPE_WHOLE, 105, 21), SQUARES(SL_SCOPE_WHOLE, 105, 21), WHOLE(21), VARIANCES(21)},
     .attr = &whole_35,
     .batch = 3,
     .reference = running,
     .tolerance = {EPS, EPS}},
    {"bn_infer",
     "[3, 5, 7, 21]",
     5,
     1,
     {SAMPLES(3, 5, 7, 21), WHOLE(21), VARIANCES(21), WHOLE(21), WHOLE(21)},
     .attr = &whole_35,
     .reference = infer,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"bn_normalize",
     "relu [3, 5, 7, 21]",
     5,
     1,
     {SAMPLES(3, 5, 7, 21), SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21), WHOLE(21), WHOLE(21)},
     .attr = &leaf_relu,
     .reference = normalize_relu,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"bn_normalize",
     "residual, relu [3, 5, 7, 33]",
     6,
     1,
     {SAMPLES(3, 5, 7, 33), SUMS(SL_SCOPE_WHOLE, 105, 33), SQUARES(SL_SCOPE_WHOLE, 105, 33), WHOLE(33), WHOLE(33),
      SAMPLES(3, 5, 7, 33)},
     .attr = &whole_relu,
     .reference = normalize_relu,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"bn_grad_stats",
     "relu, leaf [3, 5, 7, 21]",
     6,
     2,
     {SAMPLES(3, 5, 7, 21), SAMPLES(3, 5, 7, 21), SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21),
      WHOLE(21), WHOLE(21)},
     .attr = &leaf_relu,
     .reference = grad_stats_masked,
     .tolerance = {200 * EPS64, 200 * EPS64}},
    {"bn_grad_stats",
     "residual, relu, whole [3, 5, 7, 33]",
     5,
     3,
     {SAMPLES(3, 5, 7, 33), FAR(3, 5, 7, 33), SUMS(SL_SCOPE_WHOLE, 105, 33), SQUARES(SL_SCOPE_WHOLE, 105, 33),
      SAMPLES(3, 5, 7, 33)},
     .attr = &whole_relu,
     .reference = grad_stats_output,
     .tolerance = {200 * EPS64, 200 * EPS64}},
    {"bn_dx",
     "relu, leaf [3, 5, 7, 21]",
     8,
     1,
     {SAMPLES(3, 5, 7, 21), SAMPLES(3, 5, 7, 21), SUMS(SL_SCOPE_LEAF, 105, 21), SQUARES(SL_SCOPE_LEAF, 105, 21),
      WHOLE(21), SUMS(SL_SCOPE_LEAF, 105, 21), SUMS(SL_SCOPE_LEAF, 105, 21), WHOLE(21)},
     .attr = &leaf_relu,
     .reference = dx_masked,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"bn_infer",
     "residual, relu [3, 5, 7, 21]",
     6,
     1,
     {SAMPLES(3, 5, 7, 21), WHOLE(21), VARIANCES(21), WHOLE(21), WHOLE(21), SAMPLES(3, 5, 7, 21)},
     .attr = &leaf_relu,
     .reference = infer_relu,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"bn_normalize",
     "layer with relu over all [3, 5, 7, 21]",
     3,
     1,
     {SAMPLES(3, 5, 7, 21), WHOLE(21), WHOLE(21)},
     .attr = &over_all,
     .build = build_relu,
     .reference = layer_relu,
     .tolerance = {4 * EPS},
     .differentiable = 7},
    {"bn_normalize",
     "layer with residual and relu over a leaf [3, 5, 7, 21]",
     4,
     1,
     {SAMPLES(3, 5, 7, 21), WHOLE(21), WHOLE(21), SAMPLES(3, 5, 7, 21)},
     .attr = &over_leaf,
     .build = build_relu,
     .reference = layer_relu,
     .tolerance = {4 * EPS},
     .differentiable = 15},
    {"bn_normalize",
     "layer over a leaf [3, 5, 7, 21]",
     3,
     1,
     {SAMPLES(3, 5, 7, 21), WHOLE(21), WHOLE(21)},
     .attr = &over_leaf,
     .build = build,
     .reference = layer,
     .tolerance = {4 * EPS},
     .differentiable = 7},
    {"bn_normalize",
     "layer over all [37, 5]",
     3,
     1,
     {SAMPLES(37, 5), WHOLE(5), WHOLE(5)},
     .attr = &over_all,
     .build = build,
     .reference = layer,
     .tolerance = {4 * EPS},
     .differentiable = 7},
    {"bn_stats",
     "[8, 56, 56, 64]",
     1,
     2,
     {SAMPLES(8, 56, 56, 64)},
     .attr = &whole_3136,
     .reference = stats,
     .bench = 1},
    {"bn_normalize",
     "[8, 56, 56, 64]",
     5,
     1,
     {SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64), SQUARES(SL_SCOPE_WHOLE, 25088, 64), WHOLE(64),
      WHOLE(64)},
     .attr = &whole_3136,
     .reference = normalize,
     .bench = 1},
    {"bn_grad_stats",
     "[8, 56, 56, 64]",
     4,
     2,
     {SAMPLES(8, 56, 56, 64), SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64),
      SQUARES(SL_SCOPE_WHOLE, 25088, 64)},
     .attr = &whole_3136,
     .reference = grad_stats,
     .bench = 1},
    {"bn_dx",
     "[8, 56, 56, 64]",
     7,
     1,
     {SAMPLES(8, 56, 56, 64), SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64),
      SQUARES(SL_SCOPE_WHOLE, 25088, 64), WHOLE(64), SUMS(SL_SCOPE_WHOLE, 25088, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64)},
     .attr = &whole_3136,
     .reference = dx,
     .bench = 1},
    {"bn_normalize",
     "residual, relu [8, 56, 56, 64]",
     6,
     1,
     {SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64), SQUARES(SL_SCOPE_WHOLE, 25088, 64), WHOLE(64), WHOLE(64),
      SAMPLES(8, 56, 56, 64)},
     .attr = &whole_relu_3136,
     .reference = normalize_relu,
     .bench = 1},
    {"bn_grad_stats",
     "relu [8, 56, 56, 64]",
     6,
     2,
     {SAMPLES(8, 56, 56, 64), SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64),
      SQUARES(SL_SCOPE_WHOLE, 25088, 64), WHOLE(64), WHOLE(64)},
     .attr = &whole_relu_3136,
     .reference = grad_stats_masked,
     .bench = 1},
    {"bn_grad_stats",
     "residual, relu [8, 56, 56, 64]",
     5,
     3,
     {SAMPLES(8, 56, 56, 64), SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64),
      SQUARES(SL_SCOPE_WHOLE, 25088, 64), SAMPLES(8, 56, 56, 64)},
     .attr = &whole_relu_3136,
     .reference = grad_stats_output,
     .bench = 1},
    {"bn_dx",
     "relu [8, 56, 56, 64]",
     8,
     1,
     {SAMPLES(8, 56, 56, 64), SAMPLES(8, 56, 56, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64),
      SQUARES(SL_SCOPE_WHOLE, 25088, 64), WHOLE(64), SUMS(SL_SCOPE_WHOLE, 25088, 64), SUMS(SL_SCOPE_WHOLE, 25088, 64),
      WHOLE(64)},
     .attr = &whole_relu_3136,
     .reference = dx_masked,
     .bench = 1},
    {0},
};
