/* sequence_part: a run of the positions of each sample, x [B, T, ...] -> y [B, to - from, ...]. sequence_join: the runs
 * of all parts, one behind the other. The folding pass (tasks/graph/folds.h) divides samples along their sequence. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(sequence_part);
SL_KERNEL_DECLARE(sequence_join);

/* Bytes of each sample. */
static int64_t sample_bytes(const sl_array *a) { return sl_shape_row(&a->shape) * (int64_t)sl_dtype_bytes(a->dtype); }

static int64_t tiles(const sl_call *c) { return sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements); }

/* Bytes [from, to) of the output, sample by sample. */
static sl_range bytes_of(const sl_call *c, int64_t tile) {
  const int64_t size = (int64_t)sl_dtype_bytes(c->out[0].dtype);
  const sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  return (sl_range){r.from * size, r.to * size};
}

static void part(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t each = sample_bytes(&c->out[0]), all = sample_bytes(&c->in[0]);
  const int64_t first = sl_sequence_from(c->attr, c->in[0].shape.dim[1]) * (all / c->in[0].shape.dim[1]);
  const sl_range r = bytes_of(c, tile);
  for (int64_t at = r.from, n; at < r.to; at += n) {
    const int64_t sample = at / each, off = at % each;
    n = sl_min64(each - off, r.to - at);
    memcpy((char *)c->out[0].data + at, (const char *)c->in[0].data + sample * all + first + off, (size_t)n);
  }
}

sl_status SL_KERNEL(sequence_part)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), part, (void *)c);
  return SL_OK;
}

static void join(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t all = sample_bytes(&c->out[0]);
  const sl_range r = bytes_of(c, tile);
  for (int64_t at = r.from, n; at < r.to; at += n) {
    const int64_t sample = at / all;
    int64_t off = at % all;
    int k = 0;
    for (; off >= sample_bytes(&c->in[k]); k++) off -= sample_bytes(&c->in[k]);
    const int64_t each = sample_bytes(&c->in[k]);
    n = sl_min64(each - off, r.to - at);
    memcpy((char *)c->out[0].data + at, (const char *)c->in[k].data + sample * each + off, (size_t)n);
  }
}

sl_status SL_KERNEL(sequence_join)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), join, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(sequence_part);
SL_CUDA_DECLARE(sequence_join);

static sl_status part_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_sequence_attr *a = attr;
  char text[SL_SHAPE_TEXT];
  if (in[0]->scope != SL_SCOPE_SAMPLE || in[0]->shape.ndim < 3)
    return sl_fail(SL_ESHAPE, "takes samples that are sequences [B, T, ...], not %s",
                   sl_shape_text(&in[0]->shape, text, sizeof text));
  if (a->part < 0 || a->part >= a->parts || a->parts > in[0]->shape.dim[1])
    return sl_fail(SL_ESHAPE, "part %d of %d of %lld positions", a->part, a->parts, (long long)in[0]->shape.dim[1]);
  out[0].shape = in[0]->shape;
  out[0].shape.dim[1] = sl_sequence_to(a, in[0]->shape.dim[1]) - sl_sequence_from(a, in[0]->shape.dim[1]);
  out[0].dtype = in[0]->dtype;
  return SL_OK;
}

static void part_cost(const sl_call *c, sl_cost *cost) {
  cost->bytes = 2 * (double)(c->out[0].shape.dim[0] * sample_bytes(&c->out[0]));
}

const sl_operation sl_op_sequence_part = {
    .name = "sequence_part",
    .attr_bytes = sizeof(sl_sequence_attr),
    .shape = part_shape,
    .cost = part_cost,
    .cpu = SL_KERNELS(sequence_part),
    .cuda = SL_CUDA_KERNEL(sequence_part),
    .any_dtype = 1,
};

static sl_status join_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].dtype = in[0]->dtype;
  for (int k = 0; k < n_in; k++) {
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    sl_shape same = in[k]->shape;
    if (same.ndim < 3)
      return sl_fail(SL_ESHAPE, "joins sequences [B, T, ...], not %s", sl_shape_text(&same, a, sizeof a));
    same.dim[1] = in[0]->shape.dim[1];
    if (!sl_shape_equal(&same, &in[0]->shape) || in[k]->dtype != in[0]->dtype)
      return sl_fail(SL_ESHAPE, "%s %s and %s %s do not fit together", sl_dtype_name(in[0]->dtype),
                     sl_shape_text(&in[0]->shape, a, sizeof a), sl_dtype_name(in[k]->dtype),
                     sl_shape_text(&in[k]->shape, b, sizeof b));
    if (k > 0) out[0].shape.dim[1] += in[k]->shape.dim[1];
  }
  return SL_OK;
}

/* Each part of the gradient is computed by the ranks that have this part. */
static void join_gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_run all = graph->fold;
  for (int k = 0; k < node->n_in; k++) {
    if (!need[k]) continue;
    if (graph->folds == node->n_in) graph->fold = (sl_run){k, k + 1};
    din[k] = sl_graph_add1(graph, &sl_op_sequence_part, node->name, &(sl_sequence_attr){k, node->n_in}, dout, 1);
  }
  graph->fold = all;
}

const sl_operation sl_op_sequence_join = {
    .name = "sequence_join",
    .shape = join_shape,
    .gradient = join_gradient,
    .cpu = SL_KERNELS(sequence_join),
    .cuda = SL_CUDA_KERNEL(sequence_join),
    .any_dtype = 1,
};
#endif
