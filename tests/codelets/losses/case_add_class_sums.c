/* Cases of add_class_sums: numbers near each other and far apart. */
#include "tests/codelets/cases.h"

static void add_class_sums(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i += SL_CLASS_SUMS) {
    const double *a = r->in[0] + i, *b = r->in[1] + i;
    const double max = fmax(a[0], b[0]);
    r->out[0][i] = max + log(exp(a[0] - max) + exp(b[0] - max));
    r->scale[0][i] = fabs(max) + 1;
    for (int k = 1; k < SL_CLASS_SUMS; k++) {
      r->out[0][i + k] = a[k] + b[k];
      r->scale[0][i + k] = fabs(a[k]) + fabs(b[k]);
    }
  }
}

static void add_class_sums_grad(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    const int64_t row = i - i % SL_CLASS_SUMS;
    const double slope = i == row ? exp(r->in[2][row] - r->in[1][row]) : 1;
    r->out[0][i] = r->in[0][i] * slope;
    r->scale[0][i] = fabs(r->out[0][i]) * (1 + fabs(r->in[2][row] - r->in[1][row]));
  }
}

#define NUMBERS(deviation, ...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, deviation, __VA_ARGS__)
#define FORWARD(text, deviation, ...)                                                                 \
  {                                                                                                   \
    "add_class_sums", text, 2, 1, {NUMBERS(deviation, __VA_ARGS__), NUMBERS(deviation, __VA_ARGS__)}, \
        .reference = add_class_sums, .tolerance = {8 * EPS64}, .differentiable = 3, .exact = 1        \
  }
#define BACKWARD(text, deviation, ...)                                                               \
  {                                                                                                  \
    "add_class_sums_grad", text, 3, 1,                                                               \
        {NUMBERS(1, __VA_ARGS__), NUMBERS(deviation, __VA_ARGS__), NUMBERS(deviation, __VA_ARGS__)}, \
        .reference = add_class_sums_grad, .tolerance = {8 * EPS64}, .exact = 1                       \
  }

const test_case cases_add_class_sums[] = {
    FORWARD("near [131]", 1, 131, 3),
    FORWARD("far apart [3, 5]", 40, 3, 5, 3),
    FORWARD("many rows", 5, 9001, 3),
    BACKWARD("near [131]", 1, 131, 3),
    BACKWARD("far apart [3, 5]", 20, 3, 5, 3),
    BACKWARD("many rows", 3, 9001, 3),
    {0},
};
