/* Cases of row_norms and clip_factor. */
#include "tests/codelets/cases.h"

static const sl_clip_attr bites = {1.5, 0}, idle = {1e9, 0}, scaled = {1.5, 1};

static void row_norms(const case_run *r) {
  const int64_t rows = r->shape_in[0]->ndim > 0 ? r->shape_in[0]->dim[0] : 1, n = case_count(r->shape_in[0]) / rows;
  for (int64_t i = 0; i < rows * n; i++) r->out[0][i / n] += r->in[0][i] * r->in[0][i];
}

static void clip_factor(const case_run *r) {
  const sl_clip_attr *a = r->c->attr;
  const double scale = a->scaled ? r->in[r->c->n_in - 1][0] : 1;
  double sum = 0;
  for (int i = 0; i < r->c->n_in - a->scaled; i++)
    for (int64_t k = 0; k < case_count(r->shape_in[i]); k++) sum += r->in[i][k];
  r->out[0][0] = fmin(1, a->bound * scale / sqrt(sum)) / scale;
}

#define NORMS(n) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, 0, 2, n)

const test_case cases_clip[] = {
    {"row_norms", "[11, 137]", 1, 1, {WHOLE(11, 137)}, .reference = row_norms, .tolerance = {20 * EPS64}, .exact = 1},
    {"row_norms",
     "[5, 3, 3, 7]",
     1,
     1,
     {WHOLE(5, 3, 3, 7)},
     .reference = row_norms,
     .tolerance = {20 * EPS64},
     .exact = 1},
    {"row_norms", "[137]", 1, 1, {WHOLE(137)}, .reference = row_norms, .tolerance = {20 * EPS64}, .exact = 1},
    {"row_norms", "[3, 2500]", 1, 1, {WHOLE(3, 2500)}, .reference = row_norms, .tolerance = {50 * EPS64}, .exact = 1},
    {"clip_factor",
     "of three gradients",
     3,
     1,
     {NORMS(11), NORMS(1), NORMS(37)},
     .attr = &bites,
     .reference = clip_factor,
     .tolerance = {20 * EPS64},
     .exact = 1},
    {"clip_factor",
     "with a loss scale",
     3,
     1,
     {NORMS(11), NORMS(2), INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_INTEGERS, 2, 2, 1)},
     .attr = &scaled,
     .reference = clip_factor,
     .tolerance = {20 * EPS64},
     .exact = 1},
    {"clip_factor", "within bounds", 2, 1, {NORMS(8), NORMS(7)}, .attr = &idle, .reference = clip_factor, .exact = 1},
    {"row_norms", "[1024, 1024]", 1, 1, {WHOLE(1024, 1024)}, .reference = row_norms, .bench = 1},
    {0},
};
