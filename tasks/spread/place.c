/* The pass that gives every value its placement and finds the transfers between the ranks (placement.h).
 *
 * A value changes its placement during a step. Right after its last writer it has the placement sl_placements.made. It
 * gets the placement sl_placements.value when it is complete (a sum over the ranks) or at the end of the step (a
 * parameter that one rank has updated). Before each reader a transfer brings it to the placement that the reader
 * needs. */
#include <stdlib.h>
#include <string.h>

#include "tasks/graph/masks.h"
#include "tasks/spread/owners.h"
#include "tasks/spread/placement.h"
#include "tasks/spread/stages.h"

/* The placements that a node needs and makes, by the ranks that compute it and by whether the value has WHOLE scope.
 * Operations do not know ranks: placements follow from scopes. OWNED: by the rank that computes the node. */
static const struct rule {
  sl_place_kind needs, makes;
} rules[SL_PLACE_KINDS][2] = {
    [SL_PLACE_BY_SAMPLE] = {{SL_PLACE_BY_SAMPLE, SL_PLACE_BY_SAMPLE}, {SL_PLACE_REPLICATED, SL_PLACE_PARTIAL}},
    [SL_PLACE_REPLICATED] = {{SL_PLACE_REPLICATED, SL_PLACE_REPLICATED}, {SL_PLACE_REPLICATED, SL_PLACE_REPLICATED}},
    [SL_PLACE_OWNED] = {{SL_PLACE_OWNED, SL_PLACE_OWNED}, {SL_PLACE_OWNED, SL_PLACE_OWNED}},
};

enum { NONE = -1 };
/* What a value depends on: on inputs of the step alone (INPUTS), on parameters and no samples (PARAMETERS), on both
 * through one node (LOOKUP), or on anything else (MORE). Values of the first two kinds can be sent before the first
 * pass, and so can lookups. */
enum { INPUTS, PARAMETERS, LOOKUP, MORE };

typedef struct walk {
  const sl_graph *g;
  sl_placements *p;
  sl_placement *have; /* [values] placement at this point of the graph */
  char *written;      /* [values] 1: already written */
  int *last;          /* [values] the last node that adds to it, gathering nodes aside; NONE */
  int *last_read;     /* [values] the last node before the update phase that reads it; NONE */
  int *turn;          /* [values] index in p->owned */
  int *order;         /* [transfers] order among transfers due at the same node */
  const sl_placing *how;
  int *writer;    /* [values] the last node so far that writes it; NONE */
  char *copied;   /* [values] 1: a copy in 16 bits of a parameter that one rank has; that rank makes it */
  size_t *used;   /* [values] bytes fetched before its last use */
  size_t fetched; /* bytes fetched so far */
  int fetching;   /* the last node for which values were fetched; fetched_before: the one before; NONE */
  int fetched_before;
  int first_update;      /* node */
  int most;              /* transfers allocated */
  char *made_of;         /* [values] what it depends on: INPUTS ... */
  sl_rank_set *on;       /* [values] model ranks that have it at this point; NULL: one */
  sl_rank_set *gathered; /* [values] model ranks that have the samples of all ranks */
  sl_rank_set *copies;   /* [values] model ranks with copies of the owner's value on all their ranks; 0: not copied */
  sl_placement *source;  /* [values] for a copied value: the owner's placement, from which it is copied */
} walk;

static sl_placement placed(sl_place_kind kind, int rank) {
  return (sl_placement){kind, kind == SL_PLACE_OWNED ? rank : NONE};
}

static sl_placement owned_or_replicated(int owner) {
  return placed(owner == NONE ? SL_PLACE_REPLICATED : SL_PLACE_OWNED, owner);
}

static const struct rule *rule_of(const walk *w, int node, sl_value v) {
  return &rules[w->p->node[node].kind][w->g->value[v]->scope == SL_SCOPE_WHOLE];
}

static sl_status record(walk *w, const sl_transfer *transfer, int order) {
  sl_placements *p = w->p;
  if (p->n_transfers == w->most) {
    const int wanted = w->most ? 2 * w->most : 64;
    sl_transfer *more = realloc(p->transfer, (size_t)wanted * sizeof *more);
    if (more) p->transfer = more;
    int *orders = realloc(w->order, (size_t)wanted * sizeof *orders);
    if (orders) w->order = orders;
    if (!more || !orders) return sl_no_memory("for %d transfers", wanted);
    w->most = wanted;
  }
  w->order[p->n_transfers] = order;
  p->transfer[p->n_transfers++] = *transfer;
  return SL_OK;
}

/* Whether a value is a parameter, or state that no node of this graph writes (in an evaluation). */
static int is_kept(const walk *w, sl_value v) {
  return w->g->value[v]->role == SL_ROLE_PARAMETER || (w->g->value[v]->role == SL_ROLE_STATE && w->last[v] == NONE);
}

/* Whether other ranks fetch the value when they use it, since only its owner keeps it (ZeRO 3). */
static int is_fetched(const walk *w, sl_value v) {
  return w->p->value[v].kind == SL_PLACE_OWNED && (is_kept(w, v) || w->copied[v]);
}

/* Ends the life of the other ranks' copies of a fetched value: where its owner overwrites it, and where so much is
 * fetched between two uses that keeping it would need more memory than fetching it again. */
static void drop_copies(walk *w, sl_value v, sl_placement need) {
  if (!is_fetched(w, v) || w->have[v].kind != SL_PLACE_REPLICATED) return;
  if (need.kind == SL_PLACE_OWNED || (w->how->window && w->fetched - w->used[v] > w->how->window))
    w->have[v] = w->p->value[v], w->copies[v] = 0;
}

/* A copy is fetched one fetch ahead, so that it moves while the tasks before its reader run. Exchanges keep their
 * order: an exchange right in front of its reader would also wait for the sums before it. A message that brings the
 * value from another stage is due before: see send. */
static void fetch(walk *w, int node, sl_value v, sl_transfer *t) {
  if (w->fetching != node) w->fetched_before = w->fetching, w->fetching = node;
  t->fetched = 1;
  t->since = node;
  t->before = w->fetched_before == NONE ? node : w->fetched_before;
  if (t->before <= w->writer[v]) t->before = w->writer[v] + 1;
  w->fetched += sl_value_bytes(w->g->value[v]);
}

static sl_rank_set model_ranks_of(const walk *w, int node) { return w->on ? w->p->computes[node] : 1; }

/* If other model ranks have gathered the value before, this one gathers it too: each gathers for itself. */
static sl_status gather_again(walk *w, int node, sl_value v, sl_placement need, int before) {
  const sl_rank_set left = model_ranks_of(w, node) & ~w->gathered[v];
  if (!w->gathered[v] || !left || need.kind == SL_PLACE_BY_SAMPLE) return SL_OK;
  const sl_transfer t = {.kind = SL_TRANSFER_GATHER,
                         .value = v,
                         .have = placed(SL_PLACE_BY_SAMPLE, NONE),
                         .need = need,
                         .before = before,
                         .since = before,
                         .members = left};
  w->gathered[v] |= left;
  return record(w, &t, w->p->n_owned + w->p->n_transfers);
}

/* Adds a copy of the owner's value to all ranks of the model ranks that compute a node, except those with a copy. Each
 * model rank copies from its own rank that owns the value. */
static sl_status copy(walk *w, int node, sl_value v, sl_placement need, int before) {
  const sl_rank_set left = model_ranks_of(w, node) & ~w->copies[v];
  sl_transfer t = {.kind = SL_TRANSFER_COPY,
                   .value = v,
                   .have = w->source[v],
                   .need = need,
                   .before = before,
                   .since = before,
                   .members = left};
  if (!left) return SL_OK;
  if (is_fetched(w, v)) fetch(w, node, v, &t);
  w->copies[v] |= left;
  return record(w, &t, w->p->n_owned + w->p->n_transfers);
}

/* Adds the transfer that gives a value the placement that `node` needs, due in front of node `before`. */
static sl_status bring(walk *w, int node, sl_value v, sl_placement need, unsigned access, int before) {
  SL_TRY(gather_again(w, node, v, need, before));
  drop_copies(w, v, need);
  const sl_placement have = w->have[v];
  const sl_transition *row = sl_transition_find(have, need, access);
  if (!row)
    return sl_fail(SL_EINVAL,
                   "layer '%s' (%s): no exchange brings value '%s' from %s to %s: add a row to the table in "
                   "tasks/spread/placement.c",
                   w->g->node[node]->name, w->g->node[node]->op->name, w->g->value[v]->name,
                   sl_placement_text(have, (char[SL_PLACEMENT_TEXT]){0}),
                   sl_placement_text(need, (char[SL_PLACEMENT_TEXT]){0}));
  if (row->kind == SL_TRANSFER_NONE && have.kind == SL_PLACE_REPLICATED && need.kind == have.kind && w->copies[v])
    return copy(w, node, v, need, before); /* for model ranks that have no copy yet */
  if (row->kind == SL_TRANSFER_NONE) return SL_OK;
  w->have[v] = placed(row->after, need.rank);
  if (row->kind == SL_TRANSFER_COPY) {
    w->source[v] = have, w->copies[v] = 0;
    return copy(w, node, v, need, before);
  }
  sl_transfer t = {.kind = row->kind,
                   .value = v,
                   .have = have,
                   .need = need,
                   .before = before,
                   .since = before,
                   .members = w->on ? w->on[v] : 1};
  if (row->kind == SL_TRANSFER_GATHER) t.members = w->gathered[v] = model_ranks_of(w, node);
  if (row->kind == SL_TRANSFER_SUM) t.lossy = w->g->node[node]->phase == SL_PHASE_BACKWARD && w->last_read[v] == NONE;
  if (row->kind == SL_TRANSFER_WAIT) {
    t.members = model_ranks_of(w, node);
    t.before = w->first_update;
    t.since = w->last_read[v] + 1;
    return record(w, &t, w->turn[v]);
  }
  return record(w, &t, w->p->n_owned + w->p->n_transfers);
}

/* Whether a node reads or overwrites an input. Overwriting matters for parameters and state only: other ranks never see
 * the temporaries of a rank. */
static unsigned access_of(const walk *w, const sl_node *node, int input) {
  unsigned access = SL_PLACE_READS;
  for (int j = 0; j < node->n_out && w->g->value[node->in[input]]->role != SL_ROLE_TEMPORARY; j++)
    if (node->op->update[j] == input + 1) access = SL_PLACE_OVERWRITES;
  return access;
}

/* The run in whose pass a value was made; NONE */
static int run_of(const walk *w, sl_value v) { return w->writer[v] == NONE ? NONE : w->p->run[w->writer[v]]; }

/* Returns the model rank of a set that sends a value to model rank `to`: one of the pipeline stage that made the value
 * or, if that stage is unknown, of the first stage in the set. The tensor ranks of this stage take turns, so that all
 * of them send to equally many model ranks. */
static int sender(const walk *w, sl_value v, sl_rank_set on, int to) {
  const int tensor = w->p->tensor, run = run_of(w, v);
  const sl_rank_set all = sl_rank_set_of(tensor);
  int first = run == NONE ? 0 : run % (w->how->model_ranks / tensor), n = 0, from = 0;
  if (!(on >> first * tensor & all)) first = 0;
  while (!(on >> first * tensor & all)) first++;
  const sl_rank_set have = on >> first * tensor & all;
  for (int t = 0; t < tensor; t++) n += sl_rank_set_has(have, t);
  for (int skip = to % n; skip >= 0; from++) skip -= sl_rank_set_has(have, from);
  return first * tensor + from - 1;
}

/* The model ranks that made a value, or that keep it between steps. */
static sl_rank_set made_on(const walk *w, sl_value v) {
  return w->writer[v] == NONE ? w->p->keeps[v] : w->p->computes[w->writer[v]];
}

/* Whether a value is sent before the first pass, as are lookups that a later stage computes for an earlier one. */
static int is_early(const walk *w, sl_value v, int from, int to) {
  const int tensor = w->p->tensor;
  return w->made_of[v] <= PARAMETERS || (w->made_of[v] == LOOKUP && to / tensor < from / tensor);
}

/* Adds the transfers that bring a value to all model ranks of a set, due in front of node `before`. If one of the ranks
 * that divide the samples owns the value, only the owner sends it, to its counterparts of the other model ranks, even
 * if other ranks have copies.
 *
 * What an owner sends before the first pass is due as soon as it is made, by a rank that made it. So no copy to the
 * ranks of its stage comes before the message: the owner would have to carry out that copy before the first pass, and
 * the others in a later one. */
static sl_status send(walk *w, sl_value v, sl_rank_set to_all, int before) {
  if (!w->on) return SL_OK;
  const sl_placement have = w->copies[v] ? w->source[v] : w->have[v];
  for (int to = 0; to < w->how->model_ranks; to++) {
    if (!sl_rank_set_has(to_all & ~w->on[v], to)) continue;
    if (!w->on[v]) return sl_fail(SL_EINVAL, "value '%s' is read before any rank has it", w->g->value[v]->name);
    const int owned = have.kind == SL_PLACE_OWNED && w->made_of[v] <= PARAMETERS;
    const int from = sender(w, v, owned ? made_on(w, v) : w->on[v], to);
    const sl_phase made = w->writer[v] == NONE ? SL_PHASE_FORWARD : w->g->node[w->writer[v]]->phase;
    const sl_transfer t = {.kind = SL_TRANSFER_SEND,
                           .value = v,
                           .have = have,
                           .need = have,
                           .before = owned ? w->writer[v] + 1 : before,
                           .since = before,
                           .sender = from,
                           .receiver = to,
                           .phase = made,
                           .run = run_of(w, v),
                           .early = is_early(w, v, from, to)};
    SL_TRY(record(w, &t, w->p->n_owned + w->p->n_transfers));
  }
  w->on[v] |= to_all;
  return SL_OK;
}

/* What an output of a node depends on. */
static char made_of(const walk *w, const sl_node *node, sl_value v) {
  char most = INPUTS;
  for (int k = 0; k < node->n_in; k++)
    if (w->made_of[node->in[k]] > most) most = w->made_of[node->in[k]];
  if (node->phase == SL_PHASE_UPDATE || most >= LOOKUP) return MORE;
  if (sl_node_scope(w->g, node) == SL_SCOPE_WHOLE) return most;
  if (w->g->value[v]->scope == SL_SCOPE_WHOLE) return MORE; /* a sum over samples */
  return most == PARAMETERS ? LOOKUP : INPUTS;
}

static sl_status place_node(walk *w, int i) {
  const sl_node *node = w->g->node[i];
  const int rank = w->p->node[i].rank;
  for (int k = 0; k < node->n_in; k++) SL_TRY(send(w, node->in[k], model_ranks_of(w, i), i));
  if (node->after != SL_NONE) SL_TRY(send(w, node->after, model_ranks_of(w, i), i));
  for (int k = 0; k < node->n_in; k++)
    SL_TRY(bring(w, i, node->in[k], placed(rule_of(w, i, node->in[k])->needs, rank), access_of(w, node, k), i));
  for (int k = 0; k < node->n_in; k++) w->used[node->in[k]] = w->fetched;
  for (int j = 0; j < node->n_out; j++) {
    const sl_value v = node->out[j];
    const sl_placement makes = placed(rule_of(w, i, v)->makes, rank);
    const int adds = w->written[v] && (!node->op->update[j] || makes.kind == SL_PLACE_PARTIAL);
    if (w->written[v] && w->on && (adds || sl_node_reads_output(node, j))) SL_TRY(send(w, v, model_ranks_of(w, i), i));
    if (adds) SL_TRY(bring(w, i, v, makes, SL_PLACE_READS, i));
    if (w->on) w->on[v] = w->p->computes[i];
    w->made_of[v] = made_of(w, node, v);
    w->have[v] = w->p->made[v] = makes;
    w->copies[v] = 0;
    w->written[v] = 1;
    w->writer[v] = i;
    if (makes.kind == SL_PLACE_PARTIAL && w->last[v] == i) /* complete: its exchange begins before a node needs it */
      SL_TRY(bring(w, i, v, w->p->value[v], SL_PLACE_READS, i + 1));
  }
  return SL_OK;
}

/* Kept values go to every model rank as soon as they are complete; parameters and state that other model ranks have
 * updated return to those that keep them. */
static sl_status end_step_of_model_ranks(walk *w) {
  const sl_rank_set all = sl_rank_set_of(w->how->model_ranks);
  for (sl_value v = 0; v < w->g->n_values; v++)
    if (w->g->value[v]->role != SL_ROLE_TEMPORARY) SL_TRY(send(w, v, w->p->keeps[v], w->g->n_nodes));
  for (int k = 0; k < w->how->n_keep; k++)
    if (w->how->keep[k] >= 0 && w->on[w->how->keep[k]]) SL_TRY(send(w, w->how->keep[k], all, w->g->n_nodes));
  return SL_OK;
}

/* At the end of a step, parameters and state return to their placement at its start. */
static sl_status end_step(walk *w, sl_value v) {
  if (w->g->value[v]->role == SL_ROLE_TEMPORARY || w->last[v] == NONE) return SL_OK;
  return bring(w, w->last[v], v, w->p->value[v], SL_PLACE_READS, w->g->n_nodes);
}

/* Whether a node gathers: it does if moving its inputs twice takes fewer bytes than its sum. */
static int gathers(const sl_graph *g, const sl_node *node) {
  size_t bytes = 0;
  if (!node->op->gathers || node->n_out != 1 || g->value[node->out[0]]->scope != SL_SCOPE_WHOLE) return 0;
  for (int k = 0; k < node->n_in; k++) {
    const sl_value_info *info = g->value[node->in[k]];
    const int moves = info->dtype == SL_F32 || info->dtype == SL_BF16 || info->dtype == SL_F16 || info->dtype == SL_I32;
    if (info->scope != SL_SCOPE_SAMPLE || !moves) return 0;
    bytes += sl_value_bytes(info);
  }
  return 2 * bytes < sl_value_bytes(g->value[node->out[0]]);
}

/* Finds the nodes that gather, and the nodes that complete the other sums. Only the last addition to a value can
 * gather.
 */
static void find_last(walk *w) {
  const sl_graph *g = w->g;
  w->first_update = g->n_nodes;
  for (sl_value v = 0; v < g->n_values; v++) w->last[v] = w->last_read[v] = NONE;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int j = 0; j < node->n_out; j++) w->last[node->out[j]] = i;
    for (int k = 0; k < node->n_in && node->phase != SL_PHASE_UPDATE; k++) w->last_read[node->in[k]] = i;
    if (node->phase == SL_PHASE_UPDATE && i < w->first_update) w->first_update = i;
  }
  for (int i = 0; i < g->n_nodes; i++)
    w->p->gathers[i] = (char)(gathers(g, g->node[i]) && w->last[g->node[i]->out[0]] == i);
  for (sl_value v = 0; v < g->n_values; v++) w->last[v] = NONE;
  for (int i = 0; i < g->n_nodes; i++)
    for (int j = 0; j < g->node[i]->n_out && !w->p->gathers[i]; j++) w->last[g->node[i]->out[j]] = i;
}

static int owner_between_steps(const walk *w, const sl__owners *owners, sl_value v) {
  if (w->g->value[v]->role == SL_ROLE_TEMPORARY) return owners ? owners->value[v] : NONE;
  if (w->how->holder && w->how->holder[v] >= 0) return w->how->holder[v];
  if (w->g->value[v]->role != SL_ROLE_PARAMETER) return owners ? owners->value[v] : NONE;
  return owners && w->how->zero == SL_ZERO_PARAMETERS ? owners->value[v] : NONE;
}

/* If one rank has a parameter, that rank makes the parameter's copy in 16 bits, and half as many bytes move. */
static void place_copy(walk *w, int i) {
  const sl_node *node = w->g->node[i];
  if (node->op != w->g->convert || node->phase == SL_PHASE_UPDATE) return;
  const sl_value from = node->in[0], to = node->out[0];
  if (w->g->value[from]->role != SL_ROLE_PARAMETER || w->p->value[from].kind != SL_PLACE_OWNED) return;
  w->p->value[to] = w->p->value[from];
  w->copied[to] = 1;
}

/* Chooses each value's placement and the ranks that compute each node. owners NULL: every rank updates all parameters.
 */
static void choose(walk *w, const sl__owners *owners) {
  const sl_graph *g = w->g;
  sl_placements *p = w->p;
  for (sl_value v = 0; v < g->n_values; v++)
    p->value[v] = g->value[v]->scope == SL_SCOPE_WHOLE ? owned_or_replicated(owner_between_steps(w, owners, v))
                                                       : placed(SL_PLACE_BY_SAMPLE, NONE);
  for (int i = 0; i < g->n_nodes; i++) place_copy(w, i);
  for (sl_value v = 0; v < g->n_values; v++) {
    p->made[v] = w->have[v] = p->value[v];
    w->written[v] = g->value[v]->role != SL_ROLE_TEMPORARY;
  }
  for (int i = 0; i < g->n_nodes; i++) {
    if (p->gathers[i])
      p->node[i] = p->value[g->node[i]->out[0]];
    else if (g->node[i]->n_out > 0 && w->copied[g->node[i]->out[0]])
      p->node[i] = p->value[g->node[i]->out[0]];
    else if (sl_node_scope(g, g->node[i]) == SL_SCOPE_WHOLE)
      p->node[i] = owned_or_replicated(owners ? owners->node[i] : NONE);
    else
      p->node[i] = placed(SL_PLACE_BY_SAMPLE, NONE);
  }
  for (int i = 0; owners && i < owners->n; i++) {
    p->owned[p->n_owned] = owners->parameter[i];
    w->turn[owners->parameter[i]] = p->n_owned++;
  }
}

/* Insertion sort by `before`: few transfers are out of order, and only by a few places. */
static void sort_transfers(walk *w) {
  sl_transfer *t = w->p->transfer;
  for (int i = 1; i < w->p->n_transfers; i++) {
    const sl_transfer mine = t[i];
    const int order = w->order[i];
    int k = i;
    for (; k > 0 && (t[k - 1].before > mine.before || (t[k - 1].before == mine.before && w->order[k - 1] > order));
         k--) {
      t[k] = t[k - 1];
      w->order[k] = w->order[k - 1];
    }
    t[k] = mine;
    w->order[k] = order;
  }
}

sl_status sl_placements_create(const sl_graph *g, const sl_placing *how, sl_placements **placements) {
  const int ranks = how->ranks;
  *placements = NULL;
  SL_TRY(sl_graph_status(g));
  const size_t values = (size_t)g->n_values + 1, nodes = (size_t)g->n_nodes + 1;
  sl__owners *owners = NULL;
  sl_placements *p = calloc(1, sizeof *p);
  walk w = {.g = g,
            .p = p,
            .how = how,
            .fetching = NONE,
            .fetched_before = NONE,
            .used = calloc(values, sizeof *w.used),
            .writer = malloc(values * sizeof *w.writer),
            .copied = calloc(values, 1),
            .made_of = calloc(values, 1),
            .gathered = calloc(values, sizeof *w.gathered),
            .copies = calloc(values, sizeof *w.copies),
            .source = malloc(values * sizeof *w.source),
            .have = malloc(values * sizeof *w.have),
            .written = calloc(values, 1),
            .last = malloc(values * sizeof *w.last),
            .last_read = malloc(values * sizeof *w.last_read),
            .turn = calloc(values, sizeof *w.turn)};
  sl_status status = SL_OK;
  if (!p || !w.have || !w.written || !w.last || !w.last_read || !w.turn || !w.used || !w.writer || !w.copied ||
      !w.made_of || !w.gathered || !w.copies || !w.source || !(p->made = malloc(values * sizeof *p->made)) ||
      !(p->value = malloc(values * sizeof *p->value)) || !(p->node = malloc(nodes * sizeof *p->node)) ||
      !(p->gathers = calloc(nodes, 1)) || !(p->owned = malloc(values * sizeof *p->owned)))
    SL_TRY_OUT(sl_no_memory("to place %d values on %d ranks", g->n_values, ranks));
  p->ranks = ranks;
  p->tensor = how->tensor > 1 ? how->tensor : 1;
  if (how->model_ranks > 1 &&
      (!(w.on = calloc(values, sizeof *w.on)) || !(p->computes = calloc(nodes, sizeof *p->computes)) ||
       !(p->run = malloc(nodes * sizeof *p->run)) || !(p->keeps = calloc(values, sizeof *p->keeps)) ||
       !(p->deferrable = calloc(nodes, 1))))
    SL_TRY_OUT(sl_no_memory("to divide %d values among %d model ranks", g->n_values, how->model_ranks));
  for (sl_value v = 0; v < g->n_values; v++) w.writer[v] = NONE;
  if (how->model_ranks > 1)
    SL_TRY_OUT(
        sl__stages_find(g, how->model_ranks, p->tensor, &how->pipe, p->computes, p->keeps, p->run, p->deferrable));
  if (how->zero && ranks > 1) SL_TRY_OUT(sl__owners_find(g, ranks, p->keeps, &owners));
  find_last(&w);
  choose(&w, owners);
  if (how->model_ranks > 1) {
    memcpy(w.on, p->keeps, (size_t)g->n_values * sizeof *w.on);
    for (sl_value v = 0; v < g->n_values; v++)
      w.made_of[v] = g->value[v]->role == SL_ROLE_TEMPORARY ? INPUTS : PARAMETERS;
  }
  for (int i = 0; i < g->n_nodes; i++) SL_TRY_OUT(place_node(&w, i));
  for (int i = 0; i < p->n_owned; i++) SL_TRY_OUT(end_step(&w, p->owned[i]));
  for (sl_value v = 0; v < g->n_values; v++) SL_TRY_OUT(end_step(&w, v));
  if (how->model_ranks > 1) SL_TRY_OUT(end_step_of_model_ranks(&w));
  sort_transfers(&w);
  *placements = p;
  p = NULL;
out:
  sl_placements_destroy(p);
  sl__owners_destroy(owners);
  free(w.have), free(w.written), free(w.last), free(w.last_read), free(w.turn), free(w.order);
  free(w.used), free(w.writer), free(w.copied), free(w.made_of), free(w.gathered), free(w.on), free(w.copies);
  free(w.source);
  return status;
}

void sl_placements_destroy(sl_placements *p) {
  if (!p) return;
  free(p->made), free(p->value), free(p->node), free(p->gathers), free(p->owned), free(p->transfer), free(p->computes),
      free(p->run), free(p->keeps), free(p->deferrable), free(p);
}
