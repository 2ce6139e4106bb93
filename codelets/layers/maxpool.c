/* maxpool: the largest value of each window, and its position in the window (U8), which the gradient needs. Padding
 * counts as minus infinity. Of equal values the first counts as the largest; a NaN counts as larger than all
 * numbers. */
#include "codelets/kernels/pool.h"

SL_KERNEL_DECLARE(maxpool);
SL_KERNEL_DECLARE(maxpool_grad);

typedef uint8_t bytes __attribute__((vector_size(SL_LANES)));

static inline void store_index(uint8_t *p, sl_veci index, int64_t n) {
  bytes b = __builtin_convertvector(index, bytes);
  memcpy(p, &b, (size_t)n);
}

/* Computes SL_LANES channels of one output pixel; only the first n channels count. x points to the first row of the
 * image. */
static inline void window_max(const sl_real *x, int64_t row, int64_t C, sl_window h, sl_window w, int kernel, int64_t n,
                              sl_real *y, uint8_t *index) {
  sl_vec best = sl_splat(0);
  sl_veci at = {0};
  int first = 1;
  for (int i = h.from; i < h.to; i++)
    for (int j = w.from; j < w.to; j++) {
      const sl_real *p = x + i * row + j * C;
      sl_vec v = n == SL_LANES ? sl_load(p) : sl_load_n(p, n, 0);
      int k = (i - h.start) * kernel + (j - w.start);
      sl_veci take = first ? ~(sl_veci){0} : (v > best) | (v != v);
      best = sl_select(take, v, best);
      at = (take & k) | (~take & at);
      first = 0;
    }
  if (n == SL_LANES)
    sl_store(y, best);
  else
    sl_store_n(y, best, n);
  store_index(index, at, n);
}

/* A tile is a run of output rows. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_pool_attr *a = c->attr;
  const int64_t *out = c->out[0].shape.dim, C = out[3], row = a->width * C;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, a->kernel * row), out[0] * out[1]);
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *x = (const sl_real *)c->in[0].data + i / out[1] * a->height * row;
    sl_real *y = (sl_real *)c->out[0].data + i * out[2] * C;
    uint8_t *index = (uint8_t *)c->out[1].data + i * out[2] * C;
    sl_window h = sl_pool_window(a, i % out[1], a->height);
    for (int64_t j = 0; j < out[2]; j++) {
      sl_window w = sl_pool_window(a, j, a->width);
      int64_t k = 0;
      if (a->kernel == 2 && h.to - h.from == 2 && w.to - w.from == 2) /* constants, so that the loops unroll */
        for (; k + SL_LANES <= C; k += SL_LANES)
          window_max(x + h.from * row + w.from * C + k, row, C, (sl_window){0, 0, 2}, (sl_window){0, 0, 2}, 2, SL_LANES,
                     y + j * C + k, index + j * C + k);
      else
        for (; k + SL_LANES <= C; k += SL_LANES)
          window_max(x + k, row, C, h, w, a->kernel, SL_LANES, y + j * C + k, index + j * C + k);
      if (k < C) window_max(x + k, row, C, h, w, a->kernel, C - k, y + j * C + k, index + j * C + k);
    }
  }
}

sl_status SL_KERNEL(maxpool)(const sl_call *c) { return sl_pool_rows(c, forward); }

static inline sl_veci load_index(const uint8_t *p, int64_t n) {
  bytes b = {0};
  memcpy(&b, p, (size_t)n);
#if defined SL_ISA_AVX512 /* GCC takes a vector apart to convert it */
  return (sl_veci)_mm512_cvtepu8_epi32((__m128i)b);
#elif defined SL_ISA_AVX2
  return (sl_veci)_mm256_cvtepu8_epi32((__m128i){(long long)b});
#else
  return __builtin_convertvector(b, sl_veci);
#endif
}

/* Computes dx of one window that is disjoint from the others, for SL_LANES channels, of which only the first n count:
 * dy at the largest pixel of the window, 0 at the other pixels. dx points to the window. */
static inline __attribute__((always_inline)) void window_grad(const sl_real *dy, const uint8_t *index, int64_t row,
                                                              int64_t C, int kernel, int64_t n, sl_real *dx) {
  const sl_veci at = load_index(index, n), g = (sl_veci)(n == SL_LANES ? sl_load(dy) : sl_load_n(dy, n, 0));
  for (int i = 0; i < kernel; i++)
    for (int j = 0; j < kernel; j++) {
      sl_real *p = dx + i * row + j * C;
      const sl_vec v = (sl_vec)((at == i * kernel + j) & g);
      if (n == SL_LANES)
        sl_store(p, v);
      else
        sl_store_n(p, v, n);
    }
}

static void disjoint_grad(const sl_pool_attr *a, const int64_t *out, const sl_real *dy, const uint8_t *index,
                          sl_real *dx) {
  const int64_t C = out[3], row = a->width * C, image = a->height * row;
  const int64_t right = out[2] * a->stride * C, bottom = out[1] * a->stride * row; /* where the windows end */
  for (int64_t i = 0; i < out[1]; i++) {
    sl_real *line = dx + i * a->stride * row;
    for (int64_t j = 0; j < out[2]; j++, dy += C, index += C) {
      sl_real *to = line + j * a->stride * C;
      int64_t k = 0;
      if (a->kernel == 2) /* a constant, so that the loops unroll */
        for (; k + SL_LANES <= C; k += SL_LANES) window_grad(dy + k, index + k, row, C, 2, SL_LANES, to + k);
      else
        for (; k + SL_LANES <= C; k += SL_LANES) window_grad(dy + k, index + k, row, C, a->kernel, SL_LANES, to + k);
      if (k < C) window_grad(dy + k, index + k, row, C, a->kernel, C - k, to + k);
    }
    if (right < row)
      for (int p = 0; p < a->kernel; p++) memset(line + p * row + right, 0, (size_t)(row - right) * sizeof *dx);
  }
  if (bottom < image) memset(dx + bottom, 0, (size_t)(image - bottom) * sizeof *dx);
}

/* Computes dx of one pixel, for SL_LANES channels, of which only the first n count. dx is the sum of dy over those of
 * the windows h x w in which the pixel is the largest. dy points to the first window of the image. */
static inline __attribute__((always_inline)) void pixel_grad(const sl_real *dy, const uint8_t *index, int64_t row,
                                                             int64_t C, sl_window h, sl_window w, const sl_pool_attr *a,
                                                             int64_t n, sl_real *dx) {
  sl_vec sum = sl_splat(0);
  for (int i = h.from; i < h.to; i++)
    for (int j = w.from; j < w.to; j++) {
      const int64_t from = i * row + j * C;
      const int k = (h.start - (i - h.from) * a->stride) * a->kernel + w.start - (j - w.from) * a->stride;
      const sl_vec g = n == SL_LANES ? sl_load(dy + from) : sl_load_n(dy + from, n, 0);
      sum += (sl_vec)((load_index(index + from, n) == k) & (sl_veci)g);
    }
  if (n == SL_LANES)
    sl_store(dx, sum);
  else
    sl_store_n(dx, sum, n);
}

static void overlapping_grad(const sl_pool_attr *a, const int64_t *out, const sl_real *dy, const uint8_t *index,
                             sl_real *dx) {
  const int64_t C = out[3], row = out[2] * C;
  sl_window h = {0};
  for (int64_t p = 0; p < a->height; p++) {
    h = sl_pool_windows(a, p, out[1], h);
    sl_window w = {0};
    for (int64_t q = 0; q < a->width; q++, dx += C) {
      w = sl_pool_windows(a, q, out[2], w);
      int64_t k = 0;
      for (; k + SL_LANES <= C; k += SL_LANES) pixel_grad(dy + k, index + k, row, C, h, w, a, SL_LANES, dx + k);
      if (k < C) pixel_grad(dy + k, index + k, row, C, h, w, a, C - k, dx + k);
    }
  }
}

/* A tile is a run of samples. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_pool_attr *a = c->attr;
  const int64_t *out = c->in[0].shape.dim, windows = out[1] * out[2] * out[3], image = a->height * a->width * out[3];
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, image), out[0]);
  for (int64_t b = r.from; b < r.to; b++)
    (sl_pool_disjoint(a) ? disjoint_grad : overlapping_grad)(a, out, (const sl_real *)c->in[0].data + b * windows,
                                                             (const uint8_t *)c->in[1].data + b * windows,
                                                             (sl_real *)c->out[0].data + b * image);
}

sl_status SL_KERNEL(maxpool_grad)(const sl_call *c) { return sl_pool_samples(c, backward); }

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(maxpool);
SL_CUDA_DECLARE(maxpool_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  SL_TRY(pool_shape(attr, in, n_in, out, n_out));
  out[1].dtype = SL_U8;
  return SL_OK;
}

static void cost_grad(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_maxpool_grad, node->name, node->attr, (sl_value[]){dout[0], node->out[1]}, 2);
}

const sl_operation sl_op_maxpool = {
    .name = "maxpool",
    .attr_bytes = sizeof(sl_pool_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = pool_cost,
    .cpu = SL_KERNELS(maxpool),
    .cpu_bf16 = SL_KERNELS_BF16(maxpool),
    .cuda = SL_CUDA_KERNEL(maxpool),
};
const sl_operation sl_op_maxpool_grad = {
    .name = "maxpool_grad",
    .attr_bytes = sizeof(sl_pool_attr),
    .shape = pool_grad_shape,
    .cost = cost_grad,
    .cpu = SL_KERNELS(maxpool_grad),
    .cpu_bf16 = SL_KERNELS_BF16(maxpool_grad),
    .cuda = SL_CUDA_KERNEL(maxpool_grad),
};

sl_value sl_maxpool(sl_graph *graph, const char *layer, sl_value x, int kernel, int stride, int pad) {
  return pool_add(graph, &sl_op_maxpool, layer, x, 2, &(sl_pool_attr){kernel, stride, pad, 0, 0});
}
#endif
