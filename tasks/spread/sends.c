/* Messages between ranks that share the same samples (SL_TRANSFER_SEND): the stages of a pipeline, and the ranks of a
 * stage that divide its products. Each piece of samples or of a leaf is a message of its own, so that it leaves as soon
 * as it is made. Whole values that one stage sends to another for the same node are one message. A pair of ranks
 * declares its messages in the same order on both sides: by the slots of the sender's passes, then in the order in
 * which this file adds them (program.c). */
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/parts.h"

static int is_whole(const sl__spread *s, const sl_transfer *t) {
  return s->from->value[t->value]->scope == SL_SCOPE_WHOLE &&
         !(t->have.kind == SL_PLACE_PARTIAL && s->partial[t->value]);
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

/* The slot in which the sender makes a piece; a slot before or after all others if no pass makes it. A stage that
 * passes on a piece of another stage sends it in the pass of its own first run. */
static int slot_of(const sl__spread *s, const sl_transfer *t, int leaf) {
  if (t->early) return SL__EARLY;
  if (leaf < 0) return SL__LATE;
  const int m = (int)((int64_t)(leaf - s->mine.first) * s->plan->micro_batches / s->mine.n);
  const int stage = t->from_stage / s->tensor;
  return sl__timetable_slot(s->passes, t->phase == SL_PHASE_FORWARD ? SL__PASS_FORWARD : SL__PASS_BACKWARD,
                            t->run >= 0 && t->run % s->passes->stages == stage ? t->run : stage, m);
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

/* The whole values that are due. next[i]: the next one between the same two ranks in the same direction; -1: none. */
typedef struct due {
  const sl_transfer **value;
  int *next, n;
} due;

static void list_whole(const sl__spread *s, due *d) {
  const sl_transfer *t;
  int last[2][SL_MAX_STAGES];
  memset(last, -1, sizeof last);
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
    if (!is_whole(s, t)) continue;
    const int out = t->from_stage == s->stage;
    int *before = &last[out][out ? t->to_stage : t->from_stage];
    if (*before >= 0) d->next[*before] = d->n;
    *before = d->n;
    d->next[d->n] = -1;
    d->value[d->n++] = t;
  }
}

/* Whether two whole values between the same ranks may be parts of one message. */
static int go_together(const sl__spread *s, const sl_transfer *a, const sl_transfer *b) {
  return a->early == b->early && a->phase == b->phase &&
         sl_dtype_bytes(s->from->value[a->value]->dtype) == sl_dtype_bytes(s->from->value[b->value]->dtype);
}

/* Adds the messages of the whole values that are due. A value that has been sent becomes NULL in the list. */
static sl_status send_whole(sl__spread *s, sl_value *piece, due *d) {
  for (int i = 0; i < d->n; i++) {
    const sl_transfer *t = d->value[i];
    int n = 0;
    size_t bytes = 0;
    for (int k = i; t && k >= 0 && bytes < SL__BUCKET_BYTES; k = d->next[k]) {
      const sl_transfer *other = d->value[k];
      if (!other || !go_together(s, t, other)) continue;
      d->value[k] = NULL;
      bytes += sl_value_bytes(s->from->value[other->value]);
      for (int b = 0; b < s->blocks[other->value]; b++) piece[n++] = s->piece[other->value][b];
    }
    if (n) SL_TRY(add_message(s, t, piece, n, -1, -1));
  }
  return SL_OK;
}

/* Adds the messages of samples and leaves: a piece of each value in turn, since their reader needs all of a shard. */
static sl_status send_pieces(sl__spread *s, int most) {
  const sl_transfer *t;
  for (int piece = 0; piece < most; piece++)
    for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
      if (is_whole(s, t) || piece >= pieces_of(s, t)) continue;
      const int samples = s->from->value[t->value]->scope == SL_SCOPE_SAMPLE;
      SL_TRY(add_message(s, t, &s->piece[t->value][piece], 1, leaf_of(s, t, piece),
                         samples ? s->mine.first * s->per_leaf + piece : -1));
    }
  return SL_OK;
}

sl_status sl__send_values(sl__spread *s) {
  const sl_transfer *t;
  int most = 0, whole = 0, n = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next)); n++) {
    if (!s->piece[t->value]) SL_TRY(sl__make_pieces(s, t->value));
    if (is_whole(s, t))
      whole += s->blocks[t->value];
    else if (pieces_of(s, t) > most)
      most = pieces_of(s, t);
  }
  if (n == 0) return SL_OK;
  sl_value *piece = malloc(((size_t)whole + 1) * sizeof *piece);
  due d = {.value = malloc((size_t)n * sizeof *d.value), .next = malloc((size_t)n * sizeof *d.next)};
  sl_status status = piece && d.value && d.next ? SL_OK : sl_no_memory("for the messages of %d values", n);
  if (status == SL_OK) list_whole(s, &d);
  if (status == SL_OK) status = send_whole(s, piece, &d);
  if (status == SL_OK) status = send_pieces(s, most);
  free(piece), free(d.value), free(d.next);
  return status;
}
