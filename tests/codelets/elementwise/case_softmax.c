/* Cases of softmax. */
#include "tests/codelets/cases.h"

static int64_t width(const case_run *r) { return r->shape_out[0]->dim[r->shape_out[0]->ndim - 1]; }

static void softmax(const case_run *r) {
  const int64_t V = width(r);
  for (int64_t row = 0; row < case_count(r->shape_out[0]); row += V) {
    const double *x = r->in[0] + row;
    double max = -INFINITY, sum = 0;
    for (int64_t k = 0; k < V; k++) max = fmax(max, x[k]);
    for (int64_t k = 0; k < V; k++) sum += exp(x[k] - max);
    for (int64_t k = 0; k < V; k++) {
      r->out[0][row + k] = exp(x[k] - max) / sum;
      r->scale[0][row + k] = r->out[0][row + k] * (1 + fabs(x[k] - max)); /* rounding of the difference */
    }
  }
}

static void softmax_grad(const case_run *r) {
  const int64_t V = width(r);
  for (int64_t row = 0; row < case_count(r->shape_out[0]); row += V) {
    const double *dy = r->in[0] + row, *y = r->in[1] + row;
    double sum = 0, size = 0;
    for (int64_t k = 0; k < V; k++) {
      sum += dy[k] * y[k];
      size += fabs(dy[k] * y[k]);
    }
    for (int64_t k = 0; k < V; k++) {
      r->out[0][row + k] = y[k] * (dy[k] - sum);
      r->scale[0][row + k] = fabs(y[k]) * (fabs(dy[k]) + size);
    }
  }
}

#define WIDE(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 10, __VA_ARGS__)
#define PORTIONS(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_UNIFORM, 0, 1, __VA_ARGS__)

const test_case cases_softmax[] = {
    {"softmax",
     "[37, 10]",
     1,
     1,
     {SAMPLES(37, 10)},
     .reference = softmax,
     .tolerance = {8 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"softmax",
     "[7, 531]",
     1,
     1,
     {WIDE(7, 531)},
     .reference = softmax,
     .tolerance = {12 * EPS},
     .differentiable = 1,
     .gradient_tolerance = 1e-4,
     .exact = 1},
    {"softmax",
     "[3, 5, 64]",
     1,
     1,
     {WIDE(3, 5, 64)},
     .reference = softmax,
     .tolerance = {8 * EPS},
     .differentiable = 1,
     .gradient_tolerance = 1e-4,
     .exact = 1},
    {"softmax_grad",
     "[37, 10]",
     2,
     1,
     {SAMPLES(37, 10), PORTIONS(37, 10)},
     .reference = softmax_grad,
     .tolerance = {8 * EPS},
     .exact = 1},
    {"softmax_grad",
     "[7, 531]",
     2,
     1,
     {SAMPLES(7, 531), PORTIONS(7, 531)},
     .reference = softmax_grad,
     .tolerance = {16 * EPS},
     .exact = 1},
    {"softmax", "[3, 1531]", 1, 1, {WIDE(3, 1531)}, .reference = softmax, .tolerance = {16 * EPS}, .exact = 1},
    {"softmax_grad",
     "[3, 1531]",
     2,
     1,
     {SAMPLES(3, 1531), PORTIONS(3, 1531)},
     .reference = softmax_grad,
     .tolerance = {32 * EPS},
     .exact = 1},
    {"softmax", "[2, 9001]", 1, 1, {WIDE(2, 9001)}, .reference = softmax, .tolerance = {16 * EPS}, .exact = 1},
    {"softmax_grad",
     "[2, 9001]",
     2,
     1,
     {SAMPLES(2, 9001), PORTIONS(2, 9001)},
     .reference = softmax_grad,
     .tolerance = {64 * EPS},
     .exact = 1},
    /* More than a block of a GPU adds up in one round. */
    {"softmax", "[1, 131200]", 1, 1, {WIDE(1, 131200)}, .reference = softmax, .tolerance = {64 * EPS}, .exact = 1},
    {"softmax", "[768, 64]", 1, 1, {SAMPLES(768, 64)}, .reference = softmax, .bench = 1},
    {"softmax_grad", "[768, 64]", 2, 1, {SAMPLES(768, 64), PORTIONS(768, 64)}, .reference = softmax_grad, .bench = 1},
    {0},
};
