/* The recomputation pass: chooses the values to drop, and adds clones of the nodes that compute them again. */
#include "tasks/graph/recompute.h"

#include <stdlib.h>
#include <string.h>

/* A value this many times smaller than the largest of its segment is kept. */
enum { SMALL = 16 };

const char *const sl_recompute_names[] = {
#define SL_RECOMPUTE_NAME(kind, name) name,
    SL_RECOMPUTE_LIST(SL_RECOMPUTE_NAME)
#undef SL_RECOMPUTE_NAME
        NULL};

typedef struct pass {
  sl_graph *g;
  sl_recompute kind;
  char *given_up;  /* [values before the pass] 1: dropped; computed again in the backward pass */
  sl_value *clone; /* [values before the pass] the clone's value; SL_NONE: not cloned yet */
  sl_node **order; /* the nodes in their new order */
  int n;
} pass;

static int updates(const sl_node *node) {
  for (int j = 0; j < node->n_out; j++)
    if (node->op->update[j]) return 1;
  return 0;
}

/* Marks the values made inside segments, except those read outside and small ones. */
static sl_status choose(pass *p) {
  const sl_graph *g = p->g;
  size_t *largest = calloc((size_t)g->n_segments + 1, sizeof *largest);
  if (!largest) return sl_no_memory("to recompute %d segments", g->n_segments);
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    const int mine = node->segment[p->kind];
    if (node->phase != SL_PHASE_FORWARD || !mine || updates(node)) continue;
    for (int j = 0; j < node->n_out; j++) {
      const size_t bytes = sl_value_bytes(g->value[node->out[j]]);
      if (bytes > largest[mine]) largest[mine] = bytes;
      p->given_up[node->out[j]] = 1;
    }
  }
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in; k++) {
      const sl_value v = node->in[k];
      if (!p->given_up[v]) continue;
      const int home = g->node[g->value[v]->producer]->segment[p->kind];
      if (sl_value_bytes(g->value[v]) * SMALL <= largest[home] ||
          (node->phase == SL_PHASE_FORWARD && node->segment[p->kind] != home))
        p->given_up[v] = 0;
    }
  }
  free(largest);
  return SL_OK;
}

/* Gradients that a clone waits for: one of the reader's fold, and one that belongs to all folds. A clone of other folds
 * waits for the second gradient, because only that one is on all ranks. */
typedef struct arrival {
  sl_value of_fold, whole;
  sl_run fold;
} arrival;

static sl_value awaited_by(const sl_node *node, const arrival *after) {
  return node->fold.from == after->fold.from && node->fold.to == after->fold.to ? after->of_fold : after->whole;
}

/* Returns the clone of v that a backward node reads instead. Clones that read no other clone wait for a gradient. */
static sl_value again(pass *p, sl_value v, const arrival *after) {
  if (!p->given_up[v]) return v;
  if (p->clone[v] != SL_NONE) return p->clone[v];
  const sl_node *node = p->g->node[p->g->value[v]->producer];
  sl_node mine = *node;
  sl_value out[SL_MAX_OUT], *in = malloc(((size_t)node->n_in + 1) * sizeof *in);
  int first = 1;
  if (!in) {
    sl_no_memory("to recompute layer '%s'", node->name);
    sl_graph_fail(p->g, SL_ENOMEM, NULL);
    return SL_NONE;
  }
  for (int k = 0; k < node->n_in; k++) {
    in[k] = again(p, node->in[k], after);
    first &= in[k] == node->in[k];
  }
  for (int j = 0; j < node->n_out; j++) {
    sl_value_info info = *p->g->value[node->out[j]];
    info.logical = p->g->n_values;
    out[j] = sl_graph_push_value(p->g, &info);
    p->clone[node->out[j]] = out[j];
  }
  mine.in = in;
  mine.out = out;
  mine.phase = SL_PHASE_BACKWARD;
  mine.after = first ? awaited_by(node, after) : SL_NONE;
  memset(mine.segment, 0, sizeof mine.segment);
  sl_node *added = sl_graph_push_node(p->g, &mine);
  free(in);
  if (added) p->order[p->n++] = added;
  return p->clone[v];
}

/* The node's first input made by the backward pass, which is a gradient. */
static sl_value arrived(const sl_graph *g, const sl_node *node) {
  for (int k = 0; k < node->n_in; k++) {
    const int producer = g->value[node->in[k]]->producer;
    if (producer >= 0 && g->node[producer]->phase == SL_PHASE_BACKWARD) return node->in[k];
  }
  return SL_NONE;
}

sl_status sl_recompute_segments(sl_graph *g, sl_recompute kind) {
  SL_TRY(sl_graph_status(g));
  if (kind == SL_RECOMPUTE_NONE || g->n_segments == 0) return SL_OK;
  const int n_nodes = g->n_nodes, n_values = g->n_values;
  pass p = {.g = g,
            .kind = kind,
            .given_up = calloc((size_t)n_values + 1, 1),
            .clone = malloc(((size_t)n_values + 1) * sizeof *p.clone),
            .order = malloc(2 * ((size_t)n_nodes + 1) * sizeof *p.order)};
  sl_status status = SL_OK;
  if (!p.given_up || !p.clone || !p.order) {
    status = sl_no_memory("to recompute a graph of %d nodes", n_nodes);
    goto out;
  }
  for (sl_value v = 0; v < n_values; v++) p.clone[v] = SL_NONE;
  SL_TRY_OUT(choose(&p));
  arrival after = {SL_NONE, SL_NONE, g->fold};
  for (int i = 0; i < n_nodes && g->status == SL_OK; i++) {
    sl_node *node = g->node[i];
    if (node->phase == SL_PHASE_BACKWARD) {
      after.of_fold = arrived(g, node);
      after.fold = after.of_fold == SL_NONE ? g->fold : g->node[g->value[after.of_fold]->producer]->fold;
      if (after.fold.to - after.fold.from == g->folds) after.whole = after.of_fold;
    }
    for (int k = 0; k < node->n_in && node->phase == SL_PHASE_BACKWARD; k++)
      if (node->in[k] < n_values) node->in[k] = again(&p, node->in[k], &after);
    p.order[p.n++] = node;
  }
  SL_TRY_OUT(sl_graph_status(g));
  memcpy(g->node, p.order, (size_t)p.n * sizeof *p.order);
  sl_graph_renumber(g);
out:
  free(p.given_up), free(p.clone), free(p.order);
  return status;
}
