/* avgpool: the mean of each window, padding counted as zeros (torch's count_include_pad). */
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
    const float *x = (const float *)c->in[0].data + i / out[1] * a->height * row;
    sl_window h = sl_pool_window(a, i % out[1], a->height);
    for (int64_t j = 0; j < out[2]; j++) {
      float *y = (float *)c->out[0].data + (i * out[2] + j) * C;
      sl_window w = sl_pool_window(a, j, a->width);
      for (int64_t k = 0; k < C; k += SL_LANES) {
        int64_t n = sl_min64(SL_LANES, C - k);
        sl_vec sum = sl_splat(0);
        for (int p = h.from; p < h.to; p++)
          for (int q = w.from; q < w.to; q++) {
            const float *from = x + p * row + q * C + k;
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

/* A tile is a run of samples. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_pool_attr *a = c->attr;
  const int64_t *out = c->in[0].shape.dim, C = out[3], row = a->width * C, image = a->height * row;
  const float scale = 1.0f / (float)(a->kernel * a->kernel);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, image), out[0]);
  for (int64_t b = r.from; b < r.to; b++) {
    const float *dy = (const float *)c->in[0].data + b * out[1] * out[2] * C;
    float *dx = (float *)c->out[0].data + b * image;
    memset(dx, 0, (size_t)image * sizeof *dx);
    for (int64_t i = 0; i < out[1]; i++) {
      sl_window h = sl_pool_window(a, i, a->height);
      for (int64_t j = 0; j < out[2]; j++) {
        sl_window w = sl_pool_window(a, j, a->width);
        const float *g = dy + (i * out[2] + j) * C;
        for (int p = h.from; p < h.to; p++)
          for (int q = w.from; q < w.to; q++) {
            float *to = dx + p * row + q * C;
            SL_IVDEP
            for (int64_t k = 0; k < C; k++) to[k] = sl_fmaf(g[k], scale, to[k]);
          }
      }
    }
  }
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
    .cuda = SL_CUDA_KERNEL(avgpool),
};
const sl_operation sl_op_avgpool_grad = {
    .name = "avgpool_grad",
    .attr_bytes = sizeof(sl_pool_attr),
    .shape = pool_grad_shape,
    .cost = cost_grad,
    .cpu = SL_KERNELS(avgpool_grad),
    .cuda = SL_CUDA_KERNEL(avgpool_grad),
};

sl_value sl_avgpool(sl_graph *graph, const char *layer, sl_value x, int kernel, int stride, int pad) {
  return pool_add(graph, &sl_op_avgpool, layer, x, 1, &(sl_pool_attr){kernel, stride, pad, 0, 0});
}
#endif
