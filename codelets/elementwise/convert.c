/* convert: out = in in another type: float to bf16 (nearest, ties to even; denormals are kept, a NaN stays a NaN) or
 * bf16 to float. The precision pass copies weights with it, and the engine the arguments of kernels that take only
 * floats. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(convert);

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  int64_t i = r.from;
  if (c->out[0].dtype == SL_BF16) {
    const float *x = c->in[0].data;
    sl_bf16 *y = c->out[0].data;
    for (; i + SL_LANES <= r.to; i += SL_LANES) sl_store(y + i, sl_load(x + i));
    for (; i < r.to; i++) sl_put(y + i, x[i]);
  } else {
    const sl_bf16 *x = c->in[0].data;
    float *y = c->out[0].data;
    for (; i + SL_LANES <= r.to; i += SL_LANES) sl_store(y + i, sl_load(x + i));
    for (; i < r.to; i++) y[i] = sl_get(x + i);
  }
}

sl_status SL_KERNEL(convert)(const sl_call *c) {
  const sl_dtype from = c->in[0].dtype, to = c->out[0].dtype;
  if (!(from == SL_F32 && to == SL_BF16) && !(from == SL_BF16 && to == SL_F32))
    return sl_fail(SL_EUNSUPPORTED, "convert cannot make %s of %s", sl_dtype_name(to), sl_dtype_name(from));
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(convert);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].dtype = *(const sl_dtype *)attr;
  return SL_OK;
}

const sl_operation sl_op_convert = {
    .name = "convert",
    .attr_bytes = sizeof(sl_dtype),
    .shape = shape,
    .cpu = SL_KERNELS(convert),
    .cuda = SL_CUDA_KERNEL(convert),
    .any_dtype = 1,
    .wide_out = 1,
    .map_in = 1,
    .map_out = 1,
};

sl_value sl_convert(sl_graph *graph, const char *layer, sl_value x, sl_dtype dtype) {
  return sl_graph_add1(graph, &sl_op_convert, layer, &dtype, &x, 1);
}
#endif
