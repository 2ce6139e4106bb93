/* Cases of sgd. */
#include "tests/codelets/cases.h"

static const sl_sgd_options plain = {0, 0}, usual = {0.9, 1e-4};

static void sgd(const case_run *r) {
  const sl_sgd_options *o = r->c->attr;
  const double clip = r->c->n_in > 4 ? r->in[4][0] : 1, rate = r->step->learning_rate;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    double p = r->in[0][i], v = o->momentum * r->in[2][i] + clip * r->in[1][i] + o->decay * p;
    r->out[0][i] = p - rate * v;
    r->out[1][i] = v;
    r->scale[1][i] = fabs(o->momentum * r->in[2][i]) + fabs(clip * r->in[1][i]) + fabs(o->decay * p);
    r->scale[0][i] = fabs(p) + rate * r->scale[1][i];
  }
}

static void unchanged(const case_run *r) {
  memcpy(r->out[0], r->in[0], (size_t)case_count(r->shape_out[0]) * sizeof(double));
  memcpy(r->out[1], r->in[2], (size_t)case_count(r->shape_out[1]) * sizeof(double));
}

#define SCALAR(a, b) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, a, b, 1)

const test_case cases_sgd[] = {
    {"sgd",
     "[7, 131]",
     4,
     2,
     {WHOLE(7, 131), WHOLE(7, 131), WHOLE(7, 131), SCALAR(1, 2)},
     .attr = &usual,
     .reference = sgd,
     .tolerance = {4 * EPS, 4 * EPS},
     .exact = 1},
    {"sgd",
     "clipped [5, 3, 3, 7]",
     5,
     2,
     {WHOLE(5, 3, 3, 7), WHOLE(5, 3, 3, 7), WHOLE(5, 3, 3, 7), SCALAR(1, 2), SCALAR(0.5, 1)},
     .attr = &usual,
     .reference = sgd,
     .tolerance = {5 * EPS, 5 * EPS},
     .exact = 1},
    {"sgd",
     "without momentum [33]",
     4,
     2,
     {WHOLE(33), WHOLE(33), WHOLE(33), SCALAR(1, 2)},
     .attr = &plain,
     .reference = sgd,
     .tolerance = {2 * EPS, 2 * EPS},
     .exact = 1},
    {"sgd",
     "stopped by its guard [33]",
     4,
     2,
     {WHOLE(33), WHOLE(33), WHOLE(33), SCALAR(INFINITY, INFINITY)},
     .attr = &usual,
     .reference = unchanged,
     .exact = 1},
    {"sgd",
     "[1024, 1024]",
     4,
     2,
     {WHOLE(1024, 1024), WHOLE(1024, 1024), WHOLE(1024, 1024), SCALAR(1, 2)},
     .attr = &usual,
     .reference = sgd,
     .bench = 1},
    {0},
};
