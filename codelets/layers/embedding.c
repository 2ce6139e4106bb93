/* embedding: y[i] = W[token i], and its gradient: the rows of dy added up by token, in the order of positions. W may be
 * one fold of a table (tasks/graph/folds.h); tokens of other folds then give zeros. The gradient divides its work by
 * columns. So each element is one chain of additions, for any size of the team and any number of equal tokens. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(embedding);
SL_KERNEL_DECLARE(embedding_grad);

enum {
  CLEAR = 1 << 18, /* elements cleared at once by a thread */
  COLUMNS = 64,    /* columns added up at once by a thread: whole cache lines */
};

static const sl_embedding_attr *attr_of(const sl_call *c) { return c->attr; }
static int64_t features(const sl_array *a) { return a->shape.dim[a->shape.ndim - 1]; }

/* Returns a row of W. W may come in row blocks. */
static const float *row_of(const sl_array *W, int64_t row, int64_t C) {
  int p = 0;
  while (p + 1 < W->parts && W->part[p + 1].row0 <= row) p++;
  return (const float *)W->part[p].data + (row - W->part[p].row0) * C;
}

/* to[k] = from[k], rounded if stored in bf16. */
static void copy(int64_t n, const float *restrict from, sl_real *restrict to) {
  for (int64_t k = 0; k < n; k++) sl_put(to + k, from[k]);
}

/* A tile is a run of positions. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = features(&c->out[0]), rows = attr_of(c)->rows;
  const int32_t *token = c->in[0].data;
  sl_real *y = c->out[0].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, C), sl_shape_count(&c->in[0].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    const int64_t row = token[i] - attr_of(c)->from;
    if (row >= 0 && row < rows)
      copy(C, row_of(&c->in[1], row, C), y + i * C);
    else
      memset(y + i * C, 0, (size_t)C * sizeof *y);
  }
}

/* tokens I32 [B, ...], W [rows, C] -> y [B, ..., C]. */
sl_status SL_KERNEL(embedding)(const sl_call *c) {
  const int64_t n = sl_shape_count(&c->in[0].shape), each = sl_shape_row(&c->in[0].shape), V = attr_of(c)->all;
  const int32_t *token = c->in[0].data;
  for (int64_t i = 0; i < n; i++)
    if (token[i] < 0 || token[i] >= V)
      return sl_fail(SL_EINVAL, "token %d at position %lld of sample %lld is not one of the vocabulary's %lld",
                     (int)token[i], (long long)(i % each), (long long)(c->row0 + i / each), (long long)V);
  sl_team_for(c->team, sl_tiles_of(n, sl_tile_rows(c, features(&c->out[0]))), forward, (void *)c);
  return SL_OK;
}

static void clear(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_range r = sl_tile_range(tile, CLEAR, sl_shape_count(&c->out[0].shape));
  memset((float *)c->out[0].data + r.from, 0, (size_t)(r.to - r.from) * sizeof(float));
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t C = features(&c->in[0]), first = attr_of(c)->from + c->out[0].row0, rows = c->out[0].shape.dim[0];
  const int64_t n = sl_shape_count(&c->in[1].shape);
  const int32_t *token = c->in[1].data;
  sl_range r = sl_tile_range(tile, COLUMNS, C);
  for (int64_t i = 0; i < n; i++) {
    const int64_t row = token[i] - first;
    if (row < 0 || row >= rows) continue;
    const sl_real *dy = (const sl_real *)c->in[0].data + i * C;
    float *dw = (float *)c->out[0].data + row * C;
    SL_IVDEP
    for (int64_t k = r.from; k < r.to; k++) dw[k] += sl_get(dy + k);
  }
}

/* dy [B, ..., C], tokens -> dW, or the rows of dW from row0 on. */
sl_status SL_KERNEL(embedding_grad)(const sl_call *c) {
  if (!(c->accumulate & 1))
    sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), CLEAR), clear, (void *)c);
  sl_team_for(c->team, sl_tiles_of(features(&c->in[0]), COLUMNS), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(embedding);
SL_CUDA_DECLARE(embedding_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_embedding_attr *table = attr;
  const sl_shape *token = &in[0]->shape, *W = &in[1]->shape;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  if (in[0]->dtype != SL_I32 || token->ndim < 1 || token->ndim >= SL_MAX_DIMS || in[1]->dtype != SL_F32 || W->ndim != 2)
    return sl_fail(SL_ESHAPE, "tokens %s %s and table %s %s: takes I32 [B, ...] and F32 [vocabulary, features]",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(token, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(W, b, sizeof b));
  if (table->rows != W->dim[0] || table->from < 0 || table->from + table->rows > table->all)
    return sl_fail(SL_ESHAPE, "table %s cannot be rows %lld to %lld of %lld", sl_shape_text(W, b, sizeof b),
                   (long long)table->from, (long long)(table->from + table->rows), (long long)table->all);
  out[0].shape = *token;
  out[0].shape.dim[out[0].shape.ndim++] = W->dim[1];
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_shape *dy = &in[0]->shape;
  out[0].shape = SL_SHAPE(((const sl_embedding_attr *)attr)->rows, dy->dim[dy->ndim - 1]);
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

/* Only the tokens' rows of W are read. */
static void cost(const sl_call *c, sl_cost *cost) {
  const double y = (double)sl_shape_count(&c->out[0].shape);
  cost->bytes = 4 * (double)sl_shape_count(&c->in[0].shape) + (4 + (double)sl_dtype_bytes(c->out[0].dtype)) * y;
}
static void grad_cost(const sl_call *c, sl_cost *cost) {
  const double added = (double)sl_shape_count(&c->in[0].shape);
  cost->flops = added;
  cost->bytes = (8 + (double)sl_dtype_bytes(c->in[0].dtype)) * added +
                4 * ((double)sl_shape_count(&c->in[1].shape) +
                     (c->accumulate & 1 ? 0 : (double)sl_shape_count(&c->out[0].shape)));
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[1])
    din[1] = sl_graph_add1(graph, &sl_op_embedding_grad, node->name, node->attr, (sl_value[]){dout[0], node->in[0]}, 2);
}

static void cut(void *attr, int64_t from, int64_t to, int64_t all) {
  *(sl_embedding_attr *)attr = (sl_embedding_attr){to - from, from, all};
}
static const sl_folding folding = {.table = 1, .cut = cut};

const sl_operation sl_op_embedding = {
    .name = "embedding",
    .folding = &folding,
    .attr_bytes = sizeof(sl_embedding_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(embedding),
    .cpu_bf16 = SL_KERNELS_BF16(embedding),
    .cuda = SL_CUDA_KERNEL(embedding),
    .all_in = 2,
};
const sl_operation sl_op_embedding_grad = {
    .name = "embedding_grad",
    .attr_bytes = sizeof(sl_embedding_attr),
    .shape = grad_shape,
    .cost = grad_cost,
    .cpu = SL_KERNELS(embedding_grad),
    .cpu_bf16 = SL_KERNELS_BF16(embedding_grad),
    .cuda = SL_CUDA_KERNEL(embedding_grad),
    .map_out = 1,
    .gathers = 1,
};

sl_value sl_embedding(sl_graph *graph, const char *layer, sl_value tokens, int64_t vocabulary, int64_t features,
                      double deviation) {
  sl_value W = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32, SL_SHAPE(vocabulary, features),
                               (sl_init){SL_INIT_NORMAL, deviation});
  return sl_graph_add1(graph, &sl_op_embedding, layer, &(sl_embedding_attr){vocabulary, 0, vocabulary},
                       (sl_value[]){tokens, W}, 2);
}
#endif
