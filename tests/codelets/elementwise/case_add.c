/* Cases of add. */
#include "tests/codelets/cases.h"

static void add(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i] + r->in[1][i];
}

const test_case cases_add[] = {
    {"add",
     "[7, 13]",
     2,
     1,
     {SAMPLES(7, 13), SAMPLES(7, 13)},
     .reference = add,
     .tolerance = {EPS},
     .differentiable = 3,
     .exact = 1},
    {"add", "whole [11, 31]", 2, 1, {WHOLE(11, 31), WHOLE(11, 31)}, .reference = add, .tolerance = {EPS}, .exact = 1},
    {"add",
     "F64 [77]",
     2,
     1,
     {INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_NORMAL, 0, 1, 77), INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_NORMAL, 0, 1, 77)},
     .reference = add,
     .tolerance = {EPS64},
     .exact = 1},
    {"add", "[1024, 1024]", 2, 1, {WHOLE(1024, 1024), WHOLE(1024, 1024)}, .reference = add, .bench = 1},
    {0},
};
