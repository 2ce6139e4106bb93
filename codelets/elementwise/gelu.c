/* gelu: y = x Phi(x), by erf or by the tanh approximation of the transformers of 2018 to 2020. The gradient computes
 * Phi again from x, which costs less than keeping it. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(gelu);
SL_KERNEL_DECLARE(gelu_grad);

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_gelu_attr *attr = c->attr;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const sl_real *x = (const sl_real *)c->in[0].data + r.from;
  sl_real *y = (sl_real *)c->out[0].data + r.from;
  int64_t n = r.to - r.from, i = 0;
  if (attr->form == SL_GELU_ERF) {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(y + i, sl_gelu_erf(sl_load(x + i)));
    if (i < n) sl_store_n(y + i, sl_gelu_erf(sl_load_n(x + i, n - i, 0)), n - i);
  } else {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(y + i, sl_gelu_tanh(sl_load(x + i)));
    if (i < n) sl_store_n(y + i, sl_gelu_tanh(sl_load_n(x + i, n - i, 0)), n - i);
  }
}

sl_status SL_KERNEL(gelu)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), forward, (void *)c);
  return SL_OK;
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_gelu_attr *attr = c->attr;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const sl_real *dy = (const sl_real *)c->in[0].data + r.from, *x = (const sl_real *)c->in[1].data + r.from;
  sl_real *dx = (sl_real *)c->out[0].data + r.from;
  int64_t n = r.to - r.from, i = 0;
  if (attr->form == SL_GELU_ERF) {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(dx + i, sl_load(dy + i) * sl_gelu_erf_slope(sl_load(x + i)));
    if (i < n) sl_store_n(dx + i, sl_load_n(dy + i, n - i, 0) * sl_gelu_erf_slope(sl_load_n(x + i, n - i, 0)), n - i);
  } else {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(dx + i, sl_load(dy + i) * sl_gelu_tanh_slope(sl_load(x + i)));
    if (i < n) sl_store_n(dx + i, sl_load_n(dy + i, n - i, 0) * sl_gelu_tanh_slope(sl_load_n(x + i, n - i, 0)), n - i);
  }
}

sl_status SL_KERNEL(gelu_grad)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(gelu);
SL_CUDA_DECLARE(gelu_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

/* A rough count: matrix products make up most of a model's FLOPs. */
static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 30 * (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_gelu_grad, node->name, node->attr, (sl_value[]){dout[0], node->in[0]}, 2);
}

const sl_operation sl_op_gelu = {
    .name = "gelu",
    .attr_bytes = sizeof(sl_gelu_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(gelu),
    .cpu_bf16 = SL_KERNELS_BF16(gelu),
    .cuda = SL_CUDA_KERNEL(gelu),
    .cuda_bf16 = 1,
    .inplace = {1},
};
const sl_operation sl_op_gelu_grad = {
    .name = "gelu_grad",
    .attr_bytes = sizeof(sl_gelu_attr),
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(gelu_grad),
    .cpu_bf16 = SL_KERNELS_BF16(gelu_grad),
    .cuda = SL_CUDA_KERNEL(gelu_grad),
    .cuda_bf16 = 1,
    .inplace = {1},
};

sl_value sl_gelu(sl_graph *graph, const char *layer, sl_value x, sl_gelu_form form) {
  return sl_graph_add1(graph, &sl_op_gelu, layer, &(sl_gelu_attr){form}, &x, 1);
}
#endif
