/* add_row: y = x + W[row] adds one row of a table to every row of x. BERT embeds the token type in this way, if a text
 * has one type. In the gradient dW, this row is the sum of all rows of dy (in double), and the other rows are zero. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(add_row);
SL_KERNEL_DECLARE(add_row_grad);

static int64_t features(const sl_shape *x) { return x->dim[x->ndim - 1]; }
static int64_t rows_of(const sl_shape *x) { return features(x) ? sl_shape_count(x) / features(x) : 0; }

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = features(&c->out[0].shape);
  const float *w = (const float *)c->in[1].data + ((const sl_add_row_attr *)c->attr)->row * C;
  const sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), rows_of(&c->out[0].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *x = (const sl_real *)c->in[0].data + i * C;
    sl_real *y = (sl_real *)c->out[0].data + i * C;
    SL_IVDEP
    for (int64_t k = 0; k < C; k++) sl_put(y + k, sl_get(x + k) + w[k]);
  }
}

/* x [B, ..., C], W [rows, C] -> y. */
sl_status SL_KERNEL(add_row)(const sl_call *c) {
  const sl_shape *y = &c->out[0].shape;
  sl_team_for(c->team, sl_tiles_of(rows_of(y), sl_tile_rows(c, features(y))), forward, (void *)c);
  return SL_OK;
}

enum { COLUMNS = 64 };

/* A tile is a run of columns, over all rows. */
static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_add_row_attr *attr = c->attr;
  const int64_t C = features(&c->in[0].shape), rows = rows_of(&c->in[0].shape);
  const sl_range r = sl_tile_range(tile, COLUMNS, C);
  const int64_t n = r.to - r.from;
  double sum[COLUMNS] = {0};
  for (int64_t i = 0; i < rows; i++) {
    const sl_real *dy = (const sl_real *)c->in[0].data + i * C + r.from;
    for (int64_t k = 0; k < n; k++) sum[k] += (double)sl_get(dy + k);
  }
  for (int64_t row = 0; row < attr->rows; row++) {
    float *dw = (float *)c->out[0].data + row * C + r.from;
    if (!(c->accumulate & 1)) memset(dw, 0, (size_t)n * sizeof *dw);
    if (row != attr->row) continue;
    for (int64_t k = 0; k < n; k++) dw[k] = (float)((double)dw[k] + sum[k]);
  }
}

/* dy [B, ..., C] -> dW [rows, C]. */
sl_status SL_KERNEL(add_row_grad)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(features(&c->in[0].shape), COLUMNS), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(add_row);
SL_CUDA_DECLARE(add_row_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_add_row_attr *a = attr;
  const sl_shape *x = &in[0]->shape, *W = &in[1]->shape;
  char s[SL_SHAPE_TEXT], t[SL_SHAPE_TEXT];
  if (in[0]->dtype != SL_F32 || in[1]->dtype != SL_F32 || x->ndim < 2 || W->ndim != 2 || W->dim[1] != features(x))
    return sl_fail(SL_ESHAPE, "takes x F32 [B, ..., C] and a table F32 [rows, C], not %s %s and %s %s",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(x, s, sizeof s), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(W, t, sizeof t));
  if (a->row < 0 || a->row >= W->dim[0] || a->rows != W->dim[0])
    return sl_fail(SL_ESHAPE, "row %lld of a table of %lld rows", (long long)a->row, (long long)W->dim[0]);
  out[0].shape = *x;
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(((const sl_add_row_attr *)attr)->rows, features(&in[0]->shape));
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->in[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0]) din[0] = dout[0];
  if (need[1]) din[1] = sl_graph_add1(graph, &sl_op_add_row_grad, node->name, node->attr, dout, 1);
}

const sl_operation sl_op_add_row = {
    .name = "add_row",
    .attr_bytes = sizeof(sl_add_row_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(add_row),
    .cpu_bf16 = SL_KERNELS_BF16(add_row),
    .cuda = SL_CUDA_KERNEL(add_row),
    .inplace = {1},
};

const sl_operation sl_op_add_row_grad = {
    .name = "add_row_grad",
    .attr_bytes = sizeof(sl_add_row_attr),
    .shape = grad_shape,
    .cost = cost,
    .cpu = SL_KERNELS(add_row_grad),
    .cpu_bf16 = SL_KERNELS_BF16(add_row_grad),
    .cuda = SL_CUDA_KERNEL(add_row_grad),
};

sl_value sl_add_row(sl_graph *graph, const char *layer, sl_value x, int64_t rows, int64_t row, double deviation) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  const sl_value W =
      sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32,
                      SL_SHAPE(rows, info->shape.dim[info->shape.ndim - 1]), (sl_init){SL_INIT_NORMAL, deviation});
  return sl_graph_add1(graph, &sl_op_add_row, layer, &(sl_add_row_attr){rows, row}, (sl_value[]){x, W}, 2);
}
#endif
