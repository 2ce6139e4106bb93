/* class_sums: the contribution of a fold of the classes (tasks/graph/folds.h) to the cross-entropy of each row. For
 * each row it gives three numbers in double: the log of the sum of exponentials of the fold's logits; the logit of the
 * target, or 0 if the target is a class of another fold; and the sum of the fold's logits. Rows without a target have
 * zeros. add_class_sums joins two folds; class_loss computes the loss from the class_sums of all folds.
 *
 * The gradient by a logit x is dsums[0] exp(x - sums[0]) + dsums[2], plus dsums[1] at the target. */
#include "codelets/attributes.h"
#include "codelets/losses/classes.h"
#include "codelets/losses/rows.h"

SL_KERNEL_DECLARE(class_sums);
SL_KERNEL_DECLARE(class_sums_grad);

static int64_t first_class(const sl_call *c) { return ((const sl_classes_attr *)c->attr)->from; }

/* A tile is a run of rows. */
static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = sl__classes(c), first = first_class(c);
  const int32_t *target = c->in[1].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    const sl_real *x = (const sl_real *)c->in[0].data + i * V;
    double *sums = (double *)c->out[0].data + i * SL_CLASS_SUMS;
    const int64_t aim = target[i] - first;
    memset(sums, 0, SL_CLASS_SUMS * sizeof *sums);
    if (target[i] < 0) continue;
    sums[0] = sl__log_sum_exp(x, V);
    if (aim >= 0 && aim < V) sums[1] = (double)sl_get(x + aim);
    sums[2] = sl__row_sum(x, V);
  }
}

/* logits [B, ..., V], targets [B, ...] -> F64 [B, ..., 3]. */
sl_status SL_KERNEL(class_sums)(const sl_call *c) {
  SL_TRY(sl__targets_check(c, ((const sl_classes_attr *)c->attr)->all));
  sl_team_for(c->team, sl__row_tiles(c), forward, (void *)c);
  return SL_OK;
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = sl__classes(c), first = first_class(c);
  const int32_t *target = c->in[1].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    const double *sums = (const double *)c->in[2].data + i * SL_CLASS_SUMS,
                 *dsums = (const double *)c->in[3].data + i * SL_CLASS_SUMS;
    sl_real *dx = (sl_real *)c->out[0].data + i * V;
    if (target[i] < 0)
      memset(dx, 0, (size_t)V * sizeof *dx);
    else
      sl__row_slopes((const sl_real *)c->in[0].data + i * V, V, target[i] - first, sums[0], dsums[0], (float)-dsums[2],
                     (float)-dsums[1], dx);
  }
}

/* logits, targets, sums, dsums -> dlogits. */
sl_status SL_KERNEL(class_sums_grad)(const sl_call *c) {
  sl_team_for(c->team, sl__row_tiles(c), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(class_sums);
SL_CUDA_DECLARE(class_sums_grad);

sl_status sl__classes_check(const sl_value_info *const *in) {
  const sl_shape *x = &in[0]->shape, *target = &in[1]->shape;
  if (in[1]->dtype == SL_I32 && x->ndim == target->ndim + 1 &&
      !memcmp(x->dim, target->dim, (size_t)target->ndim * sizeof *x->dim))
    return SL_OK;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  return sl_fail(SL_ESHAPE, "logits %s and targets %s %s: targets are I32, with one dimension less",
                 sl_shape_text(x, a, sizeof a), sl_dtype_name(in[1]->dtype), sl_shape_text(target, b, sizeof b));
}

sl_status sl__loss_check(double smoothing, const sl_value_info *count) {
  char text[SL_SHAPE_TEXT];
  if (!(smoothing >= 0 && smoothing <= 1))
    return sl_fail(SL_EINVAL, "label smoothing of %g: it must be from 0 to 1", smoothing);
  if (count->dtype == SL_F64 && sl_shape_count(&count->shape) == 1) return SL_OK;
  return sl_fail(SL_ESHAPE, "the number of targets is F64 [1], not %s %s", sl_dtype_name(count->dtype),
                 sl_shape_text(&count->shape, text, sizeof text));
}

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  SL_TRY(sl__classes_check(in));
  out[0].shape = in[1]->shape;
  out[0].shape.dim[out[0].shape.ndim++] = SL_CLASS_SUMS;
  out[0].dtype = SL_F64;
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 20 * (double)sl_shape_count(&c->in[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_value in[] = {node->in[0], node->in[1], node->out[0], dout[0]};
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_class_sums_grad, node->name, node->attr, in, 4);
}

const sl_operation sl_op_class_sums = {
    .name = "class_sums",
    .attr_bytes = sizeof(sl_classes_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(class_sums),
    .cpu_bf16 = SL_KERNELS_BF16(class_sums),
    .cuda = SL_CUDA_KERNEL(class_sums),
};
const sl_operation sl_op_class_sums_grad = {
    .name = "class_sums_grad",
    .attr_bytes = sizeof(sl_classes_attr),
    .shape = grad_shape,
    .cost = cost,
    .cpu = SL_KERNELS(class_sums_grad),
    .cpu_bf16 = SL_KERNELS_BF16(class_sums_grad),
    .cuda = SL_CUDA_KERNEL(class_sums_grad),
    .inplace = {1},
};

sl_classes_attr sl__classes_of(const sl_graph *graph, const sl_value *fold, int f) {
  sl_classes_attr attr = {0};
  for (int k = 0; k < graph->folds; k++) {
    const sl_shape *x = &sl_graph_value(graph, fold[k])->shape;
    if (k == f) attr.from = attr.all;
    attr.all += x->dim[x->ndim - 1];
  }
  return attr;
}

/* Returns the sums that another reduction of the same logits has already added; SL_NONE: there are none. */
static sl_value added(const sl_graph *graph, sl_value first, sl_value targets) {
  sl_value sums = SL_NONE;
  for (int i = 0; i < graph->n_nodes; i++) {
    const sl_node *node = graph->node[i];
    if (node->op == &sl_op_class_sums && node->in[0] == first && node->in[1] == targets) sums = node->out[0];
    if (node->op == &sl_op_add_class_sums && node->in[0] == sums) sums = node->out[0];
  }
  return sums;
}

sl_value sl__class_sums(sl_graph *graph, const char *layer, const sl_value *fold, sl_value targets) {
  const sl_value before = added(graph, fold[0], targets);
  if (before != SL_NONE) return before;
  sl_value sums[SL_MAX_FOLDS];
  const sl_run whole = graph->fold;
  for (int f = 0; f < graph->folds; f++) {
    const sl_classes_attr attr = sl__classes_of(graph, fold, f);
    graph->fold = (sl_run){f, f + 1};
    sums[f] = sl_graph_add1(graph, &sl_op_class_sums, layer, &attr, (sl_value[]){fold[f], targets}, 2);
  }
  graph->fold = whole;
  return sl_fold_tree(graph, &sl_op_add_class_sums, layer, sums, 0, graph->folds);
}
#endif
