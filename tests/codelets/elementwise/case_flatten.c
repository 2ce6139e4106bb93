/* Cases of flatten. */
#include "tests/codelets/cases.h"

static void flatten(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i];
}

static const sl_flatten_attr to_45 = {{2, {7, 45}}}, to_15_3 = {{3, {7, 15, 3}}}, to_3136 = {{2, {64, 3136}}};

const test_case cases_flatten[] = {
    {"flatten",
     "[7, 3, 5, 3] to [7, 45]",
     1,
     1,
     {SAMPLES(7, 3, 5, 3)},
     .attr = &to_45,
     .reference = flatten,
     .differentiable = 1,
     .exact = 1},
    {"flatten",
     "[7, 3, 5, 3] to [7, 15, 3]",
     1,
     1,
     {SAMPLES(7, 3, 5, 3)},
     .attr = &to_15_3,
     .reference = flatten,
     .differentiable = 1,
     .exact = 1},
    {"flatten", "[64, 7, 7, 64]", 1, 1, {SAMPLES(64, 7, 7, 64)}, .attr = &to_3136, .reference = flatten, .bench = 1},
    {0},
};
