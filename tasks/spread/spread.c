/* The spreading pass: walks the logical graph once. For each node it first makes the transfers that are due, then adds
 * the node's tasks. */
#include "tasks/spread/spread.h"

#include <stdlib.h>

#include "tasks/spread/parts.h"

/* Moves on to a node, or to the end of the step. */
static void move_to(sl__spread *s, int index) {
  s->at = index;
  while (s->due < s->placements->n_transfers && s->placements->transfer[s->due].before < index) s->due++;
}

/* Ends the bucket if the node reads one of its sums or adds to one. */
static sl_status end_awaited_bucket(sl__spread *s, const sl_node *node) {
  int awaited = 0;
  for (int i = 0; i < node->n_in; i++) awaited |= s->waiting[node->in[i]];
  for (int j = 0; j < node->n_out; j++) awaited |= s->waiting[node->out[j]];
  return awaited ? sl__close_bucket(s) : SL_OK;
}

/* Called in front of the first update that waits for readers of a parameter. Exchanges the sums of the backward pass,
 * which also make most of these waits, then adds a node for the remaining waits. */
static sl_status begin_updates(sl__spread *s) {
  int next = s->due;
  if (!s->division || !sl__next_due(s, SL_TRANSFER_WAIT, &next)) return SL_OK;
  SL_TRY(sl__close_bucket(s));
  return sl__add_wait_node(s);
}

/* Every rank adds the exchanges, even if another rank computes the node. */
static sl_status spread_node(sl__spread *s, int index) {
  const sl_node *node = s->from->node[index];
  const int gathers = s->placements->gathers[index];
  const int other_stage = !sl_placement_on(s->placements->computes, index, s->model_rank);
  const int elsewhere = other_stage || sl_placement_elsewhere(s->placements->node[index], s->rank);
  move_to(s, index);
  SL_TRY(sl__complete_sums(s));
  SL_TRY(end_awaited_bucket(s, node));
  SL_TRY(begin_updates(s));
  SL_TRY(sl__send_values(s)); /* before the copies: a message may bring the value that a copy reads */
  SL_TRY(sl__copy_inputs(s));
  if (other_stage || (elsewhere && !gathers)) return SL_OK;
  for (int j = 0; j < node->n_out; j++)
    if (!s->piece[node->out[j]]) SL_TRY(sl__make_pieces(s, node->out[j]));
  if (!gathers) {
    SL_TRY(sl__add_tasks(s, index));
    sl__open_gate(s, index);
    return SL_OK;
  }
  if (s->division) SL_TRY(sl__gather_inputs(s));
  return elsewhere ? SL_OK : sl__add_gathering_tasks(s, index);
}

static sl_status end_step(sl__spread *s) {
  move_to(s, s->from->n_nodes);
  SL_TRY(sl__complete_sums(s));
  SL_TRY(sl__close_bucket(s));
  SL_TRY(sl__send_values(s));
  return sl__copy_parameters(s);
}

/* The leaves of this rank. */
static sl_status find_leaves(const sl_plan *plan, const sl_division *d, sl_leaves *mine) {
  *mine = (sl_leaves){0, plan->leaves};
  if (!d) return SL_OK;
  for (int r = 0; r < d->ranks; r++)
    if (d->first[r + 1] <= d->first[r])
      return sl_fail(SL_EINVAL, "rank %d of %d has none of the plan's %d leaves: use more leaves or fewer ranks", r,
                     d->ranks, plan->leaves);
  if (d->first[0] != 0 || d->first[d->ranks] != plan->leaves)
    return sl_fail(SL_EINVAL, "the ranks have leaves %d to %d, but the plan has %d", d->first[0],
                   d->first[d->ranks] - 1, plan->leaves);
  *mine = (sl_leaves){d->first[d->rank], d->first[d->rank + 1] - d->first[d->rank]};
  return SL_OK;
}

static sl_status check(const sl_graph *logical, const sl_plan *plan, const sl_division *d, const sl_placements *p,
                       sl_leaves *mine) {
  const int ranks = d ? d->ranks : 1;
  SL_TRY(sl_graph_status(logical));
  if (logical->batch != plan->batch)
    return sl_fail(SL_EINVAL, "the graph has a batch of %lld samples, but the plan %lld", (long long)logical->batch,
                   (long long)plan->batch);
  SL_TRY(find_leaves(plan, d, mine));
  if (plan->micro_batches > mine->n)
    return sl_fail(SL_EINVAL, "%d micro-batches on a rank with only %d of the %d leaves: use more leaves",
                   plan->micro_batches, mine->n, plan->leaves);
  if (p && p->ranks != ranks)
    return sl_fail(SL_EINVAL, "values are placed on %d ranks, and %d ranks divide the leaves", p->ranks, ranks);
  return SL_OK;
}

static sl_status walk(sl__spread *s) {
  const sl_graph *g = s->from;
  SL_TRY(sl_row_blocks(g, s->plan, s->blocks));
  for (int i = 0; i < s->placements->n_transfers; i++)
    if (s->placements->transfer[i].kind == SL_TRANSFER_SUM) s->partial[s->placements->transfer[i].value] = 1;
  for (int i = 0; i < s->placements->n_transfers; i++)
    if (s->placements->transfer[i].fetched) s->fetches[s->placements->transfer[i].since] = 1;
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role != SL_ROLE_TEMPORARY && !sl_placement_elsewhere(s->placements->value[v], s->rank) &&
        sl_placement_on(s->placements->keeps, v, s->model_rank))
      SL_TRY(sl__make_pieces(s, v));
  for (int i = 0; i < g->n_nodes; i++) SL_TRY(spread_node(s, i));
  SL_TRY(end_step(s));
  return sl__take_turns(s);
}

sl_status sl_spread(const sl_graph *logical, const sl_plan *plan, const sl_division *division,
                    const sl_placements *placements, sl_graph **step) {
  sl_leaves mine;
  sl_placements *everywhere = NULL;
  *step = NULL;
  SL_TRY(check(logical, plan, division, placements, &mine));
  if (!placements)
    SL_TRY(sl_placements_create(logical, &(sl_placing){.ranks = division ? division->ranks : 1}, &everywhere));
  if (!placements) placements = everywhere;
  const size_t n = (size_t)logical->n_values + 1;
  sl__spread s = {.from = logical,
                  .plan = plan,
                  .placements = placements,
                  .division = division && division->ranks > 1 ? division : NULL,
                  .rank = division ? division->rank : 0,
                  .model_rank = division ? division->model_rank : 0,
                  .model_ranks = division && division->model_ranks > 1 ? division->model_ranks : 1,
                  .tensor = division && division->tensor > 1 ? division->tensor : 1,
                  .mine = mine,
                  .per_leaf = plan->shards / plan->leaves,
                  .to = sl_graph_create(plan->batch, logical->copy, logical->add, logical->convert),
                  .blocks = malloc(n * sizeof(int)),
                  .piece = calloc(n, sizeof(sl_value *)),
                  .copy = calloc(n, sizeof(sl_value *)),
                  .partial = calloc(n, 1),
                  .waiting = calloc(n, 1),
                  .fetches = calloc((size_t)logical->n_nodes + 1, 1),
                  .released = calloc((size_t)placements->n_transfers + 1, 1),
                  .gate = SL_NONE};
  sl_status status = SL_OK;
  s.subtrees = sl_subtrees(plan->leaves, mine, s.subtree);
  if (!s.to || !s.blocks || !s.piece || !s.copy || !s.partial || !s.waiting || !s.released || !s.fetches)
    SL_TRY_OUT(sl_no_memory("to spread a graph of %d nodes", logical->n_nodes));
  if (s.model_ranks > 1)
    SL_TRY_OUT(sl__timetable_create(division->pipe.order, s.model_ranks / s.tensor,
                                    division->pipe.chunks > 1 && s.model_ranks > s.tensor ? division->pipe.chunks : 1,
                                    plan->micro_batches, &s.passes));
  SL_TRY_OUT(walk(&s));
  *step = s.to;
  s.to = NULL;
out:
  for (sl_value v = 0; s.piece && v < logical->n_values; v++) free(s.piece[v]);
  for (sl_value v = 0; s.copy && v < logical->n_values; v++) free(s.copy[v]);
  free(s.blocks), free(s.piece), free(s.copy), free(s.partial), free(s.waiting), free(s.released), free(s.bucket.item);
  free(s.fetches);
  sl__timetable_destroy(s.passes);
  sl_graph_destroy(s.to);
  sl_placements_destroy(everywhere);
  return status;
}

sl_value sl_spread_whole(const sl_graph *step, sl_value logical) {
  for (sl_value v = 0; v < step->n_values; v++)
    if (step->value[v]->logical == logical && step->value[v]->leaf < 0 && step->value[v]->block <= 0) return v;
  return SL_NONE;
}
