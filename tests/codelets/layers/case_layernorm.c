/* Cases of layernorm and its gradients: rows of one element, below and above vectors and runs, and far from zero. The
 * size of what is added scales with the moments: x - mean is as exact as x. */
#include "tests/codelets/cases.h"

static const sl_layernorm_attr usual = {1e-5}, coarse = {0.5};

static int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }

static void layernorm(const case_run *r) {
  const int64_t C = last(r->shape_in[0]);
  for (int64_t i = 0; i < case_count(r->shape_in[0]) / C; i++) {
    const double *x = r->in[0] + i * C;
    double mean = 0, var = 0, largest = 0;
    for (int64_t k = 0; k < C; k++) mean += x[k] / (double)C;
    for (int64_t k = 0; k < C; k++) var += (x[k] - mean) * (x[k] - mean) / (double)C;
    const double rstd = 1 / sqrt(var + ((const sl_layernorm_attr *)r->c->attr)->eps);
    r->out[1][2 * i] = mean;
    r->out[1][2 * i + 1] = rstd;
    for (int64_t k = 0; k < C; k++) largest = fmax(largest, fabs(x[k] - mean));
    r->scale[1][2 * i] = largest;
    for (int64_t k = 0; k < C; k++) {
      r->out[0][i * C + k] = (x[k] - mean) * rstd * r->in[1][k] + r->in[2][k];
      r->scale[0][i * C + k] = largest * rstd * fabs(r->in[1][k]) + fabs(r->in[2][k]);
    }
  }
}

static void layernorm_dx(const case_run *r) {
  const int64_t C = last(r->shape_in[0]);
  for (int64_t i = 0; i < case_count(r->shape_in[0]) / C; i++) {
    const double *dy = r->in[0] + i * C, *x = r->in[1] + i * C, mean = r->in[2][2 * i], rstd = r->in[2][2 * i + 1];
    double a = 0, b = 0, size_a = 0, size_b = 0;
    for (int64_t k = 0; k < C; k++) {
      const double g = dy[k] * r->in[3][k], n = (x[k] - mean) * rstd;
      a += g / (double)C, size_a += fabs(g) / (double)C;
      b += g * n / (double)C, size_b += fabs(g * n) / (double)C;
    }
    for (int64_t k = 0; k < C; k++) {
      const double g = dy[k] * r->in[3][k], n = (x[k] - mean) * rstd;
      r->out[0][i * C + k] = rstd * (g - a - n * b);
      r->scale[0][i * C + k] = rstd * (fabs(g) + size_a + fabs(n) * size_b);
    }
  }
}

static void layernorm_dparam(const case_run *r) {
  const int64_t C = last(r->shape_in[0]);
  for (int64_t i = 0; i < case_count(r->shape_in[0]); i++) {
    const double *row = r->in[2] + i / C * 2, n = (r->in[1][i] - row[0]) * row[1];
    r->out[0][i % C] += r->in[0][i] * n;
    r->scale[0][i % C] += fabs(r->in[0][i] * n);
    r->out[1][i % C] += r->in[0][i];
    r->scale[1][i % C] += fabs(r->in[0][i]);
  }
}

#define FAR(mean, ...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, mean, 1, __VA_ARGS__)
#define STATS(...) INPUT(SL_F64, SL_SCOPE_SAMPLE, FILL_UNIFORM, 0.5, 1.5, __VA_ARGS__)
/* clang-format off */
#define LAYERNORM(what, C, attribute, ...)                                                              \
  {                                                                                                     \
    "layernorm", what, 3, 2, {__VA_ARGS__, WHOLE(C), WHOLE(C)}, .attr = attribute,                      \
        .reference = layernorm, .tolerance = {8 * EPS, 8 * EPS}, .differentiable = 7, .exact = 1        \
  }
#define GRADIENTS(what, C, ...)                                                                         \
  {"layernorm_dx", what, 4, 1, {SAMPLES(__VA_ARGS__, C), SAMPLES(__VA_ARGS__, C), STATS(__VA_ARGS__, 2), WHOLE(C)}, \
   .reference = layernorm_dx, .tolerance = {16 * EPS}, .exact = 1},                                     \
  {"layernorm_dparam", what, 3, 2, {SAMPLES(__VA_ARGS__, C), SAMPLES(__VA_ARGS__, C), STATS(__VA_ARGS__, 2)}, \
   .reference = layernorm_dparam, .tolerance = {8 * EPS, 8 * EPS}}
#define BENCH(what, C, ...)                                                                             \
  {"layernorm", what, 3, 2, {SAMPLES(__VA_ARGS__, C), WHOLE(C), WHOLE(C)}, .attr = &usual,              \
   .reference = layernorm, .bench = 1},                                                                 \
  {"layernorm_dx", what, 4, 1, {SAMPLES(__VA_ARGS__, C), SAMPLES(__VA_ARGS__, C), STATS(__VA_ARGS__, 2), WHOLE(C)}, \
   .reference = layernorm_dx, .bench = 1},                                                              \
  {"layernorm_dparam", what, 3, 2, {SAMPLES(__VA_ARGS__, C), SAMPLES(__VA_ARGS__, C), STATS(__VA_ARGS__, 2)}, \
   .reference = layernorm_dparam, .bench = 1}

const test_case cases_layernorm[] = {
    /* Its gradient is all rounding. */
    {"layernorm", "[3, 1]", 3, 2, {SAMPLES(3, 1), WHOLE(1), WHOLE(1)}, .attr = &usual, .reference = layernorm,
     .tolerance = {8 * EPS, 8 * EPS}, .exact = 1},
    LAYERNORM("[5, 7], other eps", 7, &coarse, SAMPLES(5, 7)),
    LAYERNORM("[2, 9, 67]", 67, &usual, SAMPLES(2, 9, 67)),
    LAYERNORM("[33, 48]", 48, &usual, SAMPLES(33, 48)),
    LAYERNORM("[3, 1300]", 1300, &usual, SAMPLES(3, 1300)),
    /* Two rounds on a GPU. */
    {"layernorm", "[1, 8300]", 3, 2, {SAMPLES(1, 8300), WHOLE(8300), WHOLE(8300)}, .attr = &usual,
     .reference = layernorm, .tolerance = {8 * EPS, 8 * EPS}, .exact = 1},
    /* Floats themselves are a thousandth apart here: differences of the reference alone are checked loosely. */
    {"layernorm", "[5, 333] around 10000", 3, 2, {FAR(1e4, 5, 333), WHOLE(333), WHOLE(333)}, .attr = &usual,
     .reference = layernorm, .tolerance = {8 * EPS, 8 * EPS}, .differentiable = 7, .gradient_tolerance = 1e-4,
     .exact = 1},
    GRADIENTS("[5, 1]", 1, 5),
    GRADIENTS("[5, 7]", 7, 5),
    GRADIENTS("[2, 9, 67]", 67, 2, 9),
    GRADIENTS("[300, 40]", 40, 300),
    GRADIENTS("[3, 1300]", 1300, 3),
    BENCH("[4, 64, 768]", 768, 4, 64),
    BENCH("[8, 256, 384]", 384, 8, 256),
    {0},
};
/* clang-format on */
