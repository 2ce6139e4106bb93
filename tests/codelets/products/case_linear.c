/* Cases of linear and its gradients: sizes below, at and above a register tile, a row block and a chain of sums, a
 * power-of-two row (which is copied), more than two dimensions, with and without bias. */
#include "tests/codelets/cases.h"

static const sl_linear_attr plain = {SL_ACTIVATION_NONE}, rectified = {SL_ACTIVATION_RELU};

static int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }

/* to[r, n] += sum over k of a[r a_row + k a_step] b[k b_row + n b_step], and the sizes of what was added to scale. */
static void product(int64_t R, int64_t N, int64_t K, const double *a, int64_t a_row, int64_t a_step, const double *b,
                    int64_t b_row, int64_t b_step, double *to, double *scale) {
  for (int64_t r = 0; r < R; r++)
    for (int64_t n = 0; n < N; n++)
      for (int64_t k = 0; k < K; k++) {
        double term = a[r * a_row + k * a_step] * b[k * b_row + n * b_step];
        to[r * N + n] += term;
        scale[r * N + n] += fabs(term);
      }
}

static void linear(const case_run *r) {
  int64_t K = last(r->shape_in[0]), N = last(r->shape_out[0]), R = case_count(r->shape_in[0]) / K;
  product(R, N, K, r->in[0], K, 1, r->in[1], 1, K, r->out[0], r->scale[0]);
  for (int64_t i = 0; i < R * N; i++) {
    if (r->c->n_in > 2) {
      r->out[0][i] += r->in[2][i % N];
      r->scale[0][i] += fabs(r->in[2][i % N]);
    }
    if (((const sl_linear_attr *)r->c->attr)->activation == SL_ACTIVATION_RELU) r->out[0][i] = fmax(r->out[0][i], 0);
  }
}

static void dx(const case_run *r) {
  int64_t K = last(r->shape_out[0]), N = last(r->shape_in[0]), R = case_count(r->shape_in[0]) / N;
  product(R, K, N, r->in[0], N, 1, r->in[1], K, 1, r->out[0], r->scale[0]);
}

static void dw(const case_run *r) {
  int64_t K = last(r->shape_in[1]), N = last(r->shape_in[0]), R = case_count(r->shape_in[0]) / N;
  product(N, K, R, r->in[0], 1, N, r->in[1], K, 1, r->out[0], r->scale[0]);
  for (int64_t i = 0; r->c->n_out > 1 && i < R * N; i++) {
    r->out[1][i % N] += r->in[0][i];
    r->scale[1][i % N] += fabs(r->in[0][i]);
  }
}

/* Chains are sequential: their error stays well below this share of the sum of sizes. */
/* It would take such tables apart. */
/* clang-format off */
#define SUMS \
  { 16 * EPS, 16 * EPS }
#define LINEAR(what, K, N, relu, ...)                                                         \
  {                                                                                           \
    "linear", what, 3, 1, {SAMPLES(__VA_ARGS__, K), WHOLE(N, K), WHOLE(N)},                   \
        .attr = relu, .reference = linear, .tolerance = SUMS, .differentiable = 7, .exact = 1 \
  }
#define DX(what, R, N, K) \
  { "linear_dx", what, 2, 1, {SAMPLES(R, N), WHOLE(N, K)}, .reference = dx, .tolerance = SUMS }
#define DW(what, R, N, K, outputs) \
  { "linear_dw", what, 2, outputs, {SAMPLES(R, N), SAMPLES(R, K)}, .reference = dw, .tolerance = SUMS, .exact = 1 }
#define BENCH(R, K, N)                                                                                    \
  {"linear", #R " rows, " #K " to " #N, 3, 1, {SAMPLES(R, K), WHOLE(N, K), WHOLE(N)}, .attr = &rectified, \
   .reference = linear, .bench = 1},                                                                      \
  {"linear_dx", #R " rows, " #K " to " #N, 2, 1, {SAMPLES(R, N), WHOLE(N, K)}, .reference = dx,           \
   .bench = 1},                                                                                           \
  {"linear_dw", #R " rows, " #K " to " #N, 2, 2, {SAMPLES(R, N), SAMPLES(R, K)}, .reference = dw,         \
   .bench = 1}

const test_case cases_linear[] = {
    LINEAR("1 row, 1 to 1", 1, 1, &plain, 1),
    LINEAR("3 rows, 5 to 7, relu", 5, 7, &rectified, 3),
    LINEAR("[2, 9] rows, 33 to 45", 33, 45, &plain, 2, 9),
    LINEAR("130 rows, 48 to 40, relu", 48, 40, &rectified, 130),
    LINEAR("16 rows, 1024 to 20", 1024, 20, &plain, 16),
    LINEAR("20 rows, 1100 to 30, relu", 1100, 30, &rectified, 20),
    {"linear",
     "40 rows, 100 to 300, no bias",
     2,
     1,
     {SAMPLES(40, 100), WHOLE(300, 100)},
     .attr = &plain,
     .reference = linear,
     .tolerance = SUMS,
     .differentiable = 3,
     .exact = 1},
    DX("1 row, 1 to 1", 1, 1, 1),
    DX("3 rows, 7 to 5", 3, 7, 5),
    DX("130 rows, 40 to 45", 130, 40, 45),
    DX("20 rows, 512 to 64", 20, 512, 64),
    DX("16 rows, 1100 to 300", 16, 1100, 300),
    DX("60 rows, 1100 to 70", 60, 1100, 70),
    DX("120 rows, 1101 to 70", 120, 1101, 70),
    DW("1 row, 1 to 1", 1, 1, 1, 2),
    DW("3 rows, 7 to 5", 3, 7, 5, 2),
    DW("9 rows, 7 to 33", 9, 7, 33, 2), /* 33: a last panel of one input, whatever the width of vectors */
    DW("64 rows, 40 to 45, no bias", 64, 40, 45, 1),
    DW("300 rows, 30 to 600", 300, 30, 600, 2),
    DW("20 rows, 520 to 64", 20, 520, 64, 2),
    BENCH(64, 784, 1024),
    BENCH(64, 1024, 1024),
    BENCH(128, 1024, 1024),
    BENCH(64, 3136, 128),
    BENCH(64, 1024, 10),
    BENCH(256, 768, 3072),
    BENCH(256, 3072, 768),
    BENCH(64, 768, 50257),
    BENCH(256, 768, 50257),
    {0},
};
/* clang-format on */
