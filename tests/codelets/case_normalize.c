/* Cases of normalize. */
#include "tests/codelets/cases.h"

static const sl_normalize_attr fashion = {0.2860f, 0.3530f};

static void normalize(const case_run *r) {
  const sl_normalize_attr *a = r->c->attr;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    r->out[0][i] = (r->in[0][i] / 255 - (double)a->mean) / (double)a->deviation;
    r->scale[0][i] = (r->in[0][i] / 255 + (double)a->mean) / (double)a->deviation;
  }
}

const test_case cases_normalize[] = {
    {"normalize", "[5, 7, 7, 3]", 1, 1, {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 5, 7, 7, 3)}, .attr = &fashion,
     .reference = normalize, .tolerance = {4 * EPS}, .exact = 1},
    {"normalize", "[256, 28, 28, 1]", 1, 1, {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 256, 28, 28, 1)},
     .attr = &fashion, .reference = normalize, .bench = 1},
    {0},
};
