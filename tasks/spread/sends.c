/* Messages between the stages of a pipeline (SL_TRANSFER_SEND). Each piece of a value is a message of its own, so that
 * it leaves as soon as it is made. A pair of ranks adds its messages in the same order on both sides: by the turns of the
 * sender's passes, then as here (turns.c). */
#include "tasks/spread/parts.h"
#include "tasks/spread/stages.h"

/* Number of pieces that move: all of a value that has one for each shard or leaf, the first of a complete sum. */
static int pieces_of(const sl__spread *s, const sl_transfer *t) {
  const sl_value_info *info = s->from->value[t->value];
  if (info->scope == SL_SCOPE_SAMPLE) return s->mine.n * s->per_leaf;
  if (info->scope == SL_SCOPE_LEAF) return s->mine.n;
  return s->blocks[t->value] * (t->have.kind == SL_PLACE_PARTIAL && s->partial[t->value] ? s->mine.n : 1);
}

static int leaf_of(const sl__spread *s, const sl_transfer *t, int piece) {
  const sl_value_info *info = s->from->value[t->value];
  if (info->scope == SL_SCOPE_SAMPLE) return s->mine.first + piece / s->per_leaf;
  if (info->scope == SL_SCOPE_LEAF) return s->mine.first + piece;
  return t->have.kind == SL_PLACE_PARTIAL && s->partial[t->value] ? s->mine.first + piece / s->blocks[t->value] : -1;
}

/* The slot in which the sender makes the piece; before all slots, or after them, where no pass does. */
static int slot_of(const sl__spread *s, const sl_transfer *t, int leaf) {
  if (leaf < 0) return t->early ? SL__EARLY : SL__LATE;
  const int m = (int)((int64_t)(leaf - s->mine.first) * s->plan->micro_batches / s->mine.n);
  return sl__stage_slot(s->passes->order, s->stages, t->from_stage, s->plan->micro_batches, t->phase, m);
}

static sl_status add_message(sl__spread *s, const sl_transfer *t, int piece) {
  const int sends = t->from_stage == s->stage;
  const int peer = (sends ? t->to_stage : t->from_stage) + s->rank * s->stages;
  const sl_value v = s->piece[t->value][piece];
  const sl__exchange_attr attr = {.move = {.kind = sends ? SL_EXCHANGE_SEND : SL_EXCHANGE_RECEIVE, .rank = peer},
                                  .values = 1,
                                  .slot = slot_of(s, t, leaf_of(s, t, piece))};
  const sl_node *reader = s->from->node[s->at < s->from->n_nodes ? s->at : s->from->n_nodes - 1];
  SL_TRY(sl__exchange_node_add(s->to, reader->name, t->phase, ++s->exchanges, &attr, &v, 1, &v, sends ? 0 : 1));
  sl_node *node = s->to->node[s->to->n_nodes - 1];
  node->message = sends ? SL_MESSAGE_SENT : SL_MESSAGE_RECEIVED;
  node->leaf = leaf_of(s, t, piece);
  if (s->from->value[t->value]->scope == SL_SCOPE_SAMPLE) node->shard = s->mine.first * s->per_leaf + piece;
  sl_value_info *info = s->to->value[v];
  if (!sends && info->role == SL_ROLE_TEMPORARY && info->producer < 0) info->producer = s->to->n_nodes - 1;
  return SL_OK;
}

/* A piece of each value in turn, since their reader needs all of a shard. */
sl_status sl__send_values(sl__spread *s) {
  const sl_transfer *t;
  int most = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
    if (t->from_stage != s->stage && t->to_stage != s->stage) continue;
    if (!s->piece[t->value]) SL_TRY(sl__make_pieces(s, t->value));
    if (pieces_of(s, t) > most) most = pieces_of(s, t);
  }
  for (int piece = 0; piece < most; piece++)
    for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));)
      if ((t->from_stage == s->stage || t->to_stage == s->stage) && piece < pieces_of(s, t))
        SL_TRY(add_message(s, t, piece));
  return SL_OK;
}
