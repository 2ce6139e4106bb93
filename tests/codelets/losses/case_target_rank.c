/* Cases of target_rank: targets in front of the fold's classes, among them and behind them, equal logits. */
#include "tests/codelets/cases.h"

/* Counts the classes that come before the target, by their global numbers. */
static void target_rank(const case_run *r) {
  const int64_t V = r->shape_in[0]->dim[r->shape_in[0]->ndim - 1], from = ((const sl_classes_attr *)r->c->attr)->from;
  for (int64_t i = 0; i < case_count(r->shape_in[1]); i++) {
    const double mine = r->in[2][i * SL_CLASS_SUMS + 1];
    for (int64_t k = 0; k < V && r->in[1][i] >= 0; k++) {
      const double x = r->in[0][i * V + k];
      r->out[0][i] += x > mine || (x == mine && (double)(from + k) < r->in[1][i]);
    }
  }
}

static const sl_classes_attr all_10 = {0, 10}, from_5 = {5, 100}, from_50 = {50, 2000};

#define TARGETS(last, ...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, last, __VA_ARGS__)
#define LOGITS(last, ...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, last, __VA_ARGS__)
#define SUMS(last, ...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, last, __VA_ARGS__)
#define CASE(text, which, ...) \
  { "target_rank", text, 3, 1, {__VA_ARGS__}, .attr = &(which), .reference = target_rank, .exact = 1 }

const test_case cases_target_rank[] = {
    CASE("all of 10 classes", all_10, LOGITS(9, 131, 10), TARGETS(9, 131), SUMS(9, 131, 3)),
    CASE("3 classes, of equals", from_5, LOGITS(2, 50, 3), TARGETS(10, 50), SUMS(2, 50, 3)),
    CASE("37 classes [5, 7]", from_5, LOGITS(9, 5, 7, 37), TARGETS(60, 5, 7), SUMS(9, 5, 7, 3)),
    CASE("1200 classes", from_50, LOGITS(99, 40, 1200), TARGETS(1500, 40), SUMS(99, 40, 3)),
    {"target_rank",
     "[64, 12565]",
     3,
     1,
     {SAMPLES(64, 12565), TARGETS(50256, 64), SUMS(9, 64, 3)},
     .attr = &(sl_classes_attr){12565, 50257},
     .reference = target_rank,
     .bench = 1},
    {0},
};
