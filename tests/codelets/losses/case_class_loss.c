/* Cases of class_loss: with and without label smoothing, rows without a target. */
#include "tests/codelets/cases.h"

static const sl_class_loss_attr plain = {0, 50257}, smooth = {0.1, 777}, even = {1, 10};

static const sl_class_loss_attr *attr_of(const case_run *r) { return r->c->attr; }

static void class_loss(const case_run *r) {
  const double s = attr_of(r)->smoothing, V = (double)attr_of(r)->classes;
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const double *sums = r->in[0] + i * SL_CLASS_SUMS, count = r->in[2][0];
    if (r->in[1][i] < 0) continue;
    r->out[0][0] += (sums[0] - (1 - s) * sums[1] - s * sums[2] / V) / count;
    r->scale[0][0] += (fabs(sums[0]) + fabs((1 - s) * sums[1]) + fabs(s * sums[2] / V)) / count;
  }
}

static void class_loss_grad(const case_run *r) {
  const double s = attr_of(r)->smoothing, V = (double)attr_of(r)->classes,
               scale = (r->c->n_in > 2 ? r->in[2][0] : 1) / r->in[1][0];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    double *d = r->out[0] + i * SL_CLASS_SUMS;
    if (r->in[0][i] < 0) continue;
    d[0] = scale;
    d[1] = -(1 - s) * scale;
    d[2] = -s / V * scale;
  }
}

#define NUMBERS(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 3, __VA_ARGS__)
#define TARGETS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, last, __VA_ARGS__)
#define SCALAR(a, b) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, a, b, 1)
#define FORWARD(text, which, ...)                                                                                  \
  {                                                                                                                \
    "class_loss", text, 3, 1, {__VA_ARGS__}, .attr = &(which), .reference = class_loss, .tolerance = {40 * EPS64}, \
                                             .differentiable = 1                                                   \
  }
#define BACKWARD(text, which, n, ...)                                                             \
  {                                                                                               \
    "class_loss_grad", text, n, 1, {__VA_ARGS__}, .attr = &(which), .reference = class_loss_grad, \
                                                  .tolerance = {4 * EPS64}, .exact = 1            \
  }

const test_case cases_class_loss[] = {
    FORWARD("[131]", plain, NUMBERS(131, 3), TARGETS(9, 131), SCALAR(100, 120)),
    FORWARD("smoothed [3, 5]", smooth, NUMBERS(3, 5, 3), TARGETS(776, 3, 5), SCALAR(15, 15)),
    FORWARD("all smoothing", even, NUMBERS(9, 3), TARGETS(4, 9), SCALAR(9, 9)),
    FORWARD("many rows", plain, NUMBERS(9001, 3), TARGETS(4, 9001), SCALAR(9000, 9001)),
    BACKWARD("[131]", plain, 2, TARGETS(9, 131), SCALAR(100, 120)),
    BACKWARD("smoothed [3, 5], not the root", smooth, 3, TARGETS(776, 3, 5), SCALAR(15, 15), SCALAR(2, 3)),
    BACKWARD("all smoothing", even, 2, TARGETS(4, 9), SCALAR(9, 9)),
    {0},
};
