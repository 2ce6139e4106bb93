/* Replaces trees of additions by additions of parts. */
#include "tasks/graph/fold_sums.h"

#include <stdlib.h>
#include <string.h>

#include "tasks/graph/folds.h"

enum { NONE = -1 };

typedef struct pass {
  sl_graph *g;
  int ranks;
  int64_t least;
  int n_values;    /* before the pass */
  int *made;       /* [n_values] the node that makes a value; NONE */
  int *readers;    /* [n_values] how often nodes read it */
  char *inner;     /* [nodes before the pass] 1: adds sums of several ranks, below the last addition */
  char *divided;   /* [nodes before the pass] 1: the last addition of a tree that parts replace */
  sl_node **order; /* the nodes in their new order */
  int n, room;
} pass;

/* The rank that computes a fold. */
static int rank_of(const pass *p, int fold) {
  int rank = 0;
  while (sl_first_fold(p->g->folds, p->ranks, rank + 1) <= fold) rank++;
  return rank;
}

/* A fold that this rank alone computes. */
static sl_run fold_of(const pass *p, int rank) {
  const int first = sl_first_fold(p->g->folds, p->ranks, rank);
  return (sl_run){first, first + 1};
}

static sl_run run_of(const pass *p, sl_value v) {
  return p->made[v] == NONE ? (sl_run){NONE, NONE} : p->g->node[p->made[v]]->fold;
}

/* Whether a node adds the sums of two runs of folds that follow one another. */
static int adds_runs(const pass *p, const sl_node *node) {
  if (node->op != p->g->add) return 0;
  const sl_run a = run_of(p, node->in[0]), b = run_of(p, node->in[1]);
  return a.from == node->fold.from && a.to == b.from && b.to == node->fold.to;
}

static int is_worth(const pass *p, const sl_node *node) {
  const sl_value_info *v = p->g->value[node->out[0]];
  if (node->fold.from > 0 || node->fold.to < p->g->folds || !adds_runs(p, node)) return 0;
  return v->scope == SL_SCOPE_SAMPLE && v->shape.ndim > 2 && v->shape.dim[1] >= p->ranks &&
         sl_shape_row(&v->shape) >= p->least;
}

/* Marks the nodes of an addend's tree that add sums of several ranks. */
static void mark(pass *p, sl_value addend) {
  const int i = p->made[addend];
  const sl_node *node = p->g->node[i];
  if (rank_of(p, node->fold.from) == rank_of(p, node->fold.to - 1) || p->readers[addend] > 1 || !adds_runs(p, node))
    return;
  p->inner[i] = 1;
  mark(p, node->in[0]), mark(p, node->in[1]);
}

static void find_sums(pass *p) {
  const sl_graph *g = p->g;
  for (sl_value v = 0; v < p->n_values; v++) p->made[v] = NONE;
  for (int i = 0; i < g->n_nodes; i++) {
    for (int j = 0; j < g->node[i]->n_out; j++) p->made[g->node[i]->out[j]] = i;
    for (int k = 0; k < g->node[i]->n_in; k++) p->readers[g->node[i]->in[k]]++;
    if (g->node[i]->after != SL_NONE) p->readers[g->node[i]->after]++;
  }
  for (int i = 0; i < g->n_nodes; i++)
    if (is_worth(p, g->node[i])) p->divided[i] = 1, mark(p, g->node[i]->in[0]), mark(p, g->node[i]->in[1]);
}

static void put(pass *p, sl_node *node) {
  if (p->n == p->room) {
    sl_node **more = realloc(p->order, (size_t)(2 * p->room + 64) * sizeof *more);
    if (!more) {
      sl_no_memory("for %d nodes", p->n);
      sl_graph_fail(p->g, SL_ENOMEM, NULL);
      return;
    }
    p->order = more, p->room = 2 * p->room + 64;
  }
  p->order[p->n++] = node;
}

static sl_value add_node(pass *p, const sl_operation *op, const sl_node *sum, sl_run fold, const void *attr,
                         const sl_value *in, int n_in) {
  sl_graph *g = p->g;
  g->fold = fold;
  const sl_value v = sl_graph_add1(g, op, sum->name, attr, in, n_in);
  if (v != SL_NONE) put(p, g->node[g->n_nodes - 1]);
  return v;
}

static sl_value part_of(pass *p, const sl_node *sum, sl_value whole, int rank);

/* Adds up part `rank` of both inputs of a node. */
static sl_value add_parts(pass *p, const sl_node *sum, const sl_node *node, sl_value both[2], int rank) {
  for (int k = 0; k < 2; k++) both[k] = part_of(p, sum, node->in[k], rank);
  return add_node(p, p->g->add, sum, fold_of(p, rank), NULL, both, 2);
}

/* Part `rank` of an addend of the sum. */
static sl_value part_of(pass *p, const sl_node *sum, sl_value whole, int rank) {
  const int attr[] = {rank, p->ranks};
  sl_value both[2];
  sl_node *node = p->g->node[p->made[whole]];
  if (!p->inner[p->made[whole]]) return add_node(p, p->g->part, sum, node->fold, attr, &whole, 1);
  if (rank + 1 < p->ranks) return add_parts(p, sum, node, both, rank);
  /* All other parts have been taken from the node's inputs, so the node itself becomes the addition of the last part.
   */
  for (int k = 0; k < 2; k++) both[k] = part_of(p, sum, node->in[k], rank);
  if (sl_graph_status(p->g) != SL_OK) return SL_NONE;
  memcpy(node->in, both, sizeof both);
  node->fold = fold_of(p, rank);
  p->g->value[whole]->shape = p->g->value[both[0]]->shape;
  put(p, node);
  return whole;
}

static sl_status divide(pass *p, sl_node *sum) {
  sl_graph *g = p->g;
  sl_value *part = malloc((size_t)p->ranks * sizeof *part), both[2];
  if (!part) return sl_no_memory("for %d parts", p->ranks);
  g->phase = sum->phase;
  memcpy(g->segment, sum->segment, sizeof g->segment);
  for (int rank = 0; rank < p->ranks; rank++) part[rank] = add_parts(p, sum, sum, both, rank);
  free(sum->in);
  sum->in = part;
  sum->n_in = sum->n_arg = p->ranks;
  sum->op = g->join;
  put(p, sum);
  return sl_graph_status(g);
}

static sl_status walk(pass *p) {
  sl_graph *g = p->g;
  const sl_phase phase = g->phase;
  const sl_run fold = g->fold;
  const int n_nodes = g->n_nodes;
  for (int i = 0; i < n_nodes && g->status == SL_OK; i++)
    if (p->divided[i])
      SL_TRY(divide(p, g->node[i]));
    else if (!p->inner[i])
      put(p, g->node[i]);
  g->phase = phase;
  g->fold = fold;
  memset(g->segment, 0, sizeof g->segment);
  SL_TRY(sl_graph_status(g));
  memcpy(g->node, p->order, (size_t)p->n * sizeof *p->order);
  sl_graph_renumber(g);
  return SL_OK;
}

sl_status sl_fold_sums_divide(sl_graph *g, int ranks, int64_t least) {
  if (ranks <= 2 || g->folds < ranks || !g->part || !g->join) return SL_OK;
  SL_TRY(sl_graph_status(g));
  const size_t values = (size_t)g->n_values + 1, nodes = (size_t)g->n_nodes + 1;
  pass p = {.g = g,
            .ranks = ranks,
            .least = least,
            .n_values = g->n_values,
            .made = malloc(values * sizeof *p.made),
            .readers = calloc(values, sizeof *p.readers),
            .inner = calloc(nodes, 1),
            .divided = calloc(nodes, 1)};
  sl_status status = SL_OK;
  if (!p.made || !p.readers || !p.inner || !p.divided)
    SL_TRY_OUT(sl_no_memory("to divide the sums of a graph of %d nodes", g->n_nodes));
  find_sums(&p);
  status = walk(&p);
out:
  free(p.made), free(p.readers), free(p.inner), free(p.divided), free(p.order);
  return status;
}
