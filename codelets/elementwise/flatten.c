/* flatten: the same elements under another shape. Nothing moves if the planner gives the output the input's buffer. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(flatten);

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  size_t size = sl_dtype_bytes(c->out[0].dtype);
  memcpy((char *)c->out[0].data + (size_t)r.from * size, (const char *)c->in[0].data + (size_t)r.from * size,
         (size_t)(r.to - r.from) * size);
}

sl_status SL_KERNEL(flatten)(const sl_call *c) {
  if (c->out[0].data == c->in[0].data) return SL_OK;
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(flatten);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_flatten_attr *a = attr;
  if (sl_shape_count(&a->shape) != sl_shape_count(&in[0]->shape)) {
    char from[SL_SHAPE_TEXT], to[SL_SHAPE_TEXT];
    return sl_fail(SL_ESHAPE, "%s and %s have different numbers of elements",
                   sl_shape_text(&in[0]->shape, from, sizeof from), sl_shape_text(&a->shape, to, sizeof to));
  }
  out[0].shape = a->shape;
  out[0].dtype = in[0]->dtype;
  return SL_OK;
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  sl_flatten_attr back = {.shape = sl_graph_value(graph, node->in[0])->shape};
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_flatten, node->name, &back, dout, 1);
}

const sl_operation sl_op_flatten = {
    .name = "flatten",
    .attr_bytes = sizeof(sl_flatten_attr),
    .shape = shape,
    .gradient = gradient,
    .cpu = SL_KERNELS(flatten),
    .cuda = SL_CUDA_KERNEL(flatten),
    .any_dtype = 1,
    .inplace = {1},
};

sl_value sl_reshape(sl_graph *graph, const char *layer, sl_value x, sl_shape sample) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  if (sample.ndim + 1 > SL_MAX_DIMS) {
    sl_fail(SL_ESHAPE, "samples of %d dimensions; at most %d are supported", sample.ndim, SL_MAX_DIMS - 1);
    sl_graph_fail(graph, SL_ESHAPE, layer);
    return SL_NONE;
  }
  sl_flatten_attr attr = {.shape = {.ndim = sample.ndim + 1, .dim = {info->shape.dim[0]}}};
  memcpy(attr.shape.dim + 1, sample.dim, (size_t)sample.ndim * sizeof *sample.dim);
  return sl_graph_add1(graph, &sl_op_flatten, layer, &attr, &x, 1);
}

sl_value sl_flatten(sl_graph *graph, const char *layer, sl_value x) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim <= 2) return x;
  return sl_reshape(graph, layer, x, SL_SHAPE(sl_shape_row(&info->shape)));
}
#endif
