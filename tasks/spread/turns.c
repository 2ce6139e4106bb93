/* Micro-batches: each task gets a turn, and the step graph is sorted by turns, so that few values exist at once. In a
 * pipeline the forward pass of a micro-batch is one turn and its backward pass another one, in the order of stages.h.
 *
 * A task of a leaf has the turn of that leaf; a task that belongs to no leaf (a sum over all leaves, an update) has
 * the last turn. A task moves to an earlier turn if a task of that turn waits for it. The pass goes from the last node
 * to the first: a task's turn is no later than that of any later task that reads what it writes, writes what it reads,
 * or writes the same value. */
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/parts.h"
#include "tasks/spread/stages.h"

static void lower_to(int *bound, int turn) {
  if (turn < *bound) *bound = turn;
}

static int tensor_of(const sl_division *d) { return d->tensor > 1 ? d->tensor : 1; }

/* The turns of each micro-batch: its forward pass, and the rest. Without a pipeline both are one turn. */
static void list_turns(const sl_division *d, int micro_batches, int *forward, int *backward) {
  for (int m = 0; m < micro_batches; m++) forward[m] = backward[m] = m;
  if (d) sl__stage_turns(d->order, d->stages / tensor_of(d), d->stage / tensor_of(d), micro_batches, forward, backward);
}

/* The turn of a message; -1: that of its micro-batch's pass, in which it is sent. The ranks of one stage are in the
 * same pass at the same time, and receive in it what the others send. */
static int turn_of_message(const sl_node *node, const sl_division *d, int parts) {
  const sl__exchange_attr *attr = node->attr;
  const int slot = attr->slot;
  if (slot == SL__EARLY) return 0;
  if (slot == SL__LATE) return 2 * parts - 1;
  const int tensor = tensor_of(d), stage = d->stage / tensor;
  if (node->message == SL_MESSAGE_SENT || attr->move.rank % d->stages / tensor == stage) return -1;
  return sl__stage_turn_after(d->order, d->stages / tensor, stage, parts, slot);
}

sl_status sl__take_turns(sl_graph *g, const sl_plan *plan, sl_leaves mine, const sl_division *d) {
  const int parts = plan->micro_batches, turns = g->turns = d ? 2 * parts : parts;
  if (turns == 1) return SL_OK;
  int *forward = malloc((size_t)parts * sizeof *forward), *backward = malloc((size_t)parts * sizeof *backward);
  int *read = malloc(((size_t)g->n_values + 1) * sizeof *read),
      *written = malloc(((size_t)g->n_values + 1) * sizeof *written);
  sl_node **order = malloc(((size_t)g->n_nodes + 1) * sizeof *order);
  if (!forward || !backward || !read || !written || !order) {
    free(forward), free(backward), free(read), free(written), free(order);
    return sl_no_memory("for %d micro-batches", turns);
  }
  list_turns(d, parts, forward, backward);
  const sl_node *early = NULL;
  for (sl_value v = 0; v < g->n_values; v++)
    read[v] = written[v] = turns; /* the earliest turn of a later node that reads or writes v */
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    sl_node *node = g->node[i];
    int *turn = &node->turn;
    const int part = node->leaf < 0 ? parts - 1 : (int)((int64_t)(node->leaf - mine.first) * parts / mine.n);
    const int sent = node->message ? turn_of_message(node, d, parts) : -1;
    *turn = sent >= 0        ? sent
            : node->leaf < 0 ? turns - 1
                             : (node->phase == SL_PHASE_FORWARD ? forward : backward)[part];
    for (int k = 0; k < node->n_in; k++) lower_to(turn, written[node->in[k]]);
    for (int k = 0; k < node->n_out; k++) {
      lower_to(turn, read[node->out[k]]);
      lower_to(turn, written[node->out[k]]);
    }
    for (int k = 0; k < node->n_in; k++) lower_to(&read[node->in[k]], *turn);
    for (int k = 0; k < node->n_out; k++) lower_to(&written[node->out[k]], *turn);
    if (node->after != SL_NONE) lower_to(&read[node->after], *turn);
    node->micro_batch = d ? part : *turn;
    if (sent > *turn && !early) early = node;
    if (d && node->bucket && !node->message) /* sums that a pass needs come before those at the end */
      ((sl__exchange_attr *)node->attr)->slot = *turn < turns - 1 ? SL__EARLY : SL__LATE;
  }
  sl_status status = SL_OK;
  if (early)
    SL_TRY_OUT(
        sl_blame(sl_fail(SL_EINVAL,
                         "layer '%s' needs a sum over all samples before the passes of a pipeline have ended: this "
                         "model cannot be one",
                         early->name),
                 "mesh"));
  int n = 0;
  for (int turn = 0; turn < turns; turn++)
    for (int i = 0; i < g->n_nodes; i++)
      if (g->node[i]->turn == turn) order[n++] = g->node[i];
  memcpy(g->node, order, (size_t)n * sizeof *order);
  for (int i = 0, bucket = 0; i < n; i++)
    if (g->node[i]->bucket) g->node[i]->bucket = ++bucket;
  for (sl_value v = 0; v < g->n_values; v++) g->value[v]->producer = -1;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < g->node[i]->n_out; k++) {
      sl_value_info *info = g->value[g->node[i]->out[k]];
      if (info->producer < 0 && info->role == SL_ROLE_TEMPORARY) info->producer = i;
    }
out:
  free(forward), free(backward), free(read), free(written), free(order);
  return status;
}
