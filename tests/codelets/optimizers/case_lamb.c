/* Cases of lamb_moments and lamb. */
#include "tests/codelets/cases.h"

static const sl_lamb_options usual = {0.9, 0.999, 1e-6, 0.01}, coarse = {0.5, 0.75, 0.5, 0};

/* The direction u of one element, and the size of its terms. */
static double direction(const case_run *r, double p, double m, double v, double size_m, double *size) {
  const sl_lamb_options *o = r->c->attr;
  const double t = (double)r->step->number,
               by = 1 / (1 - pow(o->beta1, t)) / (sqrt(v / (1 - pow(o->beta2, t))) + o->eps);
  *size = by * size_m + o->decay * fabs(p);
  return by * m + o->decay * p;
}

static void lamb_moments(const case_run *r) {
  const sl_lamb_options *o = r->c->attr;
  const double clip = r->c->n_in > 5 ? r->in[5][0] : 1;
  const int64_t n = case_count(r->shape_in[0]) / r->shape_in[0]->dim[0];
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    const double p = r->in[0][i], g = clip * r->in[1][i];
    const int64_t row = i / n * 2;
    const double m = o->beta1 * r->in[2][i] + (1 - o->beta1) * g, v = o->beta2 * r->in[3][i] + (1 - o->beta2) * g * g;
    double size = fabs(o->beta1 * r->in[2][i]) + fabs((1 - o->beta1) * g), size_u;
    r->out[0][i] = m, r->scale[0][i] = size;
    r->out[1][i] = v;
    const double u = direction(r, p, m, v, size, &size_u);
    r->out[2][row] += p * p;
    r->out[2][row + 1] += u * u;
    r->scale[2][row] += p * p;
    r->scale[2][row + 1] += size_u * size_u;
  }
}

static void lamb(const case_run *r) {
  double p = 0, u = 0, size;
  for (int64_t i = 0; i < r->shape_in[3]->dim[0]; i++) p += r->in[3][2 * i], u += r->in[3][2 * i + 1];
  const double ratio = p > 0 && u > 0 ? sqrt(p) / sqrt(u) : 1;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    r->out[0][i] = r->in[0][i] - r->step->learning_rate * ratio *
                                     direction(r, r->in[0][i], r->in[1][i], r->in[2][i], fabs(r->in[1][i]), &size);
    r->scale[0][i] = fabs(r->in[0][i]) + r->step->learning_rate * ratio * size;
  }
}

static void moments_unchanged(const case_run *r) {
  for (int j = 0; j < 2; j++) memcpy(r->out[j], r->in[2 + j], (size_t)case_count(r->shape_out[j]) * sizeof(double));
}
static void unchanged(const case_run *r) {
  memcpy(r->out[0], r->in[0], (size_t)case_count(r->shape_out[0]) * sizeof(double));
}

#define SCALAR(a, b) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, a, b, 1)
#define NORMS(a, b, n) INPUT(SL_F64, SL_SCOPE_WHOLE, FILL_UNIFORM, a, b, n, 2)
#define SQUARES(...) INPUT(SL_F32, SL_SCOPE_WHOLE, FILL_UNIFORM, 0, 2, __VA_ARGS__)
/* clang-format off */
#define MOMENTS(what, options, ...) \
  {"lamb_moments", what, 5, 3, {WHOLE(__VA_ARGS__), WHOLE(__VA_ARGS__), WHOLE(__VA_ARGS__), SQUARES(__VA_ARGS__), \
   SCALAR(1, 2)}, .attr = options, .reference = lamb_moments, .tolerance = {4 * EPS, 6 * EPS, 30 * EPS}, .exact = 1}

const test_case cases_lamb[] = {
    MOMENTS("[7, 131]", &usual, 7, 131),
    MOMENTS("[5, 3, 3, 7]", &coarse, 5, 3, 3, 7),
    MOMENTS("[133]", &usual, 133),
    {"lamb_moments", "clipped [3, 2500]", 6, 3,
     {WHOLE(3, 2500), WHOLE(3, 2500), WHOLE(3, 2500), SQUARES(3, 2500), SCALAR(1, 2), SCALAR(0.5, 1)}, .attr = &coarse,
     .reference = lamb_moments, .tolerance = {4 * EPS, 6 * EPS, 30 * EPS}, .exact = 1},
    {"lamb_moments", "stopped by its guard [3, 11]", 5, 3,
     {WHOLE(3, 11), WHOLE(3, 11), WHOLE(3, 11), SQUARES(3, 11), SCALAR(INFINITY, INFINITY)}, .attr = &usual,
     .reference = moments_unchanged, .exact = 1},
    {"lamb", "[7, 131]", 5, 1, {WHOLE(7, 131), WHOLE(7, 131), SQUARES(7, 131), NORMS(1, 2, 7), SCALAR(1, 2)},
     .attr = &usual, .reference = lamb, .tolerance = {10 * EPS}, .exact = 1},
    {"lamb", "clipped [133]", 6, 1,
     {WHOLE(133), WHOLE(133), SQUARES(133), NORMS(1, 2, 133), SCALAR(1, 2), SCALAR(0.5, 1)}, .attr = &coarse,
     .reference = lamb, .tolerance = {10 * EPS}, .exact = 1},
    {"lamb", "norms of zero [7, 13]", 5, 1, {WHOLE(7, 13), WHOLE(7, 13), SQUARES(7, 13), NORMS(0, 0, 7), SCALAR(1, 2)},
     .attr = &usual, .reference = lamb, .tolerance = {10 * EPS}, .exact = 1},
    {"lamb", "stopped by its clip factor [7, 13]", 6, 1,
     {WHOLE(7, 13), WHOLE(7, 13), SQUARES(7, 13), NORMS(1, 2, 7), SCALAR(1, 2), SCALAR(NAN, NAN)}, .attr = &usual,
     .reference = unchanged, .exact = 1},
    {"lamb_moments", "[1024, 1024]", 5, 3,
     {WHOLE(1024, 1024), WHOLE(1024, 1024), WHOLE(1024, 1024), SQUARES(1024, 1024), SCALAR(1, 2)}, .attr = &usual,
     .reference = lamb_moments, .bench = 1},
    {"lamb", "[1024, 1024]", 5, 1,
     {WHOLE(1024, 1024), WHOLE(1024, 1024), SQUARES(1024, 1024), NORMS(1, 2, 1024), SCALAR(1, 2)}, .attr = &usual,
     .reference = lamb, .bench = 1},
    {0},
};
/* clang-format on */
