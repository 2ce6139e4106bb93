/* Messages between ranks that share the same samples (SL_TRANSFER_SEND): the stages of a pipeline, and the ranks of a
 * stage that divide its products. Each piece of samples or of a leaf is a message of its
 * own, so that it leaves as soon as it is made. Whole values that one stage sends to another for the same node are one
 * message. A pair of ranks declares its messages in the same order on both sides: by the slots of the sender's passes,
 * then as here (program.c). */
#include <stdlib.h>

#include "tasks/spread/parts.h"
#include "tasks/spread/stages.h"

static int is_whole(const sl__spread *s, const sl_transfer *t) {
  return s->from->value[t->value]->scope == SL_SCOPE_WHOLE &&
         !(t->have.kind == SL_PLACE_PARTIAL && s->partial[t->value]);
}

static int concerns(const sl__spread *s, const sl_transfer *t) {
  return t->from_stage == s->stage || t->to_stage == s->stage;
}

/* Number of pieces of a value that has one for each shard or leaf. */
static int pieces_of(const sl__spread *s, const sl_transfer *t) {
  const sl_scope scope = s->from->value[t->value]->scope;
  if (scope == SL_SCOPE_SAMPLE) return s->mine.n * s->per_leaf;
  return s->mine.n * (scope == SL_SCOPE_LEAF ? 1 : s->blocks[t->value]);
}

static int leaf_of(const sl__spread *s, const sl_transfer *t, int piece) {
  const sl_scope scope = s->from->value[t->value]->scope;
  return s->mine.first + piece / (scope == SL_SCOPE_SAMPLE ? s->per_leaf
                                  : scope == SL_SCOPE_LEAF ? 1
                                                           : s->blocks[t->value]);
}

/* The slot in which the sender makes a piece; before all slots, or after them, where no pass does. */
static int slot_of(const sl__spread *s, const sl_transfer *t, int leaf) {
  if (t->early) return SL__EARLY;
  if (leaf < 0) return SL__LATE;
  const int m = (int)((int64_t)(leaf - s->mine.first) * s->plan->micro_batches / s->mine.n);
  return sl__stage_slot(s->passes->order, s->stages / s->tensor, t->from_stage / s->tensor, s->plan->micro_batches,
                        t->phase, m);
}

/* Adds a message of n pieces; leaf -1: whole values. */
static sl_status add_message(sl__spread *s, const sl_transfer *t, const sl_value *piece, int n, int leaf, int shard) {
  const int sends = t->from_stage == s->stage;
  const int peer = (sends ? t->to_stage : t->from_stage) + s->rank * s->stages;
  const sl__exchange_attr attr = {.move = {.kind = sends ? SL_EXCHANGE_SEND : SL_EXCHANGE_RECEIVE, .rank = peer},
                                  .values = n,
                                  .slot = slot_of(s, t, leaf)};
  const sl_node *reader = s->from->node[s->at < s->from->n_nodes ? s->at : s->from->n_nodes - 1];
  SL_TRY(sl__exchange_node_add(s->to, reader->name, t->phase, ++s->exchanges, &attr, piece, n, piece, sends ? 0 : n));
  sl_node *node = s->to->node[s->to->n_nodes - 1];
  node->message = sends ? SL_MESSAGE_SENT : SL_MESSAGE_RECEIVED;
  node->leaf = leaf;
  node->shard = shard;
  for (int i = 0; i < n && !sends; i++) {
    sl_value_info *info = s->to->value[piece[i]];
    if (info->role == SL_ROLE_TEMPORARY && info->producer < 0) info->producer = s->to->n_nodes - 1;
  }
  return SL_OK;
}

/* Whether two whole values may be parts of one message. */
static int go_together(const sl__spread *s, const sl_transfer *a, const sl_transfer *b) {
  return a->from_stage == b->from_stage && a->to_stage == b->to_stage && a->early == b->early && a->phase == b->phase &&
         sl_dtype_bytes(s->from->value[a->value]->dtype) == sl_dtype_bytes(s->from->value[b->value]->dtype);
}

/* Adds the messages of the whole values that are due. done: flags of the transfers, from the first one that is due. */
static sl_status send_whole(sl__spread *s, sl_value *piece, char *done) {
  const sl_transfer *t, *other, *first = &s->placements->transfer[s->due];
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
    if (!concerns(s, t) || !is_whole(s, t) || done[t - first]) continue;
    int n = 0;
    size_t bytes = 0;
    for (int k = s->due; bytes < SL__BUCKET_BYTES && (other = sl__next_due(s, SL_TRANSFER_SEND, &k));) {
      if (!is_whole(s, other) || done[other - first] || !go_together(s, t, other)) continue;
      done[other - first] = 1;
      bytes += sl_value_bytes(s->from->value[other->value]);
      for (int b = 0; b < s->blocks[other->value]; b++) piece[n++] = s->piece[other->value][b];
    }
    SL_TRY(add_message(s, t, piece, n, -1, -1));
  }
  return SL_OK;
}

/* Adds the messages of samples and leaves: a piece of each value in turn, since their reader needs all of a shard. */
static sl_status send_pieces(sl__spread *s, int most) {
  const sl_transfer *t;
  for (int piece = 0; piece < most; piece++)
    for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
      if (!concerns(s, t) || is_whole(s, t) || piece >= pieces_of(s, t)) continue;
      const int samples = s->from->value[t->value]->scope == SL_SCOPE_SAMPLE;
      SL_TRY(add_message(s, t, &s->piece[t->value][piece], 1, leaf_of(s, t, piece),
                         samples ? s->mine.first * s->per_leaf + piece : -1));
    }
  return SL_OK;
}

sl_status sl__send_values(sl__spread *s) {
  const sl_transfer *t;
  int most = 0, whole = 0, n = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
    if (!concerns(s, t)) continue;
    if (!s->piece[t->value]) SL_TRY(sl__make_pieces(s, t->value));
    if (is_whole(s, t))
      whole += s->blocks[t->value];
    else if (pieces_of(s, t) > most)
      most = pieces_of(s, t);
  }
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) n = next - s->due;
  sl_value *piece = malloc(((size_t)whole + 1) * sizeof *piece);
  char *done = calloc((size_t)n + 1, 1);
  sl_status status = piece && done ? SL_OK : sl_no_memory("for the messages of %d values", n);
  if (status == SL_OK) status = send_whole(s, piece, done);
  if (status == SL_OK) status = send_pieces(s, most);
  free(piece), free(done);
  return status;
}
