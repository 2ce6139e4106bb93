/* positional: y[b, t] = x[b, t] + P[t], a learned embedding of positions; its gradient dP[t] is the sum of dy[b, t]
 * over the samples, in their order, and zero for positions that the sequences do not reach. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(positional);
SL_KERNEL_DECLARE(positional_grad);

/* A tile is a run of rows [C] of x. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t T = c->out[0].shape.dim[1], C = c->out[0].shape.dim[2];
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), c->out[0].shape.dim[0] * T);
  for (int64_t i = r.from; i < r.to; i++) {
    int part = 0;
    const int64_t t = i % T;
    while (part + 1 < c->in[1].parts && c->in[1].part[part + 1].row0 <= t) part++;
    const float *p = (const float *)c->in[1].part[part].data + (t - c->in[1].part[part].row0) * C;
    const sl_real *x = (const sl_real *)c->in[0].data + i * C;
    sl_real *y = (sl_real *)c->out[0].data + i * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) sl_put(y + k, sl_get(x + k) + p[k]);
  }
}

/* x [B, T, C], P [positions, C] -> y. */
sl_status SL_KERNEL(positional)(const sl_call *c) {
  const sl_shape *y = &c->out[0].shape;
  sl_team_for(c->team, sl_tiles_of(y->dim[0] * y->dim[1], sl_tile_rows(c, y->dim[2])), forward, (void *)c);
  return SL_OK;
}

/* A tile is a run of rows of dP. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t B = c->in[0].shape.dim[0], T = c->in[0].shape.dim[1], C = c->in[0].shape.dim[2];
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), c->out[0].shape.dim[0]);
  for (int64_t i = r.from; i < r.to; i++) {
    const int64_t t = c->out[0].row0 + i;
    float *dp = (float *)c->out[0].data + i * C;
    if (!(c->accumulate & 1)) memset(dp, 0, (size_t)C * sizeof *dp);
    for (int64_t b = 0; b < B && t < T; b++) {
      const sl_real *dy = (const sl_real *)c->in[0].data + (b * T + t) * C;
      SL_IVDEP
      for (int64_t k = 0; k < C; k++) dp[k] += sl_get(dy + k);
    }
  }
}

/* dy [B, T, C] -> dP [positions, C], or rows [row0, row0 + rows) of it. */
sl_status SL_KERNEL(positional_grad)(const sl_call *c) {
  const sl_shape *dp = &c->out[0].shape;
  sl_team_for(c->team, sl_tiles_of(dp->dim[0], sl_tile_rows(c, dp->dim[1])), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(positional);
SL_CUDA_DECLARE(positional_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  const sl_shape *x = &in[0]->shape, *P = &in[1]->shape;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  if (in[0]->dtype != SL_F32 || x->ndim != 3 || P->ndim != 2 || P->dim[1] != x->dim[2])
    return sl_fail(SL_ESHAPE, "x is F32 [B, T, C] and positions [positions, C], not %s %s and %s",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(x, a, sizeof a), sl_shape_text(P, b, sizeof b));
  if (x->dim[1] > P->dim[0])
    return sl_blame(sl_fail(SL_ESHAPE, "sequences of %lld positions, but the model has %lld: shorten them",
                            (long long)x->dim[1], (long long)P->dim[0]),
                    "window");
  out[0].shape = *x;
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(((const sl_positional_attr *)attr)->rows, in[0]->shape.dim[2]);
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) {
  const sl_shape *x = &c->in[0].shape;
  cost->flops = (double)sl_shape_count(x);
  cost->bytes = 2 * (double)sl_dtype_bytes(c->in[0].dtype) * cost->flops + 4 * (double)(x->dim[1] * x->dim[2]);
}
static void grad_cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->in[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_positional_attr attr = {sl_graph_value(graph, node->in[1])->shape.dim[0]};
  if (need[0]) din[0] = dout[0];
  if (need[1]) din[1] = sl_graph_add1(graph, &sl_op_positional_grad, node->name, &attr, dout, 1);
}

const sl_operation sl_op_positional = {
    .name = "positional",
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(positional),
    .cpu_bf16 = SL_KERNELS_BF16(positional),
    .cuda = SL_CUDA_KERNEL(positional),
    .all_in = 2,
    .inplace = {1},
};
const sl_operation sl_op_positional_grad = {
    .name = "positional_grad",
    .attr_bytes = sizeof(sl_positional_attr),
    .shape = grad_shape,
    .cost = grad_cost,
    .cpu = SL_KERNELS(positional_grad),
    .cpu_bf16 = SL_KERNELS_BF16(positional_grad),
    .cuda = SL_CUDA_KERNEL(positional_grad),
    .map_out = 1,
};

sl_value sl_positional(sl_graph *graph, const char *layer, sl_value x, int64_t positions, double deviation) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  sl_value P =
      sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32,
                      SL_SHAPE(positions, info->shape.dim[info->shape.ndim - 1]), (sl_init){SL_INIT_NORMAL, deviation});
  return sl_graph_add1(graph, &sl_op_positional, layer, NULL, (sl_value[]){x, P}, 2);
}
#endif
