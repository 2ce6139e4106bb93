/* copy: out = in, or out += in if the call accumulates. The engine sums pieces with this operation. */
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(copy);

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  if (!(c->accumulate & 1)) {
    size_t size = sl_dtype_bytes(c->out[0].dtype);
    memcpy((char *)c->out[0].data + (size_t)r.from * size, (const char *)c->in[0].data + (size_t)r.from * size,
           (size_t)(r.to - r.from) * size);
  } else if (c->out[0].dtype == SL_F64) {
    const double *x = c->in[0].data;
    double *y = c->out[0].data;
    for (int64_t i = r.from; i < r.to; i++) y[i] += x[i];
  } else {
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = r.from; i < r.to; i++) y[i] += x[i];
  }
}

sl_status SL_KERNEL(copy)(const sl_call *c) {
  if (c->accumulate & 1 && c->out[0].dtype != SL_F32 && c->out[0].dtype != SL_F64)
    return sl_fail(SL_EUNSUPPORTED, "copy cannot add up %s arrays", sl_dtype_name(c->out[0].dtype));
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(copy);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].dtype = in[0]->dtype;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) {
  if (c->accumulate & 1) cost->flops = (double)sl_shape_count(&c->out[0].shape);
}

const sl_operation sl_op_copy = {
    .name = "copy",
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(copy),
    .cuda = SL_CUDA_KERNEL(copy),
    .any_dtype = 1,
    .map_in = 1,
    .map_out = 1,
};
#endif
