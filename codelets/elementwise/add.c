/* add: out = a + b. If several nodes use a value, the gradient pass adds their gradients with this operation. */
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(add);

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  if (c->out[0].dtype == SL_F64) {
    const double *a = c->in[0].data, *b = c->in[1].data;
    double *y = c->out[0].data;
    SL_IVDEP
    for (int64_t i = r.from; i < r.to; i++) y[i] = a[i] + b[i];
  } else {
    const sl_real *a = c->in[0].data, *b = c->in[1].data;
    sl_real *y = c->out[0].data;
    SL_IVDEP
    for (int64_t i = r.from; i < r.to; i++) sl_put(y + i, sl_get(a + i) + sl_get(b + i));
  }
}

sl_status SL_KERNEL(add)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(add);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (!sl_shape_equal(&in[0]->shape, &in[1]->shape) || in[0]->dtype != in[1]->dtype ||
      (in[0]->dtype != SL_F32 && in[0]->dtype != SL_F64)) {
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    return sl_fail(SL_ESHAPE, "%s %s and %s %s cannot be added: both must be F32 or both F64, of one shape",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(&in[0]->shape, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(&in[1]->shape, b, sizeof b));
  }
  out[0].shape = in[0]->shape;
  out[0].dtype = in[0]->dtype;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  (void)graph, (void)node;
  for (int i = 0; i < 2; i++)
    if (need[i]) din[i] = dout[0];
}

const sl_operation sl_op_add = {
    .name = "add",
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(add),
    .cpu_bf16 = SL_KERNELS_BF16(add),
    .cuda = SL_CUDA_KERNEL(add),
    .cuda_bf16 = 1,
    .map_in = 3,
    .map_out = 1,
    .along = 3,
    .inplace = {1},
};

sl_value sl_add(sl_graph *graph, const char *layer, sl_value a, sl_value b) {
  return sl_graph_add1(graph, &sl_op_add, layer, NULL, (sl_value[]){a, b}, 2);
}
#endif
