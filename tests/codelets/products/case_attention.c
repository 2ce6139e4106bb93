/* Cases of attention: all T x T scores and probabilities at once, in double. Rounding of a score is an error of its
 * probability, relative to it. In bf16 probabilities and derivatives by scores are rounded before products. */
#include "tests/codelets/cases.h"

static const sl_attention_attr one = {.heads = 1}, one_causal = {.heads = 1, .causal = 1};
static const sl_attention_attr two = {.heads = 2}, two_causal = {.heads = 2, .causal = 1};
static const sl_attention_attr three = {.heads = 3}, four_causal = {.heads = 4, .causal = 1};
static const sl_attention_attr six_causal = {.heads = 6, .causal = 1}, twelve_causal = {.heads = 12, .causal = 1};
static const sl_attention_attr twelve = {.heads = 12};

typedef struct sizes {
  int64_t B, T, C, H, d;
  int causal;
  double scale;
} sizes;
static sizes sizes_of(const case_run *r, const sl_shape *qkv) {
  const sl_attention_attr *a = r->c->attr;
  sizes s = {qkv->dim[0], qkv->dim[1], qkv->dim[2] / 3, a->heads, qkv->dim[2] / 3 / a->heads, a->causal, 0};
  s.scale = 1 / sqrt((double)s.d);
  return s;
}
/* Keys that query i of sample b sees. */
static int64_t keys_of(const sizes *s, const double *length, int64_t b, int64_t i) {
  int64_t n = length ? (int64_t)length[b] : s->T;
  return i >= n ? 0 : s->causal ? i + 1 : n;
}
static double dot(const double *a, const double *b, int64_t n, double *size) {
  double sum = 0;
  *size = 0;
  for (int64_t x = 0; x < n; x++) sum += a[x] * b[x], *size += fabs(a[x] * b[x]);
  return sum;
}

static void attention(const case_run *r) {
  const sizes s = sizes_of(r, r->shape_in[0]);
  double *score = malloc((size_t)s.T * sizeof *score), *size = malloc((size_t)s.T * sizeof *size);
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.H; h++)
      for (int64_t i = 0; i < s.T; i++) {
        const int64_t keys = keys_of(&s, r->c->n_in > 1 ? r->in[1] : NULL, b, i), at = (b * s.H + h) * s.T + i;
        const double *q = r->in[0] + (b * s.T + i) * 3 * s.C + h * s.d,
                     *k = r->in[0] + b * s.T * 3 * s.C + s.C + h * s.d;
        double *out = r->out[0] + (b * s.T + i) * s.C + h * s.d, *scale = r->scale[0] + (out - r->out[0]);
        double max = -INFINITY, sum = 0, error = 0;
        for (int64_t j = 0; j < keys; j++) {
          score[j] = s.scale * dot(q, k + j * 3 * s.C, s.d, &size[j]);
          max = fmax(max, score[j]);
        }
        for (int64_t j = 0; j < keys; j++) {
          size[j] = 1 + s.scale * size[j] + fabs(score[j] - max);
          sum += score[j] = exp(score[j] - max);
          error += score[j] * size[j];
        }
        if (keys) r->out[1][at] = max + log(sum), r->scale[1][at] = fabs(max) + log(sum) + error / sum;
        for (int64_t j = 0; j < keys; j++)
          for (int64_t x = 0; x < s.d; x++) {
            double term = score[j] / sum * k[j * 3 * s.C + s.C + x];
            out[x] += term;
            scale[x] += fabs(term) * (size[j] + error / sum);
          }
      }
  free(score);
  free(size);
}

static void attention_grad(const case_run *r) {
  const sizes s = sizes_of(r, r->shape_in[1]);
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.H; h++)
      for (int64_t i = 0; i < s.T; i++) {
        const int64_t keys = keys_of(&s, r->c->n_in > 4 ? r->in[4] : NULL, b, i), row = (b * s.T + i) * s.C + h * s.d;
        const int64_t q_at = (b * s.T + i) * 3 * s.C + h * s.d;
        const double *dout = r->in[0] + row, *q = r->in[1] + q_at, lse = r->in[3][(b * s.H + h) * s.T + i];
        double D_size, D = dot(dout, r->in[2] + row, s.d, &D_size);
        for (int64_t j = 0; j < keys; j++) {
          const int64_t k_at = (b * s.T + j) * 3 * s.C + s.C + h * s.d, v_at = k_at + s.C;
          const double *k = r->in[1] + k_at, *v = r->in[1] + v_at;
          double size, dp_size, score = s.scale * dot(q, k, s.d, &size), p = exp(score - lse);
          double ds = p * (dot(dout, v, s.d, &dp_size) - D) * s.scale;
          size = 1 + s.scale * size + fabs(score) + fabs(lse);
          double ds_size = fabs(ds) * size + p * (dp_size + D_size) * s.scale;
          for (int64_t x = 0; x < s.d; x++) {
            r->out[0][q_at + x] += ds * k[x], r->scale[0][q_at + x] += ds_size * fabs(k[x]);
            r->out[0][k_at + x] += ds * q[x], r->scale[0][k_at + x] += ds_size * fabs(q[x]);
            r->out[0][v_at + x] += p * dout[x], r->scale[0][v_at + x] += p * size * fabs(dout[x]);
          }
        }
      }
}

#define LENGTHS(a, b, B) INPUT(SL_I32, SL_SCOPE_SAMPLE, FILL_INTEGERS, a, b, B)
#define WIDE(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 4, __VA_ARGS__)
#define LSE(...) INPUT(SL_F32, SL_SCOPE_SAMPLE, FILL_UNIFORM, 3, 4, __VA_ARGS__)
#define FORWARD(attr_, what_, n, ...)                                                             \
  .op = "attention", .what = what_, .n_in = n, .n_out = 2, .in = {__VA_ARGS__}, .attr = &(attr_), \
  .reference = attention, .tolerance = {8 * EPS, 8 * EPS}, .rounds = EPS_BF16 / 2, .packed = 3, .exact = 1
#define BACKWARD(attr_, what_, n, ...)                                                                 \
  .op = "attention_grad", .what = what_, .n_in = n, .n_out = 1, .in = {__VA_ARGS__}, .attr = &(attr_), \
  .reference = attention_grad, .tolerance = {16 * EPS}, .rounds = EPS_BF16 / 2, .exact = 1
#define GRAD_INPUTS(B, T, C, heads) SAMPLES(B, T, C), SAMPLES(B, T, 3 * (C)), SAMPLES(B, T, C), LSE(B, heads, T)

const test_case cases_attention[] = {
    {FORWARD(one, "1 head of 5 [2, 7]", 1, SAMPLES(2, 7, 15)), .differentiable = 1},
    {FORWARD(two_causal, "2 heads of 8, causal [3, 7]", 1, SAMPLES(3, 7, 48)), .differentiable = 1},
    {FORWARD(three, "3 heads of 11, lengths [3, 33]", 2, SAMPLES(3, 33, 99), LENGTHS(0, 33, 3)), .differentiable = 1},
    {FORWARD(four_causal, "4 heads of 16, causal, lengths [3, 33]", 2, SAMPLES(3, 33, 192), LENGTHS(1, 33, 3)),
     .differentiable = 1},
    {FORWARD(one_causal, "1 head of 1, causal [2, 33]", 1, SAMPLES(2, 33, 3)), .differentiable = 1},
    {FORWARD(two, "one token", 1, SAMPLES(3, 1, 18))},
    {FORWARD(two, "2 heads of 8, lengths [3, 33], NaN beyond", 2, SAMPLES(3, 33, 48), LENGTHS(0, 33, 3)), .lengths = 1},
    {FORWARD(two, "length 0", 2, SAMPLES(2, 9, 12), LENGTHS(0, 0, 2))},
    {FORWARD(two_causal, "length T", 2, SAMPLES(2, 9, 12), LENGTHS(9, 9, 2))},
    {FORWARD(two, "2 heads of 64 [2, 65]", 1, SAMPLES(2, 65, 384))},
    {FORWARD(two_causal, "wide scores, 2 heads of 32, causal [2, 65]", 1, WIDE(2, 65, 192))},
    {FORWARD(one_causal, "1 head of 80, causal [2, 130]", 1, SAMPLES(2, 130, 240))},
    {FORWARD(three, "3 heads of 33 [2, 130]", 1, SAMPLES(2, 130, 297))},
    {FORWARD(one_causal, "1 head of 17, causal [2, 531]", 1, SAMPLES(2, 531, 51))},
    {FORWARD(two, "2 heads of 8, lengths [3, 531]", 2, SAMPLES(3, 531, 48), LENGTHS(200, 531, 3))},
    {FORWARD(one, "wide scores, 1 head of 9 [2, 300]", 1, WIDE(2, 300, 27))},
    {BACKWARD(one, "1 head of 5 [2, 7]", 4, GRAD_INPUTS(2, 7, 5, 1))},
    {BACKWARD(two_causal, "2 heads of 8, causal [3, 7]", 4, GRAD_INPUTS(3, 7, 16, 2))},
    {BACKWARD(three, "3 heads of 11, lengths [3, 33]", 5, GRAD_INPUTS(3, 33, 33, 3), LENGTHS(0, 33, 3))},
    {BACKWARD(four_causal, "4 heads of 16, causal, lengths [3, 33]", 5, GRAD_INPUTS(3, 33, 64, 4), LENGTHS(1, 33, 3))},
    {BACKWARD(two, "one token", 4, GRAD_INPUTS(3, 1, 6, 2))},
    {BACKWARD(two, "2 heads of 8, lengths [3, 33], NaN beyond", 5, GRAD_INPUTS(3, 33, 16, 2), LENGTHS(0, 33, 3)),
     .lengths = 4},
    {BACKWARD(two, "length 0", 5, GRAD_INPUTS(2, 9, 4, 2), LENGTHS(0, 0, 2))},
    {BACKWARD(two_causal, "length T", 5, GRAD_INPUTS(2, 9, 4, 2), LENGTHS(9, 9, 2))},
    {BACKWARD(two, "2 heads of 64 [2, 65]", 4, GRAD_INPUTS(2, 65, 128, 2))},
    {BACKWARD(one_causal, "1 head of 80, causal [2, 130]", 4, GRAD_INPUTS(2, 130, 80, 1))},
    {BACKWARD(three, "3 heads of 33 [2, 130]", 4, GRAD_INPUTS(2, 130, 99, 3))},
    {BACKWARD(one_causal, "1 head of 17, causal [2, 331]", 4, GRAD_INPUTS(2, 331, 17, 1))},
    {BACKWARD(two, "2 heads of 8, lengths [3, 331]", 5, GRAD_INPUTS(3, 331, 16, 2), LENGTHS(100, 331, 3))},
    {FORWARD(six_causal, "6 heads of 64, causal [8, 256]", 1, SAMPLES(8, 256, 1152)), .bench = 1},
    {FORWARD(twelve_causal, "12 heads of 64, causal [4, 64]", 1, SAMPLES(4, 64, 2304)), .bench = 1},
    {FORWARD(twelve, "12 heads of 64 [8, 197]", 1, SAMPLES(8, 197, 2304)), .bench = 1},
    {FORWARD(twelve, "12 heads of 64 [8, 128]", 1, SAMPLES(8, 128, 2304)), .bench = 1},
    {FORWARD(twelve_causal, "12 heads of 32, causal [2, 1024]", 1, SAMPLES(2, 1024, 1152)), .bench = 1},
    {FORWARD(twelve_causal, "12 heads of 80, causal [2, 512]", 1, SAMPLES(2, 512, 2880)), .bench = 1},
    {BACKWARD(six_causal, "6 heads of 64, causal [8, 256]", 4, GRAD_INPUTS(8, 256, 384, 6)), .bench = 1},
    {BACKWARD(twelve_causal, "12 heads of 64, causal [4, 64]", 4, GRAD_INPUTS(4, 64, 768, 12)), .bench = 1},
    {BACKWARD(twelve, "12 heads of 64 [8, 197]", 4, GRAD_INPUTS(8, 197, 768, 12)), .bench = 1},
    {BACKWARD(twelve, "12 heads of 64 [8, 128]", 4, GRAD_INPUTS(8, 128, 768, 12)), .bench = 1},
    {BACKWARD(twelve_causal, "12 heads of 32, causal [2, 1024]", 4, GRAD_INPUTS(2, 1024, 384, 12)), .bench = 1},
    {BACKWARD(twelve_causal, "12 heads of 80, causal [2, 512]", 4, GRAD_INPUTS(2, 512, 960, 12)), .bench = 1},
    {0},
};
