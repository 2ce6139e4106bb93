/* softmax over the last dimension: y = exp(x - max x) / sum. The gradient dx = y (dy - sum(y dy)) needs the output y,
 * not x. */
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(softmax);
SL_KERNEL_DECLARE(softmax_grad);

static int64_t width(const sl_call *c) { return c->out[0].shape.dim[c->out[0].shape.ndim - 1]; }
static int64_t rows(const sl_call *c) { return sl_shape_count(&c->out[0].shape) / width(c); }

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = width(c);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), rows(c));
  for (int64_t row = r.from; row < r.to; row++) {
    const float *x = (const float *)c->in[0].data + row * V;
    float *y = (float *)c->out[0].data + row * V;
    const float max = sl_max_row(x, V);
    double sum = 0;
    for (int64_t i = 0; i < V;) { /* sums of short runs in floats, sum of the runs in double */
      sl_sum part = {{{0}}};
      for (int64_t end = sl_min64(V, i + 256); i < end; i += SL_SUM_LANES)
        for (int w = 0; w < SL_SUM_VECTORS && i + w * SL_LANES < V; w++) {
          const int64_t at = i + w * SL_LANES, n = sl_min64(SL_LANES, V - at);
          sl_vec e = sl_exp((n == SL_LANES ? sl_load(x + at) : sl_load_n(x + at, n, -INFINITY)) - max);
          part.v[w] += e;
          if (n == SL_LANES)
            sl_store(y + at, e);
          else
            sl_store_n(y + at, e, n);
        }
      sum += (double)sl_sum_lanes(part);
    }
    const float scale = (float)(1 / sum);
    for (int64_t i = 0; i < V; i++) y[i] *= scale;
  }
}

sl_status SL_KERNEL(softmax)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(rows(c), sl_tile_rows(c, width(c))), forward, (void *)c);
  return SL_OK;
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = width(c);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), rows(c));
  for (int64_t row = r.from; row < r.to; row++) {
    const float *dy = (const float *)c->in[0].data + row * V, *y = (const float *)c->in[1].data + row * V;
    float *dx = (float *)c->out[0].data + row * V;
    double sum = 0;
    for (int64_t i = 0; i < V;) {
      sl_sum part = {{{0}}};
      for (int64_t end = sl_min64(V, i + 256); i < end; i += SL_SUM_LANES)
        for (int w = 0; w < SL_SUM_VECTORS; w++) {
          const int64_t at = i + w * SL_LANES, left = V - at;
          part.v[w] = sl_fma(sl_load_left(dy + at, left, 0), sl_load_left(y + at, left, 0), part.v[w]);
        }
      sum += (double)sl_sum_lanes(part);
    }
    const float inner = (float)sum;
    SL_IVDEP
    for (int64_t i = 0; i < V; i++) dx[i] = y[i] * (dy[i] - inner);
  }
}

sl_status SL_KERNEL(softmax_grad)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(rows(c), sl_tile_rows(c, width(c))), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(softmax);
SL_CUDA_DECLARE(softmax_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (in[0]->shape.ndim < 1) return sl_fail(SL_ESHAPE, "a scalar has no last dimension");
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 20 * (double)sl_shape_count(&c->out[0].shape); }
static void cost_grad(const sl_call *c, sl_cost *cost) { cost->flops = 4 * (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_softmax_grad, node->name, NULL, (sl_value[]){dout[0], node->out[0]}, 2);
}

const sl_operation sl_op_softmax = {
    .name = "softmax",
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(softmax),
    .cuda = SL_CUDA_KERNEL(softmax),
    .wide_out = 1, /* probabilities, which commands print */
    .inplace = {1},
};
const sl_operation sl_op_softmax_grad = {
    .name = "softmax_grad",
    .shape = shape,
    .cost = cost_grad,
    .cpu = SL_KERNELS(softmax_grad),
    .cuda = SL_CUDA_KERNEL(softmax_grad),
    .wide_in = 2,
    .inplace = {1},
};

sl_value sl_softmax(sl_graph *graph, const char *layer, sl_value x) {
  return sl_graph_add1(graph, &sl_op_softmax, layer, NULL, &x, 1);
}
#endif
