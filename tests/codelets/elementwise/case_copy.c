/* Cases of copy: every type is copied, floats are added up too. */
#include "tests/codelets/cases.h"

static void copy(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i];
}

const test_case cases_copy[] = {
    {"copy", "[7, 31]", 1, 1, {SAMPLES(7, 31)}, .reference = copy, .accumulates = 1, .exact = 1},
    {"copy",
     "F64 [131]",
     1,
     1,
     {INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_NORMAL, 0, 1, 131)},
     .reference = copy,
     .accumulates = 1,
     .exact = 1},
    {"copy",
     "U8 [5, 77]",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 5, 77)},
     .reference = copy,
     .exact = 1},
    {"copy", "[1024, 1024]", 1, 1, {WHOLE(1024, 1024)}, .reference = copy, .bench = 1},
    {0},
};
