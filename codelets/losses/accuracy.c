/* accuracy: the number of targets among the k largest logits of their rows. Of equal logits the smaller index comes
 * first; a row with a NaN never counts. The place of a target is the number of logits that come before it, so one pass
 * is enough for any k. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda_sums.h"
#include "codelets/losses/classes.h"
#include "codelets/losses/rows.h"

SL_KERNEL_DECLARE(accuracy);

/* A tile is a run of rows. */
static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = sl__classes(c);
  const int32_t *target = c->in[1].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  int64_t hits = 0;
  for (int64_t i = r.from; i < r.to; i++) {
    if (target[i] < 0 || target[i] >= V) continue;
    const sl_real *x = (const sl_real *)c->in[0].data + i * V;
    const int64_t before = sl__row_before(x, V, sl_get(x + target[i]), target[i]);
    hits += before >= 0 && before < ((const sl_accuracy_attr *)c->attr)->k;
  }
  ((double *)c->team->scratch[0])[tile] = (double)hits;
}

sl_status SL_KERNEL(accuracy)(const sl_call *c) {
  sl_team_for(c->team, sl__row_tiles(c), body, (void *)c);
  sl_sum_partials(c, sl__row_tiles(c), 0);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(accuracy);

static size_t scratch(const sl_call *c) { return (size_t)sl__row_tiles(c) * sizeof(double); }
static size_t scratch_cuda(const sl_call *c) { return SL_CUDA_SUM_BYTES + (size_t)sl_shape_count(&c->in[1].shape); }

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const int k = ((const sl_accuracy_attr *)attr)->k;
  if (k < 1) return sl_fail(SL_EINVAL, "the %d largest logits: at least 1 is needed", k);
  SL_TRY(sl__classes_check(in));
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->in[0].shape); }

static void reduce(sl_graph *graph, const sl_node *node, const sl_value *fold, const sl_value *in, sl_value *out) {
  const sl_value sums = sl__class_sums(graph, node->name, fold, in[1]);
  sl_value rank[SL_MAX_FOLDS];
  const sl_run whole = graph->fold;
  for (int f = 0; f < graph->folds; f++) {
    const sl_classes_attr attr = sl__classes_of(graph, fold, f);
    graph->fold = (sl_run){f, f + 1};
    rank[f] = sl_graph_add1(graph, &sl_op_target_rank, node->name, &attr, (sl_value[]){fold[f], in[1], sums}, 3);
  }
  graph->fold = whole;
  const sl_value all = sl_fold_sum(graph, node->name, rank, 0, graph->folds);
  out[0] = sl_graph_add1(graph, &sl_op_count_ranks, node->name, node->attr, (sl_value[]){all, in[1]}, 2);
}
static const sl_folding folding = {.reduce = reduce};

const sl_operation sl_op_accuracy = {
    .name = "accuracy",
    .folding = &folding,
    .attr_bytes = sizeof(sl_accuracy_attr),
    .shape = shape,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(accuracy),
    .cpu_bf16 = SL_KERNELS_BF16(accuracy),
    .cuda = SL_CUDA_KERNEL(accuracy),
};

sl_value sl_accuracy_top(sl_graph *graph, const char *layer, sl_value logits, sl_value targets, int k) {
  return sl_graph_add1(graph, &sl_op_accuracy, layer, &(sl_accuracy_attr){k}, (sl_value[]){logits, targets}, 2);
}

sl_value sl_accuracy(sl_graph *graph, const char *layer, sl_value logits, sl_value targets) {
  return sl_accuracy_top(graph, layer, logits, targets, 1);
}
#endif
