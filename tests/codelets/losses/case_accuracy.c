/* Cases of accuracy. */
#include "tests/codelets/cases.h"

/* Removes the k largest logits one after another, the first among equals. */
static void accuracy(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1];
  const int k = ((const sl_accuracy_attr *)r->c->attr)->k;
  char *taken = malloc((size_t)V);
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const double *x = r->in[0] + i * V;
    memset(taken, 0, (size_t)V);
    for (int64_t n = 0; n < k && n < V; n++) {
      int64_t best = -1;
      for (int64_t j = 0; j < V; j++)
        if (!taken[j] && (best < 0 || x[j] > x[best])) best = j;
      taken[best] = 1;
      r->out[0][0] += (double)best == r->in[1][i];
    }
  }
  free(taken);
}

#define TARGETS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, last, __VA_ARGS__)
#define CASE(what, k, ...) \
  { "accuracy", what, 2, 1, {__VA_ARGS__}, .attr = &(sl_accuracy_attr){k}, .reference = accuracy }
#define BENCH(what, k, ...) \
  { "accuracy", what, 2, 1, {__VA_ARGS__}, .attr = &(sl_accuracy_attr){k}, .reference = accuracy, .bench = 1 }

const test_case cases_accuracy[] = {
    CASE("10 classes", 1, SAMPLES(131, 10), TARGETS(9, 131)),
    CASE("10 classes, top 5", 5, SAMPLES(131, 10), TARGETS(9, 131)),
    CASE("3 classes, of equals", 1, INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 2, 50, 3), TARGETS(2, 50)),
    CASE("3 classes, top 5", 5, INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 2, 50, 3), TARGETS(2, 50)),
    CASE("37 classes [5, 7]", 1, INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 9, 5, 7, 37), TARGETS(3, 5, 7)),
    CASE("37 classes [5, 7], top 5 of equals", 5, INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 9, 5, 7, 37),
         TARGETS(9, 5, 7)),
    CASE("1200 classes", 1, INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 99, 40, 1200), TARGETS(120, 40)),
    CASE("1200 classes, top 20", 20, INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 99, 40, 1200), TARGETS(120, 40)),
    BENCH("[256, 10]", 1, SAMPLES(256, 10), TARGETS(9, 256)),
    BENCH("[64, 50257]", 1, SAMPLES(64, 50257), TARGETS(50256, 64)),
    BENCH("[64, 50257], top 5", 5, SAMPLES(64, 50257), TARGETS(50256, 64)),
    {0},
};
