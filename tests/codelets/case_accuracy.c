/* Cases of accuracy. */
#include "tests/codelets/cases.h"

static void accuracy(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1];
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const double *x = r->in[0] + i * V;
    int64_t best = 0;
    for (int64_t k = 1; k < V; k++)
      if (x[k] > x[best]) best = k;
    r->out[0][0] += (double)best == r->in[1][i];
  }
}

#define TARGETS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, last, __VA_ARGS__)

const test_case cases_accuracy[] = {
    {"accuracy", "10 classes", 2, 1, {SAMPLES(131, 10), TARGETS(9, 131)}, .reference = accuracy},
    {"accuracy", "3 classes, of equals", 2, 1,
     {INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 2, 50, 3), TARGETS(2, 50)}, .reference = accuracy},
    {"accuracy", "37 classes [5, 7]", 2, 1,
     {INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 9, 5, 7, 37), TARGETS(3, 5, 7)}, .reference = accuracy},
    {"accuracy", "1200 classes", 2, 1,
     {INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 99, 40, 1200), TARGETS(120, 40)}, .reference = accuracy},
    {"accuracy", "[256, 10]", 2, 1, {SAMPLES(256, 10), TARGETS(9, 256)}, .reference = accuracy, .bench = 1},
    {"accuracy", "[64, 50257]", 2, 1, {SAMPLES(64, 50257), TARGETS(50256, 64)}, .reference = accuracy, .bench = 1},
    {0},
};
