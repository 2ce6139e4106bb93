/* Micro-batches: each task gets a turn, and the step graph is sorted by turns, so that few values exist at once. In a
 * pipeline the forward pass of a micro-batch is one turn and its backward pass another one, in the order of
 * timetable.h.
 *
 * A task of a leaf has the turn of that leaf; a task that belongs to no leaf (a sum over all leaves, an update) has
 * the last turn. A task moves to an earlier turn if a task of that turn waits for it. The pass goes from the last node
 * to the first: a task's turn is no later than that of any later task that reads what it writes, writes what it reads,
 * or writes the same value. */
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/parts.h"
#include "tasks/spread/timetable.h"

static void lower_to(int *bound, int turn) {
  if (turn < *bound) *bound = turn;
}

/* The turns of each micro-batch; in a pipeline those of its passes through each run of this stage. turn[kinds of
 * passes][runs][micro-batches]. */
static void list_turns(const sl__spread *s, int *turn) {
  const int parts = s->plan->micro_batches;
  for (int i = 0; i < SL__PASS_KINDS * parts && !s->passes; i++) turn[i] = i % parts;
  if (s->passes) sl__timetable_turns(s->passes, s->model_rank / s->tensor, turn);
}

/* The turn of a message from another stage, or of a message outside of all passes; -1: the message has the turn of the
 * pass in which it is sent. Ranks of one stage are in the same pass at the same time, so they receive each other's
 * messages in this pass. */
static int turn_of_message(const sl__spread *s, const sl_node *node) {
  const sl__exchange_attr *attr = node->attr;
  const int slot = attr->slot;
  if (slot == SL__EARLY) return 0;
  if (slot == SL__LATE) return s->to->turns - 1;
  const int stage = s->model_rank / s->tensor;
  if (node->message == SL_MESSAGE_SENT || attr->move.rank % s->model_ranks / s->tensor == stage) return -1;
  return sl__timetable_turn_after(s->passes, stage, slot);
}

/* The turn of a leaf's task. A node of no run first gets the last turn of the forward or backward passes of its
 * micro-batch; its readers can lower this turn. */
static int turn_of_task(const sl__spread *s, const sl_node *node, int part, const int *turn) {
  const sl__timetable *t = s->passes;
  if (node->message)
    return sl__timetable_turn(t, s->model_rank / s->tensor, ((const sl__exchange_attr *)node->attr)->slot);
  const int ahead = node->phase == SL_PHASE_FORWARD;
  const int run = t && node->logical >= 0 ? s->placements->run[node->logical] : -1;
  const int chunk = run >= 0 ? run / t->stages : t && ahead ? t->chunks - 1 : 0, chunks = t ? t->chunks : 1;
  const sl__pass_kind kind = ahead                                                  ? SL__PASS_FORWARD
                             : run >= 0 && s->placements->deferrable[node->logical] ? SL__PASS_WEIGHTS
                                                                                    : SL__PASS_BACKWARD;
  return turn[(kind * chunks + chunk) * s->plan->micro_batches + part];
}

/* A fetch waits for a task (copies.c), but not if its turn is earlier than the task's. Its turn is the first if this
 * stage computes a lookup with the fetched parameter for another stage before all passes. turn[values]: room for the
 * turns of the writers. */
static void release_fetches(sl_graph *g, int *turn) {
  for (int i = 0; i < g->n_nodes; i++) {
    sl_node *node = g->node[i];
    for (int k = 0; k < node->n_out; k++) turn[node->out[k]] = node->turn;
    if (node->after != SL_NONE && turn[node->after] > node->turn) node->after = SL_NONE;
  }
}

sl_status sl__take_turns(sl__spread *s) {
  sl_graph *g = s->to;
  const sl__timetable *d = s->passes;
  const int parts = s->plan->micro_batches, chunks = d ? d->chunks : 1;
  const int turns = g->turns = d ? sl__timetable_passes(d) : parts;
  if (turns == 1) return SL_OK;
  int *turn_of = malloc((size_t)(SL__PASS_KINDS * chunks * parts) * sizeof *turn_of);
  int *read = malloc(((size_t)g->n_values + 1) * sizeof *read),
      *written = malloc(((size_t)g->n_values + 1) * sizeof *written);
  sl_node **order = malloc(((size_t)g->n_nodes + 1) * sizeof *order);
  if (!turn_of || !read || !written || !order) {
    free(turn_of), free(read), free(written), free(order);
    return sl_no_memory("for %d micro-batches", turns);
  }
  list_turns(s, turn_of);
  const sl_node *early = NULL;
  for (sl_value v = 0; v < g->n_values; v++)
    read[v] = written[v] = turns; /* the earliest turn of a later node that reads or writes v */
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    sl_node *node = g->node[i];
    int *turn = &node->turn;
    const int part = node->leaf < 0 ? parts - 1 : (int)((int64_t)(node->leaf - s->mine.first) * parts / s->mine.n);
    const int sent = node->message ? turn_of_message(s, node) : -1;
    const int last = node->leaf < 0 || *turn == SL__BY_READER;
    *turn = sent >= 0 ? sent : last ? turns - 1 : turn_of_task(s, node, part, turn_of);
    for (int k = 0; k < node->n_in; k++) lower_to(turn, written[node->in[k]]);
    for (int k = 0; k < node->n_out; k++) {
      lower_to(turn, read[node->out[k]]);
      lower_to(turn, written[node->out[k]]);
    }
    for (int k = 0; k < node->n_in; k++) lower_to(&read[node->in[k]], *turn);
    for (int k = 0; k < node->n_out; k++) lower_to(&written[node->out[k]], *turn);
    node->micro_batch = d ? part : *turn;
    if (sent > *turn && !early) early = node;
    /* Sums and copies come before all messages, in the order of the turns that need them, or after all messages. */
    if (d && node->bucket && !node->message)
      ((sl__exchange_attr *)node->attr)->slot = *turn < turns - 1 ? SL__EARLY - (turns - 2 - *turn) : SL__LATE;
  }
  release_fetches(g, written);
  sl_status status = SL_OK;
  if (early)
    SL_TRY_OUT(
        sl_blame(sl_fail(SL_EINVAL,
                         "layer '%s' needs a sum over all samples before the passes of a pipeline have ended: this "
                         "model cannot be divided into pipeline stages",
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
  free(turn_of), free(read), free(written), free(order);
  return status;
}
