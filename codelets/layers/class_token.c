/* The class token of Dosovitskiy et al. 2021 (eq. 1 and 4): class_token prepends a learned token to every sequence;
 * first_token reads this token after the last block. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(class_token);
SL_KERNEL_DECLARE(class_token_grad);
SL_KERNEL_DECLARE(first_token);
SL_KERNEL_DECLARE(first_token_grad);

static size_t bytes(int64_t n) { return (size_t)n * sizeof(sl_real); }

/* The range [from, to) of n samples, of `row` elements each, that a tile covers. */
static sl_range samples(const sl_call *c, int64_t tile, int64_t row, int64_t n) {
  return sl_tile_range(tile, sl_tile_rows(c, row), n);
}
static void each(const sl_call *c, int64_t row, int64_t n, sl_team_body body) {
  sl_team_for(c->team, sl_tiles_of(n, sl_tile_rows(c, row)), body, (void *)c);
}

static void prepend(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t B = c->in[0].shape.dim[0], N = c->in[0].shape.dim[1], C = c->in[0].shape.dim[2];
  sl_range r = samples(c, tile, N * C, B);
  for (int64_t b = r.from; b < r.to; b++) {
    sl_real *y = (sl_real *)c->out[0].data + b * (N + 1) * C;
    for (int p = 0; p < c->in[1].parts; p++) {
      const sl_array *token = &c->in[1].part[p];
      const float *from = token->data;
      for (int64_t k = 0; k < token->shape.dim[0]; k++) sl_put(y + token->row0 + k, from[k]);
    }
    memcpy(y + C, (const sl_real *)c->in[0].data + b * N * C, bytes(N * C));
  }
}

/* x [B, N, C], token [C] -> [B, N + 1, C]. */
sl_status SL_KERNEL(class_token)(const sl_call *c) {
  const sl_shape *x = &c->in[0].shape;
  each(c, x->dim[1] * x->dim[2], x->dim[0], prepend);
  return SL_OK;
}

static void behind_first(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t B = c->out[0].shape.dim[0], N = c->out[0].shape.dim[1], C = c->out[0].shape.dim[2];
  sl_range r = samples(c, tile, N * C, B);
  for (int64_t b = r.from; b < r.to; b++)
    memcpy((sl_real *)c->out[0].data + b * N * C, (const sl_real *)c->in[0].data + (b * (N + 1) + 1) * C, bytes(N * C));
}

/* dy [B, N + 1, C] -> dx [B, N, C], dtoken [C] (summed over the samples in their order). */
sl_status SL_KERNEL(class_token_grad)(const sl_call *c) {
  const sl_shape *dy = &c->in[0].shape;
  const int64_t T = dy->dim[1], C = dy->dim[2];
  float *token = c->out[1].data;
  each(c, (T - 1) * C, dy->dim[0], behind_first);
  if (!(c->accumulate & 2)) memset(token, 0, (size_t)C * sizeof *token);
  for (int64_t b = 0; b < dy->dim[0]; b++) {
    const sl_real *first = (const sl_real *)c->in[0].data + b * T * C;
    for (int64_t k = 0; k < C; k++) token[k] += sl_get(first + k);
  }
  return SL_OK;
}

/* x [B, T, C] -> [B, C]. */
sl_status SL_KERNEL(first_token)(const sl_call *c) {
  const sl_shape *x = &c->in[0].shape;
  const int64_t C = x->dim[2];
  for (int64_t b = 0; b < x->dim[0]; b++)
    memcpy((sl_real *)c->out[0].data + b * C, (const sl_real *)c->in[0].data + b * x->dim[1] * C, bytes(C));
  return SL_OK;
}

static void pad_first(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t B = c->out[0].shape.dim[0], T = c->out[0].shape.dim[1], C = c->out[0].shape.dim[2];
  sl_range r = samples(c, tile, T * C, B);
  for (int64_t b = r.from; b < r.to; b++) {
    sl_real *dx = (sl_real *)c->out[0].data + b * T * C;
    memcpy(dx, (const sl_real *)c->in[0].data + b * C, bytes(C));
    memset(dx + C, 0, bytes((T - 1) * C));
  }
}

/* dy [B, C] -> dx [B, T, C], zeros after the first token. */
sl_status SL_KERNEL(first_token_grad)(const sl_call *c) {
  const sl_shape *dx = &c->out[0].shape;
  each(c, dx->dim[1] * dx->dim[2], dx->dim[0], pad_first);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(class_token);
SL_CUDA_DECLARE(class_token_grad);
SL_CUDA_DECLARE(first_token);
SL_CUDA_DECLARE(first_token_grad);

static sl_status sequences(const sl_value_info *x) {
  char text[SL_SHAPE_TEXT];
  if (x->dtype == SL_F32 && x->shape.ndim == 3 && x->shape.dim[1] > 0) return SL_OK;
  return sl_fail(SL_ESHAPE, "sequences are F32 [B, T, C], not %s %s", sl_dtype_name(x->dtype),
                 sl_shape_text(&x->shape, text, sizeof text));
}

static sl_status prepend_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                               int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  SL_TRY(sequences(in[0]));
  const sl_shape *x = &in[0]->shape, *token = &in[1]->shape;
  char text[SL_SHAPE_TEXT];
  if (token->ndim != 1 || token->dim[0] != x->dim[2])
    return sl_fail(SL_ESHAPE, "the token has the sequences' %lld features, not %s", (long long)x->dim[2],
                   sl_shape_text(token, text, sizeof text));
  out[0].shape = SL_SHAPE(x->dim[0], x->dim[1] + 1, x->dim[2]);
  return SL_OK;
}
static sl_status prepend_grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                                    int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  const sl_shape *dy = &in[0]->shape;
  out[0].shape = SL_SHAPE(dy->dim[0], dy->dim[1] - 1, dy->dim[2]);
  out[1].shape = SL_SHAPE(dy->dim[2]);
  out[1].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}
static sl_status first_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  SL_TRY(sequences(in[0]));
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], in[0]->shape.dim[2]);
  return SL_OK;
}
static sl_status first_grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                                  int n_out) {
  (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], ((const sl_first_token_attr *)attr)->tokens, in[0]->shape.dim[1]);
  return SL_OK;
}

/* The operation reads only the first token of each sample. */
static void first_cost(const sl_call *c, sl_cost *cost) {
  cost->bytes = 2 * (double)sl_dtype_bytes(c->out[0].dtype) * (double)sl_shape_count(&c->out[0].shape);
}
static void prepend_grad_cost(const sl_call *c, sl_cost *cost) {
  cost->flops = (double)(c->in[0].shape.dim[0] * c->in[0].shape.dim[2]);
}

static void prepend_gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need,
                             sl_value *din) {
  sl_value d[2];
  sl_graph_add(graph, &sl_op_class_token_grad, node->name, NULL, dout, 1, d, 2);
  for (int i = 0; i < 2; i++)
    if (need[i]) din[i] = d[i];
}
static void first_gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_first_token_attr attr = {sl_graph_value(graph, node->in[0])->shape.dim[1]};
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_first_token_grad, node->name, &attr, dout, 1);
}

const sl_operation sl_op_class_token = {
    .name = "class_token",
    .shape = prepend_shape,
    .gradient = prepend_gradient,
    .cpu = SL_KERNELS(class_token),
    .cpu_bf16 = SL_KERNELS_BF16(class_token),
    .cuda = SL_CUDA_KERNEL(class_token),
    .all_in = 2,
};
const sl_operation sl_op_class_token_grad = {
    .name = "class_token_grad",
    .shape = prepend_grad_shape,
    .cost = prepend_grad_cost,
    .cpu = SL_KERNELS(class_token_grad),
    .cpu_bf16 = SL_KERNELS_BF16(class_token_grad),
    .cuda = SL_CUDA_KERNEL(class_token_grad),
};
static const sl_folding first_folding = {.follows = 1};

const sl_operation sl_op_first_token = {
    .name = "first_token",
    .folding = &first_folding,
    .shape = first_shape,
    .gradient = first_gradient,
    .cost = first_cost,
    .cpu = SL_KERNELS(first_token),
    .cpu_bf16 = SL_KERNELS_BF16(first_token),
    .cuda = SL_CUDA_KERNEL(first_token),
};
const sl_operation sl_op_first_token_grad = {
    .name = "first_token_grad",
    .attr_bytes = sizeof(sl_first_token_attr),
    .shape = first_grad_shape,
    .cpu = SL_KERNELS(first_token_grad),
    .cpu_bf16 = SL_KERNELS_BF16(first_token_grad),
    .cuda = SL_CUDA_KERNEL(first_token_grad),
};

sl_value sl_class_token(sl_graph *graph, const char *layer, sl_value x, double deviation) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  sl_value token =
      sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32,
                      SL_SHAPE(info->shape.dim[info->shape.ndim - 1]), (sl_init){SL_INIT_NORMAL, deviation});
  return sl_graph_add1(graph, &sl_op_class_token, layer, NULL, (sl_value[]){x, token}, 2);
}

sl_value sl_first_token(sl_graph *graph, const char *layer, sl_value x) {
  return sl_graph_add1(graph, &sl_op_first_token, layer, NULL, &x, 1);
}
#endif
