/* Cases of conv2d and its gradients: every kind of edge (padding larger than the kernel needs, strides that leave
 * pixels out), odd numbers of channels, channels enough for several chains of sums, images small enough to share a
 * block and rows long enough to fill several. */
#include "tests/codelets/cases.h"

/* Calls body for each product of the convolution: y[out] takes x[in] w[weight]; filter is out's and weight's. */
typedef void product_body(const case_run *r, int64_t out, int64_t in, int64_t weight);
static void each_product(const case_run *r, const sl_shape *x, const sl_shape *y, product_body *body) {
  const sl_conv2d_attr *a = r->c->attr;
  int64_t H = x->dim[1], W = x->dim[2], C = x->dim[3], O = y->dim[3];
  for (int64_t out = 0; out < case_count(y); out++) {
    int64_t o = out % O, j = out / O % y->dim[2], i = out / O / y->dim[2] % y->dim[1],
            b = out / O / y->dim[2] / y->dim[1];
    for (int64_t s = 0; s < a->kernel * a->kernel; s++) {
      int64_t h = i * a->stride + s / a->kernel - a->pad, w = j * a->stride + s % a->kernel - a->pad;
      for (int64_t c = 0; h >= 0 && h < H && w >= 0 && w < W && c < C; c++)
        body(r, out, ((b * H + h) * W + w) * C + c, (o * a->kernel * a->kernel + s) * C + c);
    }
  }
}

static void add(const case_run *r, int out, int64_t i, double term) {
  r->out[out][i] += term;
  r->scale[out][i] += fabs(term);
}

static void to_y(const case_run *r, int64_t out, int64_t in, int64_t weight) {
  add(r, 0, out, r->in[0][in] * r->in[1][weight]);
}
static void conv2d(const case_run *r) {
  each_product(r, r->shape_in[0], r->shape_out[0], to_y);
  int64_t O = r->shape_out[0]->dim[3];
  for (int64_t i = 0; r->c->n_in > 2 && i < case_count(r->shape_out[0]); i++) add(r, 0, i, r->in[2][i % O]);
}

static void to_dx(const case_run *r, int64_t out, int64_t in, int64_t weight) {
  add(r, 0, in, r->in[0][out] * r->in[1][weight]);
}
static void dx(const case_run *r) { each_product(r, r->shape_out[0], r->shape_in[0], to_dx); }

static void to_dw(const case_run *r, int64_t out, int64_t in, int64_t weight) {
  add(r, 0, weight, r->in[0][out] * r->in[1][in]);
}
static void dw(const case_run *r) {
  each_product(r, r->shape_in[1], r->shape_in[0], to_dw);
  int64_t O = r->shape_in[0]->dim[3];
  for (int64_t i = 0; r->c->n_out > 1 && i < case_count(r->shape_in[0]); i++) add(r, 1, i % O, r->in[0][i]);
}

/* Chains are sequential: their error stays well below this share of the sum of sizes. */
/* It would take such tables apart. */
/* clang-format off */
#define SUMS \
  { 16 * EPS, 16 * EPS }
#define ATTR(kernel, stride, pad, height, width) (&(const sl_conv2d_attr){kernel, stride, pad, height, width})
#define GRID(size, kernel, stride, pad) (((size) + 2 * (pad) - (kernel)) / (stride) + 1)
#define TITLE(B, H, W, C, O, kernel, stride, pad) \
  "[" #B ", " #H ", " #W ", " #C "] to " #O ", kernel " #kernel ", stride " #stride ", pad " #pad
/* The three operations; gradients are those of the first by finite differences too. */
#define FORWARD(B, H, W, C, O, kernel, stride, pad, ...)                                            \
  {"conv2d", TITLE(B, H, W, C, O, kernel, stride, pad), 3, 1,                                       \
   {SAMPLES(B, H, W, C), WHOLE(O, kernel, kernel, C), WHOLE(O)},                                    \
   .attr = ATTR(kernel, stride, pad, H, W), .reference = conv2d, __VA_ARGS__}
#define DX(B, H, W, C, O, kernel, stride, pad, ...)                                                 \
  {"conv2d_dx", TITLE(B, H, W, C, O, kernel, stride, pad), 2, 1,                                    \
   {SAMPLES(B, GRID(H, kernel, stride, pad), GRID(W, kernel, stride, pad), O),                      \
    WHOLE(O, kernel, kernel, C)},                                                                   \
   .attr = ATTR(kernel, stride, pad, H, W), .reference = dx, __VA_ARGS__}
#define DW(B, H, W, C, O, kernel, stride, pad, ...)                                                 \
  {"conv2d_dw", TITLE(B, H, W, C, O, kernel, stride, pad), 2, 2,                                    \
   {SAMPLES(B, GRID(H, kernel, stride, pad), GRID(W, kernel, stride, pad), O), SAMPLES(B, H, W, C)}, \
   .attr = ATTR(kernel, stride, pad, H, W), .reference = dw, __VA_ARGS__}
#define CONV(B, H, W, C, O, kernel, stride, pad, check)                                             \
  FORWARD(B, H, W, C, O, kernel, stride, pad, .tolerance = SUMS, .differentiable = check, .exact = 1), \
  DX(B, H, W, C, O, kernel, stride, pad, .tolerance = SUMS, .exact = 1),                            \
  DW(B, H, W, C, O, kernel, stride, pad, .tolerance = SUMS, .exact = 1)
#define BENCH(B, H, W, C, O, kernel, stride, pad)                                                   \
  FORWARD(B, H, W, C, O, kernel, stride, pad, .bench = 1),                                          \
  DX(B, H, W, C, O, kernel, stride, pad, .bench = 1),                                               \
  DW(B, H, W, C, O, kernel, stride, pad, .bench = 1)

const test_case cases_conv2d[] = {
    CONV(1, 1, 1, 1, 1, 1, 1, 0, 7),
    CONV(2, 5, 5, 1, 3, 3, 1, 1, 7),
    CONV(3, 7, 9, 5, 17, 3, 1, 0, 7),
    CONV(2, 8, 8, 4, 33, 3, 2, 1, 7),
    CONV(2, 9, 7, 3, 10, 5, 3, 2, 7),
    CONV(5, 7, 7, 20, 40, 1, 1, 0, 0),
    CONV(2, 8, 6, 12, 20, 1, 2, 0, 0),
    CONV(2, 32, 32, 12, 20, 1, 2, 0, 0),
    CONV(1, 4, 4, 3, 5, 3, 1, 4, 7),    /* outputs that see only zeros */
    CONV(1, 5, 4, 3, 5, 2, 5, 1, 7),    /* pixels that no output sees */
    CONV(2, 5, 5, 256, 40, 3, 1, 1, 0), /* three chains; pixels 1 KB apart */
    CONV(2, 5, 5, 40, 256, 3, 2, 1, 0),
    CONV(2, 5, 5, 512, 20, 1, 1, 0, 0), /* pixels 1 KB apart in bf16 */
    CONV(1, 4, 5, 512, 34, 2, 1, 1, 0),
    CONV(2, 20, 21, 3, 16, 7, 2, 3, 0),
    CONV(2, 16, 32, 3, 20, 16, 16, 0, 0),
    CONV(6, 14, 14, 8, 40, 3, 1, 1, 0),
    CONV(2, 4, 300, 2, 20, 3, 1, 1, 0),
    CONV(1, 1, 700, 6, 3, 1, 1, 0, 0),
    CONV(3, 13, 14, 32, 3, 5, 1, 2, 0),
    {"conv2d",
     "[3, 6, 6, 2] to 5, no bias",
     2,
     1,
     {SAMPLES(3, 6, 6, 2), WHOLE(5, 3, 3, 2)},
     
     .attr = ATTR(3, 1, 1, 6, 6), .reference = conv2d,
     .tolerance = SUMS,
     .differentiable = 3,
     .exact = 1},
    {"conv2d_dw",
     "[3, 6, 6, 2] to 5, no bias",
     2,
     1,
     {SAMPLES(3, 6, 6, 5), SAMPLES(3, 6, 6, 2)},
     
     .attr = ATTR(3, 1, 1, 6, 6), .reference = dw,
     .tolerance = SUMS,
     .exact = 1},
    BENCH(64, 28, 28, 1, 32, 3, 1, 1),
    BENCH(64, 14, 14, 32, 64, 3, 1, 1),
    BENCH(2, 224, 224, 3, 64, 7, 2, 3),
    BENCH(2, 56, 56, 64, 64, 3, 1, 1),
    BENCH(2, 56, 56, 64, 256, 1, 1, 0),
    BENCH(2, 56, 56, 256, 64, 1, 1, 0),
    BENCH(2, 56, 56, 128, 128, 3, 2, 1),
    BENCH(2, 28, 28, 128, 128, 3, 1, 1),
    BENCH(2, 28, 28, 512, 128, 1, 1, 0),
    BENCH(2, 7, 7, 512, 512, 3, 1, 1),
    BENCH(2, 7, 7, 512, 2048, 1, 1, 0),
    BENCH(2, 56, 56, 256, 512, 1, 2, 0),
    BENCH(4, 14, 14, 256, 256, 3, 1, 1),
    BENCH(4, 14, 14, 1024, 256, 1, 1, 0),
    BENCH(8, 7, 7, 512, 512, 3, 1, 1),
    {0},
};
/* clang-format on */
