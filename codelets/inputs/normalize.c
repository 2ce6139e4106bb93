/* normalize: y = (x / 255 - mean) / deviation, from the bytes of images to floats. Each channel (the innermost
 * dimension) has its own mean and deviation. The loop runs over stretches whose length is a multiple of every possible
 * number of channels. So it vectorises and needs no division to find the channel. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(normalize);

enum { STRETCH = 48 };

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_normalize_attr *attr = c->attr;
  float scale[STRETCH], shift[STRETCH];
  const uint8_t *x = c->in[0].data;
  sl_real *y = c->out[0].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  for (int j = 0; j < STRETCH; j++) {
    const int k = (int)((r.from + j) % attr->channels);
    scale[j] = 1.0f / (255.0f * attr->deviation[k]);
    shift[j] = -attr->mean[k] / attr->deviation[k];
  }
  int64_t i = r.from;
  for (; i + STRETCH <= r.to; i += STRETCH) {
    SL_IVDEP
    for (int j = 0; j < STRETCH; j++) sl_put(y + i + j, sl_fmaf((float)x[i + j], scale[j], shift[j]));
  }
  for (int j = 0; i < r.to; i++, j++) sl_put(y + i, sl_fmaf((float)x[i], scale[j], shift[j]));
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
  const int64_t C = in[0]->shape.dim[in[0]->shape.ndim - 1];
  if (a->channels != 1 && a->channels != C)
    return sl_fail(SL_ESHAPE, "means of %d channels for pixels of %lld", a->channels, (long long)C);
  for (int k = 0; k < a->channels; k++)
    if (!(a->deviation[k] > 0))
      return sl_fail(SL_EINVAL, "a deviation of %g: it must be above 0", (double)a->deviation[k]);
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
    .cpu_bf16 = SL_KERNELS_BF16(normalize),
    .cuda = SL_CUDA_KERNEL(normalize),
};

sl_value sl_normalize(sl_graph *graph, const char *layer, sl_value x, int64_t channels, const double *mean,
                      const double *deviation) {
  if (channels < 1 || channels > SL_MAX_CHANNELS) {
    sl_graph_fail(
        graph,
        sl_fail(SL_EINVAL, "means of %lld channels; 1 to %d are supported", (long long)channels, SL_MAX_CHANNELS),
        layer);
    return SL_NONE;
  }
  sl_normalize_attr attr = {.channels = (int)channels};
  for (int64_t k = 0; k < channels; k++) attr.mean[k] = (float)mean[k], attr.deviation[k] = (float)deviation[k];
  return sl_graph_add1(graph, &sl_op_normalize, layer, &attr, &x, 1);
}
#endif
