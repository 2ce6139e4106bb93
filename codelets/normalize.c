/* normalize: y = (x / 255 - mean) / deviation, from bytes as images have them to what a network is given. */
#include "codelets/attributes.h"
#include "codelets/kernel.h"

SL_KERNEL_DECLARE(normalize);

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_normalize_attr *attr = c->attr;
  const float scale = 1.0f / (255.0f * attr->deviation), shift = -attr->mean / attr->deviation;
  const uint8_t *x = c->in[0].data;
  float *y = c->out[0].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  SL_IVDEP
  for (int64_t i = r.from; i < r.to; i++) y[i] = (float)x[i] * scale + shift;
}

sl_status SL_KERNEL(normalize)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(normalize);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_normalize_attr *a = attr;
  if (in[0]->dtype != SL_U8) return sl_fail(SL_ESHAPE, "pixels are U8, not %s", sl_dtype_name(in[0]->dtype));
  if (!(a->deviation > 0)) return sl_fail(SL_EINVAL, "a deviation of %g: it must be above 0", (double)a->deviation);
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 2 * (double)sl_shape_count(&c->out[0].shape); }

const sl_operation sl_op_normalize = {
    .name = "normalize",
    .attr_bytes = sizeof(sl_normalize_attr),
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(normalize),
    .cuda = SL_CUDA_KERNEL(normalize),
};

sl_value sl_normalize(sl_graph *graph, const char *layer, sl_value x, float mean, float deviation) {
  return sl_graph_add1(graph, &sl_op_normalize, layer, &(sl_normalize_attr){mean, deviation}, &x, 1);
}
#endif
