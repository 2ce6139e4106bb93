/* Cases of class_sums: all classes, the first of several folds, one in the middle without most targets. */
#include "tests/codelets/cases.h"

static const sl_classes_attr *attr_of(const case_run *r) { return r->c->attr; }

static double log_sum_exp(const double *x, int64_t V) {
  double max = -INFINITY, sum = 0;
  for (int64_t k = 0; k < V; k++) max = fmax(max, x[k]);
  for (int64_t k = 0; k < V; k++) sum += exp(x[k] - max);
  return max + log(sum);
}

/* Output 0 is the three numbers of each row. */
static void class_sums(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1];
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const double *x = r->in[0] + i * V;
    const int64_t at = (int64_t)r->in[1][i] - attr_of(r)->from;
    double *sums = r->out[0] + SL_CLASS_SUMS * i, *scale = r->scale[0] + SL_CLASS_SUMS * i;
    if (r->in[1][i] < 0) continue;
    sums[0] = log_sum_exp(x, V);
    scale[0] = fabs(sums[0]) + 1;
    if (at >= 0 && at < V) sums[1] = x[at];
    for (int64_t k = 0; k < V; k++) sums[2] += x[k], scale[2] += fabs(x[k]);
  }
}

static void class_sums_grad(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1];
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const double *x = r->in[0] + i * V, *sums = r->in[2] + SL_CLASS_SUMS * i, *d = r->in[3] + SL_CLASS_SUMS * i;
    const int64_t at = (int64_t)r->in[1][i] - attr_of(r)->from;
    for (int64_t k = 0; k < V && r->in[1][i] >= 0; k++) {
      const double p = exp(x[k] - sums[0]), aim = k == at ? d[1] : 0;
      r->out[0][i * V + k] = d[0] * p + aim + d[2];
      r->scale[0][i * V + k] = fabs(d[0]) * p * (1 + fabs(x[k] - sums[0])) + fabs(aim) + fabs(d[2]);
    }
  }
}

static const sl_classes_attr all_10 = {0, 10}, first_77 = {0, 300}, last_777 = {1000, 1777}, middle = {500, 50257};

#define TARGETS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, last, __VA_ARGS__)
#define SUMS(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_UNIFORM, 3, 4, __VA_ARGS__)
#define SLOPES(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 1, __VA_ARGS__)
#define FORWARD(text, which, ...)                                                                               \
  {                                                                                                             \
    "class_sums", text, 2, 1, {__VA_ARGS__}, .attr = &(which), .reference = class_sums, .tolerance = {8 * EPS}, \
                                             .differentiable = 1, .exact = 1                                    \
  }
#define BACKWARD(text, which, ...)                                                                \
  {                                                                                               \
    "class_sums_grad", text, 4, 1, {__VA_ARGS__}, .attr = &(which), .reference = class_sums_grad, \
                                                  .tolerance = {6 * EPS}, .exact = 1              \
  }

const test_case cases_class_sums[] = {
    FORWARD("all of 10 classes", all_10, SAMPLES(131, 10), TARGETS(9, 131)),
    FORWARD("77 of 300 classes [3, 5]", first_77, SAMPLES(3, 5, 77), TARGETS(299, 3, 5)),
    FORWARD("777 of 1777 classes", last_777, SAMPLES(9, 777), TARGETS(1776, 9)),
    FORWARD("1500 of 50257 classes", middle, SAMPLES(4, 1500), TARGETS(2500, 4)),
    BACKWARD("all of 10 classes", all_10, SAMPLES(131, 10), TARGETS(9, 131), SUMS(131, 3), SLOPES(131, 3)),
    BACKWARD("77 of 300 classes [3, 5]", first_77, SAMPLES(3, 5, 77), TARGETS(299, 3, 5), SUMS(3, 5, 3),
             SLOPES(3, 5, 3)),
    BACKWARD("777 of 1777 classes", last_777, SAMPLES(9, 777), TARGETS(1776, 9), SUMS(9, 3), SLOPES(9, 3)),
    BACKWARD("1500 of 50257 classes", middle, SAMPLES(4, 1500), TARGETS(2500, 4), SUMS(4, 3), SLOPES(4, 3)),
    {"class_sums",
     "[64, 12565] of 50257",
     2,
     1,
     {SAMPLES(64, 12565), TARGETS(50256, 64)},
     .attr = &middle,
     .reference = class_sums,
     .bench = 1},
    {"class_sums_grad",
     "[64, 12565] of 50257",
     4,
     1,
     {SAMPLES(64, 12565), TARGETS(50256, 64), SUMS(64, 3), SLOPES(64, 3)},
     .attr = &middle,
     .reference = class_sums_grad,
     .bench = 1},
    {0},
};
