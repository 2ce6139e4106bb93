/* Cases of adamw, and of Adam, which it is with l2. */
#include "tests/codelets/cases.h"

static const sl_adamw_attr usual = {{0.9, 0.999, 1e-8, 0.01}, 0}, coarse = {{0.5, 0.75, 0.5, 0}, 0},
                           l2 = {{0.9, 0.999, 1e-8, 0.01}, 1};

static void adamw(const case_run *r) {
  const sl_adamw_attr *attr = r->c->attr;
  const sl_adamw_options *o = &attr->options;
  const double clip = r->c->n_in > 5 ? r->in[5][0] : 1, rate = r->step->learning_rate, t = (double)r->step->number;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    double p = r->in[0][i], force = attr->l2 ? o->decay * p : 0, g = clip * r->in[1][i] + force;
    double size_g = fabs(clip * r->in[1][i]) + fabs(force);
    double m = o->beta1 * r->in[2][i] + (1 - o->beta1) * g, v = o->beta2 * r->in[3][i] + (1 - o->beta2) * g * g;
    double size = fabs(o->beta1 * r->in[2][i]) + (1 - o->beta1) * size_g;
    double by = rate / (1 - pow(o->beta1, t)) / (sqrt(v / (1 - pow(o->beta2, t))) + o->eps);
    r->out[0][i] = p * (1 - (attr->l2 ? 0 : rate * o->decay)) - by * m;
    r->out[1][i] = m;
    r->out[2][i] = v;
    r->scale[2][i] = fabs(o->beta2 * r->in[3][i]) + (1 - o->beta2) * size_g * size_g;
    r->scale[0][i] = fabs(p) + by * size;
    r->scale[1][i] = size;
  }
}

static void unchanged(const case_run *r) {
  const int from[3] = {0, 2, 3};
  for (int j = 0; j < 3; j++) memcpy(r->out[j], r->in[from[j]], (size_t)case_count(r->shape_out[j]) * sizeof(double));
}

#define SCALAR(a, b) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, a, b, 1)
#define SQUARES(...) INPUT(SL_F32, SL_SCOPE_WHOLE, FILL_UNIFORM, 0, 2, __VA_ARGS__)

const test_case cases_adamw[] = {
    {"adamw",
     "[7, 131]",
     5,
     3,
     {WHOLE(7, 131), WHOLE(7, 131), WHOLE(7, 131), SQUARES(7, 131), SCALAR(1, 2)},
     .attr = &usual,
     .reference = adamw,
     .tolerance = {10 * EPS, 3 * EPS, 4 * EPS},
     .exact = 1},
    {"adamw",
     "clipped, other constants [5, 3, 3, 7]",
     6,
     3,
     {WHOLE(5, 3, 3, 7), WHOLE(5, 3, 3, 7), WHOLE(5, 3, 3, 7), SQUARES(5, 3, 3, 7), SCALAR(1, 2), SCALAR(0.5, 1)},
     .attr = &coarse,
     .reference = adamw,
     .tolerance = {10 * EPS, 4 * EPS, 6 * EPS},
     .exact = 1},
    {"adamw",
     "Adam's decay [7, 131]",
     5,
     3,
     {WHOLE(7, 131), WHOLE(7, 131), WHOLE(7, 131), SQUARES(7, 131), SCALAR(1, 2)},
     .attr = &l2,
     .reference = adamw,
     .tolerance = {10 * EPS, 4 * EPS, 6 * EPS},
     .exact = 1},
    {"adamw",
     "stopped by its guard [33]",
     5,
     3,
     {WHOLE(33), WHOLE(33), WHOLE(33), SQUARES(33), SCALAR(INFINITY, INFINITY)},
     .attr = &usual,
     .reference = unchanged,
     .exact = 1},
    {"adamw",
     "[1024, 1024]",
     5,
     3,
     {WHOLE(1024, 1024), WHOLE(1024, 1024), WHOLE(1024, 1024), SQUARES(1024, 1024), SCALAR(1, 2)},
     .attr = &usual,
     .reference = adamw,
     .bench = 1},
    {0},
};
