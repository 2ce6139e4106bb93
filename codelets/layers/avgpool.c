/* avgpool: the mean of each window. Padding counts as zeros (torch's count_include_pad). */
#include "codelets/kernels/pool.h"

SL_KERNEL_DECLARE(avgpool);
SL_KERNEL_DECLARE(avgpool_grad);

/* A tile is a run of output rows. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_pool_attr *a = c->attr;
  const int64_t *out = c->out[0].shape.dim, C = out[3], row = a->width * C;
  const float scale = 1.0f / (float)(a->kernel * a->kernel);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, a->kernel * row), out[0] * out[1]);
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *x = (const sl_real *)c->in[0].data + i / out[1] * a->height * row;
    sl_window h = sl_pool_window(a, i % out[1], a->height);
    for (int64_t j = 0; j < out[2]; j++) {
      sl_real *y = (sl_real *)c->out[0].data + (i * out[2] + j) * C;
      sl_window w = sl_pool_window(a, j, a->width);
      for (int64_t k = 0; k < C; k += SL_LANES) {
        int64_t n = sl_min64(SL_LANES, C - k);
        sl_vec sum = sl_splat(0);
        for (int p = h.from; p < h.to; p++)
          for (int q = w.from; q < w.to; q++) {
            const sl_real *from = x + p * row + q * C + k;
            sum += n == SL_LANES ? sl_load(from) : sl_load_n(from, n, 0);
          }
        if (n == SL_LANES)
          sl_store(y + k, sum * scale);
        else
          sl_store_n(y + k, sum * scale, n);
      }
    }
  }
}

sl_status SL_KERNEL(avgpool)(const sl_call *c) { return sl_pool_rows(c, forward); }

/* Each pixel lies in one window at most. */
static void separate_grad(const sl_pool_attr *a, const int64_t *out, float scale, const sl_real *dy, sl_real *dx) {
  const int64_t C = out[3], row = a->width * C;
  memset(dx, 0, (size_t)(a->height * row) * sizeof *dx);
  for (int64_t i = 0; i < out[1]; i++) {
    sl_window h = sl_pool_window(a, i, a->height);
    for (int64_t j = 0; j < out[2]; j++) {
      sl_window w = sl_pool_window(a, j, a->width);
      const sl_real *g = dy + (i * out[2] + j) * C;
      for (int p = h.from; p < h.to; p++)
        for (int q = w.from; q < w.to; q++) {
          sl_real *to = dx + p * row + q * C;
          SL_IVDEP
          for (int64_t k = 0; k < C; k++) sl_put(to + k, sl_fmaf(sl_get(g + k), scale, sl_get(to + k)));
        }
    }
  }
}

/* Each pixel is the sum over the windows that contain it. */
static void overlapping_grad(const sl_pool_attr *a, const int64_t *out, float scale, const sl_real *dy, sl_real *dx) {
  const int64_t C = out[3];
  sl_window h = {0};
  for (int64_t p = 0; p < a->height; p++) {
    h = sl_pool_windows(a, p, out[1], h);
    sl_window w = {0};
    for (int64_t q = 0; q < a->width; q++, dx += C) {
      w = sl_pool_windows(a, q, out[2], w);
      for (int64_t k = 0; k < C; k += SL_LANES) {
        int64_t n = sl_min64(SL_LANES, C - k);
        sl_vec sum = sl_splat(0);
        for (int i = h.from; i < h.to; i++)
          for (int j = w.from; j < w.to; j++) {
            const sl_real *g = dy + (i * out[2] + j) * C + k;
            sum = sl_fma(n == SL_LANES ? sl_load(g) : sl_load_n(g, n, 0), sl_splat(scale), sum);
          }
        if (n == SL_LANES)
          sl_store(dx + k, sum);
        else
          sl_store_n(dx + k, sum, n);
      }
    }
  }
}

/* A tile is a run of samples. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_pool_attr *a = c->attr;
  const int64_t *out = c->in[0].shape.dim, windows = out[1] * out[2] * out[3], image = a->height * a->width * out[3];
  const float scale = 1.0f / (float)(a->kernel * a->kernel);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, image), out[0]);
  for (int64_t b = r.from; b < r.to; b++)
    (a->stride >= a->kernel ? separate_grad : overlapping_grad)(
        a, out, scale, (const sl_real *)c->in[0].data + b * windows, (sl_real *)c->out[0].data + b * image);
}

sl_status SL_KERNEL(avgpool_grad)(const sl_call *c) { return sl_pool_samples(c, backward); }

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(avgpool);
SL_CUDA_DECLARE(avgpool_grad);

static void cost_grad(const sl_call *c, sl_cost *cost) {
  const sl_pool_attr *a = c->attr;
  cost->flops = 2 * (double)sl_shape_count(&c->in[0].shape) * a->kernel * a->kernel;
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_avgpool_grad, node->name, node->attr, dout, 1);
}

const sl_operation sl_op_avgpool = {
    .name = "avgpool",
    .attr_bytes = sizeof(sl_pool_attr),
    .shape = pool_shape,
    .gradient = gradient,
    .cost = pool_cost,
    .cpu = SL_KERNELS(avgpool),
    .cpu_bf16 = SL_KERNELS_BF16(avgpool),
    .cuda = SL_CUDA_KERNEL(avgpool),
};
const sl_operation sl_op_avgpool_grad = {
    .name = "avgpool_grad",
    .attr_bytes = sizeof(sl_pool_attr),
    .shape = pool_grad_shape,
    .cost = cost_grad,
    .cpu = SL_KERNELS(avgpool_grad),
    .cpu_bf16 = SL_KERNELS_BF16(avgpool_grad),
    .cuda = SL_CUDA_KERNEL(avgpool_grad),
};

sl_value sl_avgpool(sl_graph *graph, const char *layer, sl_value x, int kernel, int stride, int pad) {
  return pool_add(graph, &sl_op_avgpool, layer, x, 1, &(sl_pool_attr){kernel, stride, pad, 0, 0});
}
#endif
