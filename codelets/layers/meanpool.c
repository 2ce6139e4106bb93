/* meanpool: the mean over all positions of a sample, for images or sequences of any size: y[b, k] is the mean of x[b,
 * ..., k]. For images this is global average pooling (Lin et al. 2014, section 3.2). */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(meanpool);
SL_KERNEL_DECLARE(meanpool_grad);

/* A tile is a run of samples. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t B = c->out[0].shape.dim[0], C = c->out[0].shape.dim[1], P = sl_shape_row(&c->in[0].shape) / C;
  const float scale = 1.0f / (float)P;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, P * C), B);
  for (int64_t b = r.from; b < r.to; b++) {
    const sl_real *x = (const sl_real *)c->in[0].data + b * P * C;
    sl_real *y = (sl_real *)c->out[0].data + b * C;
    for (int64_t k = 0; k < C; k += SL_LANES) {
      const int64_t n = sl_min64(SL_LANES, C - k);
      sl_vec sum = sl_splat(0);
      for (int64_t p = 0; p < P; p++) sum += n == SL_LANES ? sl_load(x + p * C + k) : sl_load_n(x + p * C + k, n, 0);
      if (n == SL_LANES)
        sl_store(y + k, sum * scale);
      else
        sl_store_n(y + k, sum * scale, n);
    }
  }
}

/* x [B, ..., C] -> y [B, C]. */
sl_status SL_KERNEL(meanpool)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(c->out[0].shape.dim[0], sl_tile_rows(c, sl_shape_row(&c->in[0].shape))), forward,
              (void *)c);
  return SL_OK;
}

/* A tile is a run of positions. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = c->in[0].shape.dim[1], P = sl_shape_row(&c->out[0].shape) / C;
  const float scale = 1.0f / (float)P;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), c->in[0].shape.dim[0] * P);
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *dy = (const sl_real *)c->in[0].data + i / P * C;
    sl_real *dx = (sl_real *)c->out[0].data + i * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) sl_put(dx + k, sl_get(dy + k) * scale);
  }
}

/* dy [B, C] -> dx [B, ..., C]. */
sl_status SL_KERNEL(meanpool_grad)(const sl_call *c) {
  const int64_t C = c->in[0].shape.dim[1];
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape) / C, sl_tile_rows(c, C)), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(meanpool);
SL_CUDA_DECLARE(meanpool_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  const sl_shape *x = &in[0]->shape;
  if (in[0]->dtype != SL_F32 || x->ndim < 3 || sl_shape_count(x) == 0) {
    char text[SL_SHAPE_TEXT];
    return sl_fail(SL_ESHAPE, "x is F32 [B, ..., C], not %s %s", sl_dtype_name(in[0]->dtype),
                   sl_shape_text(x, text, sizeof text));
  }
  out[0].shape = SL_SHAPE(x->dim[0], x->dim[x->ndim - 1]);
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0].shape = ((const sl_meanpool_attr *)attr)->shape;
  out[0].shape.dim[0] = in[0]->shape.dim[0];
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->in[0].shape); }
static void grad_cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_meanpool_attr attr = {sl_graph_value(graph, node->in[0])->shape};
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_meanpool_grad, node->name, &attr, dout, 1);
}

const sl_operation sl_op_meanpool = {
    .name = "meanpool",
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(meanpool),
    .cpu_bf16 = SL_KERNELS_BF16(meanpool),
    .cuda = SL_CUDA_KERNEL(meanpool),
};
const sl_operation sl_op_meanpool_grad = {
    .name = "meanpool_grad",
    .attr_bytes = sizeof(sl_meanpool_attr),
    .shape = grad_shape,
    .cost = grad_cost,
    .cpu = SL_KERNELS(meanpool_grad),
    .cpu_bf16 = SL_KERNELS_BF16(meanpool_grad),
    .cuda = SL_CUDA_KERNEL(meanpool_grad),
};

sl_value sl_meanpool(sl_graph *graph, const char *layer, sl_value x) {
  return sl_graph_add1(graph, &sl_op_meanpool, layer, NULL, &x, 1);
}
#endif
