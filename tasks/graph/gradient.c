/* The gradient pass walks the nodes backwards, asks each operation between parameters and loss for the nodes of its
 * gradient, and adds up gradients that reach a value from several uses. */
#include "tasks/graph/gradient.h"

#include <stdlib.h>
#include <string.h>

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

/* The gradients of parts are joined by this pass (join_parts). */
static int is_differentiable(const sl_graph *graph, const sl_node *node) {
  return node->op->gradient || (graph->part && node->op == graph->part);
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

/* Gradients that come one after another, from the last number down to 0: the gradients that the folds of a stretch give
 * to a value that they all read, or the gradients of a value's parts. */
typedef struct shared {
  sl_value of, fold[SL_MAX_FOLDS];
  int left; /* number of gradients that are missing; 0: not in use */
} shared;

enum { OPEN = 4 }; /* values whose gradients are collected at the same time: a node's inputs */

typedef struct collection {
  shared open[OPEN];
  uint64_t *readers;               /* [values] bit f: forward nodes of fold f read it; needed for parameters */
  sl_value part[SL_MAX_FOLDS], of; /* the parts that were joined last, and the gradient that they make */
  shared *late;                    /* [n_late] collected gradients of parameters */
  int n_late;
} collection;

/* Whether all folds give gradients to the value: the node computes one fold only, but the node that made the value
 * computes several; or it is a parameter that all folds read. */
static int is_shared(const sl_graph *graph, const collection *c, const sl_node *node, sl_value v) {
  const int producer = graph->value[v]->producer;
  if (node->fold.to - node->fold.from != 1 || graph->folds == 1) return 0;
  if (producer < 0) return c->readers[v] == (graph->folds < 64 ? (UINT64_C(1) << graph->folds) - 1 : UINT64_MAX);
  const sl_run made = graph->node[producer]->fold;
  return made.to - made.from > 1;
}

/* Adds gradient number `at` of v to its collection. Returns the collection if it is complete, else NULL. */
static const shared *collect(sl_graph *graph, const sl_node *node, sl_value v, int at, sl_value gradient,
                             collection *c) {
  shared *s = NULL;
  for (int i = 0; i < OPEN; i++)
    if (c->open[i].left && c->open[i].of == v) s = &c->open[i];
  for (int i = 0; i < OPEN && !s; i++)
    if (!c->open[i].left) *(s = &c->open[i]) = (shared){.of = v, .left = graph->folds};
  if (!s || at != s->left - 1) {
    sl_fail(SL_EINVAL, "the folds of '%s' are not in order", node->name);
    sl_graph_fail(graph, SL_EINVAL, node->name);
    return NULL;
  }
  s->fold[at] = gradient;
  return --s->left ? NULL : s;
}

/* Handles a node that takes one part of its input. Once the gradients of all parts are there, sets *din to the gradient
 * of the input, their join; before, to SL_NONE. Values whose parts have the same gradients share one join. */
static void join_parts(sl_graph *graph, const sl_node *node, sl_value dout, collection *c, sl_value *din) {
  const shared *s = collect(graph, node, node->in[0], ((const int *)node->attr)[0], dout, c);
  *din = SL_NONE;
  if (!s) return;
  if (c->of == SL_NONE || memcmp(c->part, s->fold, (size_t)graph->folds * sizeof *s->fold) != 0) {
    memcpy(c->part, s->fold, sizeof c->part);
    graph->fold = (sl_run){0, graph->folds};
    c->of = sl_graph_add1(graph, graph->join, node->name, NULL, s->fold, graph->folds);
  }
  *din = c->of;
}

/* Collects din[k], the gradient that one fold gives to input k. Fold 0 comes last: then din[k] becomes the sum over all
 * folds; before, SL_NONE. If the input was joined from parts, each part gets its part of the sum, and din[k] is
 * SL_NONE. The gradients of a parameter are added up behind all backward nodes (add_late): they are complete after the
 * last sample, so ranks send them after all others. */
static void add_shared(sl_graph *graph, int first, sl_value *of, int n, const sl_node *node, int k, sl_value *din,
                       collection *c) {
  const shared *s = collect(graph, node, node->in[k], node->fold.from, din[k], c);
  const int producer = graph->value[node->in[k]]->producer;
  sl_value part[SL_MAX_FOLDS];
  din[k] = SL_NONE;
  if (!s) return;
  if (producer < 0) {
    c->late[c->n_late++] = *s;
    return;
  }
  if (!graph->join || graph->node[producer]->op != graph->join) {
    din[k] = sl_fold_sum(graph, node->name, s->fold, 0, graph->folds);
    return;
  }
  sl_fold_scatter(graph, node->name, s->fold, part);
  for (int f = 0; f < graph->folds; f++) add_contribution(graph, first, of, n, graph->node[producer], f, part);
}

/* The sums over folds of the gradients of parameters that all folds read, such as a norm's. */
static void add_late(sl_graph *graph, int first, sl_value *of, int n, const collection *c) {
  for (int i = 0; i < c->n_late; i++) {
    const shared *s = &c->late[i];
    const char *name = graph->node[graph->value[s->fold[0]]->producer]->name;
    const sl_node reader = {.name = (char *)name, .in = (sl_value[]){s->of}, .n_in = 1};
    const sl_value sum = sl_fold_sum(graph, name, s->fold, 0, graph->folds);
    add_contribution(graph, first, of, n, &reader, 0, &sum);
  }
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
  collection collected = {.of = SL_NONE,
                          .readers = calloc((size_t)n_values + 1, sizeof *collected.readers),
                          .late = malloc(((size_t)n_nodes + 1) * sizeof *collected.late)};
  int *need = NULL;
  sl_value *din = NULL;
  sl_status status = SL_OK;
  if (!wanted || !of || !collected.readers || !collected.late) {
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
    for (int k = 0; k < node->n_in && node->fold.to - node->fold.from == 1; k++)
      collected.readers[node->in[k]] |= UINT64_C(1) << node->fold.from;
    if (!is_differentiable(graph, node)) continue;
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
  graph->phase = SL_PHASE_BACKWARD;
  for (int i = n_nodes - 1; i >= 0 && graph->status == SL_OK; i--) {
    const sl_node *node = graph->node[i];
    if (!is_differentiable(graph, node)) continue;
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
    if (node->op == graph->part) {
      join_parts(graph, node, dout[0], &collected, din);
      add_contribution(graph, n_nodes, of, n_values, node, 0, din);
      continue;
    }
    node->op->gradient(graph, node, dout, need, din);
    for (int k = 0; k < node->n_in; k++) {
      if (!need[k]) continue;
      if (din[k] != SL_NONE && is_shared(graph, &collected, node, node->in[k]))
        add_shared(graph, n_nodes, of, n_values, node, k, din, &collected);
      add_contribution(graph, n_nodes, of, n_values, node, k, din);
    }
  }
  graph->fold = whole;
  add_late(graph, n_nodes, of, n_values, &collected);
  for (int i = 0; i < OPEN && graph->status == SL_OK; i++)
    if (collected.open[i].left) {
      sl_fail(SL_EINVAL, "%d folds of value '%s' have no gradient", collected.open[i].left,
              graph->value[collected.open[i].of]->name);
      sl_graph_fail(graph, SL_EINVAL, NULL);
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
  free(collected.readers), free(collected.late);
  free(of);
  free(need);
  free(din);
  return status;
}
