/* Micro-batches: each task gets a turn, and the step graph is sorted by turns, so that few values exist at once.
 *
 * A task of a leaf has the turn of that leaf; a task that belongs to no leaf (a sum over all leaves, an update) has
 * the last turn. A task moves to an earlier turn if a task of that turn waits for it. The pass goes from the last node
 * to the first: a task's turn is no later than that of any later task that reads what it writes, writes what it reads,
 * or writes the same value. */
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/parts.h"

static void lower_to(int *bound, int turn) {
  if (turn < *bound) *bound = turn;
}

sl_status sl__take_turns(sl_graph *g, const sl_plan *plan, sl_leaves mine) {
  const int turns = g->micro_batches = plan->micro_batches;
  if (turns == 1) return SL_OK;
  int *read = malloc(((size_t)g->n_values + 1) * sizeof *read),
      *written = malloc(((size_t)g->n_values + 1) * sizeof *written);
  sl_node **order = malloc(((size_t)g->n_nodes + 1) * sizeof *order);
  if (!read || !written || !order) {
    free(read), free(written), free(order);
    return sl_no_memory("for %d micro-batches", turns);
  }
  for (sl_value v = 0; v < g->n_values; v++)
    read[v] = written[v] = turns; /* the earliest turn of a later node that reads or writes v */
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    sl_node *node = g->node[i];
    int *turn = &node->micro_batch;
    *turn = node->leaf < 0 ? turns - 1 : (int)((int64_t)(node->leaf - mine.first) * turns / mine.n);
    for (int k = 0; k < node->n_in; k++) lower_to(turn, written[node->in[k]]);
    for (int k = 0; k < node->n_out; k++) {
      lower_to(turn, read[node->out[k]]);
      lower_to(turn, written[node->out[k]]);
    }
    for (int k = 0; k < node->n_in; k++) lower_to(&read[node->in[k]], *turn);
    for (int k = 0; k < node->n_out; k++) lower_to(&written[node->out[k]], *turn);
    if (node->after != SL_NONE) lower_to(&read[node->after], *turn);
  }
  int n = 0;
  for (int turn = 0; turn < turns; turn++)
    for (int i = 0; i < g->n_nodes; i++)
      if (g->node[i]->micro_batch == turn) order[n++] = g->node[i];
  memcpy(g->node, order, (size_t)n * sizeof *order);
  for (int i = 0, bucket = 0; i < n; i++)
    if (g->node[i]->bucket) g->node[i]->bucket = ++bucket;
  for (sl_value v = 0; v < g->n_values; v++) g->value[v]->producer = -1;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < g->node[i]->n_out; k++) {
      sl_value_info *info = g->value[g->node[i]->out[k]];
      if (info->producer < 0 && info->role == SL_ROLE_TEMPORARY) info->producer = i;
    }
  free(read), free(written), free(order);
  return SL_OK;
}
