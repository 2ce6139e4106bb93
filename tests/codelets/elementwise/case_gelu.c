/* Cases of gelu, in both forms. */
#include "tests/codelets/cases.h"

static const sl_gelu_attr by_erf = {SL_GELU_ERF}, by_tanh = {SL_GELU_TANH};
static const double pi = 3.14159265358979323846;

static double tanh_argument(double x) { return sqrt(2 / pi) * (x + 0.044715 * x * x * x); }

static void gelu(const case_run *r) {
  const sl_gelu_attr *a = r->c->attr;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    double x = r->in[0][i];
    r->out[0][i] = a->form == SL_GELU_ERF ? x / 2 * (1 + erf(x / sqrt(2))) : x / 2 * (1 + tanh(tanh_argument(x)));
    r->scale[0][i] = fabs(x);
  }
}

static void gelu_grad(const case_run *r) {
  const sl_gelu_attr *a = r->c->attr;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    double x = r->in[1][i], t = tanh(tanh_argument(x)), slope;
    if (a->form == SL_GELU_ERF)
      slope = (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi);
    else
      slope = (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
    r->out[0][i] = r->in[0][i] * slope;
    r->scale[0][i] = fabs(r->in[0][i]) * (1 + fabs(x));
  }
}

#define WIDE(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 4, __VA_ARGS__)

const test_case cases_gelu[] = {
    {"gelu",
     "erf [7, 131]",
     1,
     1,
     {WIDE(7, 131)},
     .attr = &by_erf,
     .reference = gelu,
     .tolerance = {4 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"gelu",
     "tanh [7, 131]",
     1,
     1,
     {WIDE(7, 131)},
     .attr = &by_tanh,
     .reference = gelu,
     .tolerance = {4 * EPS},
     .differentiable = 1,
     .exact = 1},
    {"gelu_grad",
     "erf [7, 131]",
     2,
     1,
     {SAMPLES(7, 131), WIDE(7, 131)},
     .attr = &by_erf,
     .reference = gelu_grad,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"gelu_grad",
     "tanh [7, 131]",
     2,
     1,
     {SAMPLES(7, 131), WIDE(7, 131)},
     .attr = &by_tanh,
     .reference = gelu_grad,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"gelu", "erf [256, 1024]", 1, 1, {SAMPLES(256, 1024)}, .attr = &by_erf, .reference = gelu, .bench = 1},
    {"gelu", "tanh [256, 1024]", 1, 1, {SAMPLES(256, 1024)}, .attr = &by_tanh, .reference = gelu, .bench = 1},
    {"gelu_grad",
     "erf [256, 1024]",
     2,
     1,
     {SAMPLES(256, 1024), SAMPLES(256, 1024)},
     .attr = &by_erf,
     .reference = gelu_grad,
     .bench = 1},
    {"gelu_grad",
     "tanh [256, 1024]",
     2,
     1,
     {SAMPLES(256, 1024), SAMPLES(256, 1024)},
     .attr = &by_tanh,
     .reference = gelu_grad,
     .bench = 1},
    {0},
};
