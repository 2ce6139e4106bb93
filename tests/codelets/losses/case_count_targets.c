/* Cases of count_targets. */
#include "tests/codelets/cases.h"

static void count(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) r->out[0][0] += r->in[0][i] >= 0;
}

#define TARGETS(...) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, -1, 2, __VA_ARGS__)

const test_case cases_count_targets[] = {
    {"count_targets", "[131]", 1, 1, {TARGETS(131)}, .reference = count, .exact = 1},
    {"count_targets", "[5, 33]", 1, 1, {TARGETS(5, 33)}, .reference = count, .exact = 1},
    {"count_targets", "[70000]", 1, 1, {TARGETS(70000)}, .reference = count, .exact = 1},
    {0},
};
