/* Cases of convert, in both directions; tests/codelets/half.c goes through all numbers in fp16. */
#include "tests/codelets/cases.h"

static const sl_dtype bf16 = SL_BF16, fp16 = SL_F16, f32 = SL_F32;

static void same(const case_run *r) {
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) r->out[0][i] = r->in[0][i];
}

const test_case cases_convert[] = {
    {"convert", "[7, 31] to bf16", 1, 1, {SAMPLES(7, 31)}, .attr = &bf16, .reference = same, .exact = 1},
    {"convert",
     "[131, 5] of bf16",
     1,
     1,
     {INPUT(SL_BF16, SL_SCOPE_WHOLE, FILL_NORMAL, 0, 1, 131, 5)},
     .attr = &f32,
     .reference = same,
     .exact = 1},
    {"convert", "[7, 31] to fp16", 1, 1, {SAMPLES(7, 31)}, .attr = &fp16, .reference = same, .exact = 1},
    {"convert",
     "[131, 5] of fp16",
     1,
     1,
     {INPUT(SL_F16, SL_SCOPE_WHOLE, FILL_NORMAL, 0, 1, 131, 5)},
     .attr = &f32,
     .reference = same,
     .exact = 1},
    {"convert", "[1024, 1024] to bf16", 1, 1, {WHOLE(1024, 1024)}, .attr = &bf16, .reference = same, .bench = 1},
    {0},
};
