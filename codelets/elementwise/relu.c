/* relu: y = max(x, 0), and dx = dy where y > 0. The gradient reads the output y, so x need not be kept. A NaN in x
 * gives a NaN in y, so that the loss shows it. */
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(relu);
SL_KERNEL_DECLARE(relu_grad);

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_real *x = c->in[0].data;
  sl_real *y = c->out[0].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  SL_IVDEP
  for (int64_t i = r.from; i < r.to; i++) sl_put(y + i, sl_get(x + i) < 0 ? 0 : sl_get(x + i));
}

sl_status SL_KERNEL(relu)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), forward, (void *)c);
  return SL_OK;
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_real *dy = c->in[0].data, *y = c->in[1].data;
  sl_real *dx = c->out[0].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  SL_IVDEP
  for (int64_t i = r.from; i < r.to; i++) sl_put(dx + i, sl_get(y + i) > 0 ? sl_get(dy + i) : 0);
}

sl_status SL_KERNEL(relu_grad)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(relu);
SL_CUDA_DECLARE(relu_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_relu_grad, node->name, NULL, (sl_value[]){dout[0], node->out[0]}, 2);
}

static const sl_folding folding = {.follows = 1};

const sl_operation sl_op_relu = {
    .name = "relu",
    .folding = &folding,
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(relu),
    .cpu_bf16 = SL_KERNELS_BF16(relu),
    .cuda = SL_CUDA_KERNEL(relu),
    .cuda_bf16 = 1,
    .inplace = {1},
};
const sl_operation sl_op_relu_grad = {
    .name = "relu_grad",
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(relu_grad),
    .cpu_bf16 = SL_KERNELS_BF16(relu_grad),
    .cuda = SL_CUDA_KERNEL(relu_grad),
    .cuda_bf16 = 1,
    .inplace = {1},
};

sl_value sl_relu(sl_graph *graph, const char *layer, sl_value x) {
  return sl_graph_add1(graph, &sl_op_relu, layer, NULL, &x, 1);
}
#endif
