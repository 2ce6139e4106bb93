/* Cases of cross_entropy; -1 among the targets counts for nothing. */
#include "tests/codelets/cases.h"

static const sl_cross_entropy_attr plain = {0}, smooth = {0.1}, even = {1};

static double log_sum_exp(const double *x, int64_t V) {
  double max = -INFINITY, sum = 0;
  for (int64_t k = 0; k < V; k++) max = fmax(max, x[k]);
  for (int64_t k = 0; k < V; k++) sum += exp(x[k] - max);
  return max + log(sum);
}

static void cross_entropy(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1];
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const int64_t target = (int64_t)r->in[1][i];
    if (target < 0) continue;
    const double *x = r->in[0] + i * V;
    r->out[1][i] = log_sum_exp(x, V);
    r->scale[1][i] = fabs(r->out[1][i]) + 1;
    const double s = ((const sl_cross_entropy_attr *)r->c->attr)->smoothing;
    double aim = (1 - s) * x[target], size = fabs(aim);
    for (int64_t k = 0; k < V; k++) aim += s * x[k] / (double)V, size += fabs(s * x[k] / (double)V);
    r->out[0][0] += (r->out[1][i] - aim) / r->in[2][0];
    r->scale[0][0] += (r->scale[1][i] + size) / r->in[2][0];
  }
}

static void cross_entropy_grad(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1];
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const int64_t target = (int64_t)r->in[1][i];
    const double scale = (r->c->n_in > 4 ? r->in[4][0] : 1) / r->in[2][0], *x = r->in[0] + i * V;
    for (int64_t k = 0; k < V && target >= 0; k++) {
      const double s = ((const sl_cross_entropy_attr *)r->c->attr)->smoothing;
      double p = exp(x[k] - r->in[3][i]), aim = (1 - s) * (k == target) + s / (double)V;
      r->out[0][i * V + k] = (p - aim) * scale;
      r->scale[0][i * V + k] = (p * (1 + fabs(x[k] - r->in[3][i])) + aim) * fabs(scale);
    }
  }
}

#define WIDE(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 10, __VA_ARGS__)
/* Logits so large that a float's last bits matter in an exponent. */
#define FAR(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, 1000, 1, __VA_ARGS__)
#define FAR_LSE(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_UNIFORM, 1003, 1004, __VA_ARGS__)
#define TARGETS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, last, __VA_ARGS__)
#define SCALAR(a, b) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, a, b, 1)
#define LSE(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_UNIFORM, 3, 4, __VA_ARGS__)

const test_case cases_cross_entropy[] = {
    {"cross_entropy",
     "10 classes",
     3,
     2,
     {SAMPLES(131, 10), TARGETS(9, 131), SCALAR(100, 120)},
     .attr = &plain,
     .reference = cross_entropy,
     .tolerance = {4 * EPS, 4 * EPS},
     .differentiable = 1},
    {"cross_entropy",
     "wide logits, 777 classes [3, 5]",
     3,
     2,
     {WIDE(3, 5, 777), TARGETS(776, 3, 5), SCALAR(15, 15)},
     .attr = &plain,
     .reference = cross_entropy,
     .tolerance = {8 * EPS, 8 * EPS},
     .differentiable = 1},
    {"cross_entropy",
     "1 class",
     3,
     2,
     {SAMPLES(5, 1), TARGETS(0, 5), SCALAR(5, 5)},
     .attr = &plain,
     .reference = cross_entropy,
     .tolerance = {4 * EPS, 4 * EPS}},
    {"cross_entropy_grad",
     "10 classes",
     4,
     1,
     {SAMPLES(131, 10), TARGETS(9, 131), SCALAR(100, 120), LSE(131)},
     .attr = &plain,
     .reference = cross_entropy_grad,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"cross_entropy_grad",
     "77 classes around 1000",
     4,
     1,
     {FAR(15, 77), TARGETS(76, 15), SCALAR(15, 15), FAR_LSE(15)},
     .attr = &plain,
     .reference = cross_entropy_grad,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"cross_entropy_grad",
     "777 classes, not the root",
     5,
     1,
     {SAMPLES(15, 777), TARGETS(776, 15), SCALAR(15, 15), LSE(15), SCALAR(2, 3)},
     .attr = &plain,
     .reference = cross_entropy_grad,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"cross_entropy",
     "1777 classes",
     3,
     2,
     {WIDE(4, 1777), TARGETS(1776, 4), SCALAR(4, 4)},
     .attr = &plain,
     .reference = cross_entropy,
     .tolerance = {8 * EPS, 8 * EPS}},
    {"cross_entropy_grad",
     "1777 classes",
     4,
     1,
     {SAMPLES(4, 1777), TARGETS(1776, 4), SCALAR(4, 4), LSE(4)},
     .attr = &plain,
     .reference = cross_entropy_grad,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"cross_entropy",
     "9001 classes",
     3,
     2,
     {WIDE(3, 9001), TARGETS(9000, 3), SCALAR(3, 3)},
     .attr = &plain,
     .reference = cross_entropy,
     .tolerance = {8 * EPS, 8 * EPS}},
    {"cross_entropy",
     "smoothed, 9001 classes",
     3,
     2,
     {WIDE(3, 9001), TARGETS(9000, 3), SCALAR(3, 3)},
     .attr = &smooth,
     .reference = cross_entropy,
     .tolerance = {8 * EPS, 8 * EPS}},
    {"cross_entropy",
     "3 classes, many samples",
     3,
     2,
     {SAMPLES(6001, 3), TARGETS(2, 6001), SCALAR(6000, 6001)},
     .attr = &plain,
     .reference = cross_entropy,
     .tolerance = {4 * EPS, 4 * EPS}},
    {"cross_entropy",
     "smoothed, 10 classes",
     3,
     2,
     {SAMPLES(131, 10), TARGETS(9, 131), SCALAR(100, 120)},
     .attr = &smooth,
     .reference = cross_entropy,
     .tolerance = {4 * EPS, 4 * EPS},
     .differentiable = 1},
    {"cross_entropy",
     "smoothed, wide logits, 777 classes [3, 5]",
     3,
     2,
     {WIDE(3, 5, 777), TARGETS(776, 3, 5), SCALAR(15, 15)},
     .attr = &smooth,
     .reference = cross_entropy,
     .tolerance = {8 * EPS, 8 * EPS},
     .differentiable = 1},
    {"cross_entropy",
     "all smoothing, 5 classes",
     3,
     2,
     {SAMPLES(9, 5), TARGETS(4, 9), SCALAR(9, 9)},
     .attr = &even,
     .reference = cross_entropy,
     .tolerance = {4 * EPS, 4 * EPS},
     .differentiable = 1},
    {"cross_entropy_grad",
     "smoothed, 777 classes, not the root",
     5,
     1,
     {SAMPLES(15, 777), TARGETS(776, 15), SCALAR(15, 15), LSE(15), SCALAR(2, 3)},
     .attr = &smooth,
     .reference = cross_entropy_grad,
     .tolerance = {6 * EPS},
     .exact = 1},
    {"cross_entropy",
     "smoothed [64, 50257]",
     3,
     2,
     {SAMPLES(64, 50257), TARGETS(50256, 64), SCALAR(64, 64)},
     .attr = &smooth,
     .reference = cross_entropy,
     .bench = 1},
    {"cross_entropy",
     "[256, 10]",
     3,
     2,
     {SAMPLES(256, 10), TARGETS(9, 256), SCALAR(256, 256)},
     .attr = &plain,
     .reference = cross_entropy,
     .bench = 1},
    {"cross_entropy",
     "[64, 50257]",
     3,
     2,
     {SAMPLES(64, 50257), TARGETS(50256, 64), SCALAR(64, 64)},
     .attr = &plain,
     .reference = cross_entropy,
     .bench = 1},
    {"cross_entropy_grad",
     "[64, 50257]",
     4,
     1,
     {SAMPLES(64, 50257), TARGETS(50256, 64), SCALAR(64, 64), LSE(64)},
     .attr = &plain,
     .reference = cross_entropy_grad,
     .bench = 1},
    {0},
};
