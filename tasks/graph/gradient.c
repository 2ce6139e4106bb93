/* The gradient pass walks the nodes backwards, asks each operation between parameters and loss for the nodes of its
 * gradient, and adds up gradients that reach a value from several uses. */
#include "tasks/graph/gradient.h"

#include <stdlib.h>

#include "tasks/graph/folds.h"

/* Whether v is a sum over samples, made by a backward node, that no node reads yet; its kernel can add to existing
 * values. */
static int open_sum(const sl_graph *graph, int first, sl_value v) {
  const sl_value_info *info = graph->value[v];
  if (info->producer < first || info->scope == sl_node_scope(graph, graph->node[info->producer])) return 0;
  for (int i = first; i < graph->n_nodes; i++)
    for (int k = 0; k < graph->node[i]->n_in; k++)
      if (graph->node[i]->in[k] == v) return 0;
  return 1;
}

/* Number of values (or inputs of one node) whose gradient is v. */
static int times(const sl_value *list, int n, sl_value v) {
  int count = 0;
  for (int i = 0; i < n; i++) count += list[i] == v;
  return count;
}

/* Adds input k's gradient to the gradient that its value has from later uses. Sums over samples (a weight's gradient)
 * continue in the same buffer: the node that makes `more` writes onto `total` instead, so its shards come after all
 * shards of the later use. Other gradients are added by a node of their own. first: the first backward node; of[n]: the
 * values' gradients so far. */
static void add_contribution(sl_graph *graph, int first, sl_value *of, int n, const sl_node *node, int k,
                             const sl_value *din) {
  sl_value *total = &of[node->in[k]], more = din[k];
  if (more == SL_NONE || graph->status != SL_OK) return;
  if (*total == SL_NONE) {
    *total = more;
    return;
  }
  const sl_value_info *a = graph->value[*total], *b = graph->value[more];
  if (a->dtype == b->dtype && sl_shape_equal(&a->shape, &b->shape) && a->scope == b->scope &&
      open_sum(graph, first, *total) && open_sum(graph, first, more) && times(of, n, *total) == 1 &&
      times(of, n, more) == 0 && times(din, node->n_in, more) == 1) {
    sl_node *maker = graph->node[b->producer];
    for (int j = 0; j < maker->n_out; j++)
      if (maker->out[j] == more) {
        maker->out[j] = *total;
        maker->accumulate |= 1u << j;
      }
    return;
  }
  *total = sl_graph_add1(graph, graph->add, node->name, NULL, (sl_value[]){*total, more}, 2);
}

/* The gradients that the folds of a stretch give to the value that they all read. */
typedef struct shared {
  sl_value of, fold[SL_MAX_FOLDS];
  int left; /* number of folds whose gradient is missing */
} shared;

/* Whether the node computes one fold only, but the node that made the value computes several. */
static int is_shared(const sl_graph *graph, const sl_node *node, sl_value v) {
  const int producer = graph->value[v]->producer;
  if (node->fold.to - node->fold.from != 1 || graph->folds == 1 || producer < 0) return 0;
  const sl_run made = graph->node[producer]->fold;
  return made.to - made.from > 1;
}

/* Collects the gradients of input k from all folds. The folds come one after another, from the last one down to fold 0.
 * With the gradient of fold 0, din[k] becomes the sum of all; before, SL_NONE. */
static void collect(sl_graph *graph, const sl_node *node, int k, shared *s, sl_value *din) {
  if (s->left == 0) *s = (shared){.of = node->in[k], .left = graph->folds};
  if (s->of != node->in[k] || node->fold.from != s->left - 1) {
    sl_fail(SL_EINVAL, "the folds of '%s' are not in order", node->name);
    sl_graph_fail(graph, SL_EINVAL, node->name);
    return;
  }
  s->fold[node->fold.from] = din[k];
  s->left--;
  din[k] = s->left ? SL_NONE : sl_fold_sum(graph, node->name, s->fold, 0, graph->folds);
}

sl_status sl_gradient(sl_graph *graph, sl_value loss, const sl_value *parameters, int n, sl_value *gradients) {
  return sl_gradient_seeded(graph, loss, SL_NONE, parameters, n, gradients);
}

sl_status sl_gradient_seeded(sl_graph *graph, sl_value loss, sl_value seed, const sl_value *parameters, int n,
                             sl_value *gradients) {
  SL_TRY(sl_graph_status(graph));
  if (!sl_graph_value(graph, loss)) return sl_fail(SL_EINVAL, "the loss is not a value of this graph");
  int n_values = graph->n_values, n_nodes = graph->n_nodes;
  char *wanted = calloc((size_t)n_values, 1); /* depends on a parameter */
  sl_value *of = malloc((size_t)n_values * sizeof *of);
  int *need = NULL;
  sl_value *din = NULL;
  sl_status status = SL_OK;
  if (!wanted || !of) {
    status = sl_no_memory("for the gradients of %d values", n_values);
    goto out;
  }
  for (int v = 0; v < n_values; v++) of[v] = SL_NONE;
  of[loss] = seed;
  for (int p = 0; p < n; p++) wanted[parameters[p]] = 1;
  int most = 1;
  for (int i = 0; i < n_nodes; i++) {
    const sl_node *node = graph->node[i];
    if (node->n_in > most) most = node->n_in;
    if (!node->op->gradient) continue;
    int any = 0;
    for (int k = 0; k < node->n_in; k++) any |= wanted[node->in[k]];
    for (int k = 0; k < node->n_out && any; k++) wanted[node->out[k]] = 1;
  }
  need = malloc((size_t)most * sizeof *need);
  din = malloc((size_t)most * sizeof *din);
  if (!need || !din) {
    status = sl_no_memory("for the gradients of %d inputs", most);
    goto out;
  }
  const sl_phase before = graph->phase;
  const sl_run whole = graph->fold;
  shared shared = {.left = 0};
  graph->phase = SL_PHASE_BACKWARD;
  for (int i = n_nodes - 1; i >= 0 && graph->status == SL_OK; i--) {
    const sl_node *node = graph->node[i];
    if (!node->op->gradient) continue;
    sl_value dout[SL_MAX_OUT];
    int reached = 0, any = 0;
    for (int k = 0; k < node->n_out; k++) {
      dout[k] = of[node->out[k]];
      reached |= dout[k] != SL_NONE || node->out[k] == loss;
    }
    for (int k = 0; k < node->n_in; k++) {
      need[k] = wanted[node->in[k]];
      din[k] = SL_NONE;
      any |= need[k];
    }
    if (!reached || !any) continue;
    graph->fold = node->fold;
    node->op->gradient(graph, node, dout, need, din);
    for (int k = 0; k < node->n_in; k++) {
      if (!need[k]) continue;
      if (din[k] != SL_NONE && is_shared(graph, node, node->in[k])) collect(graph, node, k, &shared, din);
      add_contribution(graph, n_nodes, of, n_values, node, k, din);
    }
  }
  graph->phase = before;
  graph->fold = whole;
  SL_TRY_OUT(sl_graph_status(graph));
  for (int p = 0; p < n; p++) {
    gradients[p] = of[parameters[p]];
    if (gradients[p] == SL_NONE) {
      status = sl_fail(SL_EINVAL, "parameter '%s' has no gradient: the loss does not depend on it",
                       graph->value[parameters[p]]->name);
      goto out;
    }
  }
out:
  free(wanted);
  free(of);
  free(need);
  free(din);
  return status;
}
