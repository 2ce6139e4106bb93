/* input: copies the samples of a shard from the host array of the batch. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(input);

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_input_attr *attr = c->attr;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  size_t size = sl_dtype_bytes(attr->dtype);
  const char *from = c->batch ? (const char *)c->batch
                              : (const char *)c->step->input[attr->slot] +
                                    (size_t)((c->row0 - c->step->input_row0) * sl_shape_row(&c->out[0].shape)) * size;
  memcpy((char *)c->out[0].data + (size_t)r.from * size, from + (size_t)r.from * size, (size_t)(r.to - r.from) * size);
}

sl_status SL_KERNEL(input)(const sl_call *c) {
  const sl_input_attr *attr = c->attr;
  if (!c->step->input[attr->slot]) return sl_fail(SL_EINVAL, "input: the step has no array in slot %d", attr->slot);
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(input);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)in, (void)n_in, (void)n_out;
  const sl_input_attr *a = attr;
  if (a->slot < 0 || a->slot >= SL_MAX_INPUTS)
    return sl_fail(SL_EINVAL, "slot %d: a step has %d slots, numbered from 0", a->slot, SL_MAX_INPUTS);
  out[0].shape = a->shape;
  out[0].dtype = a->dtype;
  out[0].scope = SL_SCOPE_SAMPLE;
  return SL_OK;
}

static int slot(const void *attr) { return ((const sl_input_attr *)attr)->slot; }

/* The task reads each byte once and writes it once. The graph counts only the bytes of the output, so this rule doubles
 * them. */
static void cost(const sl_call *c, sl_cost *cost) { (void)c, cost->bytes *= 2; }

const sl_operation sl_op_input = {
    .name = "input",
    .attr_bytes = sizeof(sl_input_attr),
    .shape = shape,
    .cost = cost,
    .batch_slot = slot,
    .cpu = SL_KERNELS(input),
    .cuda = SL_CUDA_KERNEL(input),
    .wide_out = 1,
};

sl_value sl_input(sl_graph *graph, const char *layer, int slot, sl_dtype dtype, sl_shape sample) {
  if (sample.ndim >= SL_MAX_DIMS) {
    sl_fail(SL_ESHAPE, "input: samples of %d dimensions; at most %d are supported", sample.ndim, SL_MAX_DIMS - 1);
    sl_graph_fail(graph, SL_ESHAPE, layer);
    return SL_NONE;
  }
  sl_input_attr attr = {.slot = slot, .dtype = dtype, .shape = {.ndim = sample.ndim + 1, .dim = {graph->batch}}};
  memcpy(attr.shape.dim + 1, sample.dim, (size_t)sample.ndim * sizeof *sample.dim);
  return sl_graph_add1(graph, &sl_op_input, layer, &attr, NULL, 0);
}
#endif
