/* Cases of count_ranks. */
#include "tests/codelets/cases.h"

static void count_ranks(const case_run *r) {
  const int k = ((const sl_accuracy_attr *)r->c->attr)->k;
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) r->out[0][0] += r->in[1][i] >= 0 && r->in[0][i] < k;
}

#define RANKS(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 9, __VA_ARGS__)
#define TARGETS(...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, 3, __VA_ARGS__)
#define CASE(text, k, ...) \
  { "count_ranks", text, 2, 1, {__VA_ARGS__}, .attr = &(sl_accuracy_attr){k}, .reference = count_ranks }

const test_case cases_count_ranks[] = {
    CASE("[131]", 1, RANKS(131), TARGETS(131)),
    CASE("[3, 5], top 5", 5, RANKS(3, 5), TARGETS(3, 5)),
    CASE("many rows, top 5", 5, RANKS(9001), TARGETS(9001)),
    {0},
};
