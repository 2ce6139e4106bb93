/* Messages between model ranks (SL_TRANSFER_SEND): the stages of a pipeline, and the tensor ranks of a stage. Each
 * piece of samples or of a leaf is a message of its own, so that it leaves as soon as it is made. With
 * plan->message_parts a piece of samples crosses between stages in several messages, so that copies from and to GPUs
 * overlap the network. Whole values that one model rank sends to another for the same node are one message. A pair of
 * ranks declares its messages in the same order on both sides: by the slots of the sender's passes, then in the order
 * in which this file adds them (program.c). */
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
  const int stage = t->sender / s->tensor;
  return sl__timetable_slot(s->passes, t->phase == SL_PHASE_FORWARD ? SL__PASS_FORWARD : SL__PASS_BACKWARD,
                            t->run >= 0 && t->run % s->passes->stages == stage ? t->run : stage, m);
}

/* Adds a message of n pieces; leaf -1: whole values. */
static sl_status add_message(sl__spread *s, const sl_transfer *t, const sl_value *piece, int n, int leaf, int shard) {
  const int sends = t->sender == s->model_rank;
  const int peer = (sends ? t->receiver : t->sender) + s->rank * s->model_ranks;
  const sl__exchange_attr attr = {.move = {.kind = sends ? SL_EXCHANGE_SEND : SL_EXCHANGE_RECEIVE, .rank = peer},
                                  .values = n,
                                  .slot = slot_of(s, t, leaf)};
  const sl_node *reader = s->from->node[t->since < s->from->n_nodes ? t->since : s->from->n_nodes - 1];
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
  int last[2][SL_MAX_MODEL_RANKS];
  memset(last, -1, sizeof last);
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
    if (!is_whole(s, t)) continue;
    const int out = t->sender == s->model_rank;
    int *before = &last[out][out ? t->receiver : t->sender];
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

/* The number of parts in which a value crosses from one stage to another. */
static int parts_of(const sl__spread *s, const sl_transfer *t) {
  const sl_value_info *v = s->from->value[t->value];
  if (s->plan->message_parts <= 1 || t->early || !s->from->part || !s->from->join || v->scope != SL_SCOPE_SAMPLE ||
      v->shape.ndim < 2 || t->sender / s->tensor == t->receiver / s->tensor)
    return 1;
  return v->shape.dim[1] < s->plan->message_parts ? (int)v->shape.dim[1] : s->plan->message_parts;
}

/* Adds a task of a shard that cuts a part out of a value, or joins parts. logical: the node whose name it has. */
static sl_status add_cut(sl__spread *s, const sl_operation *op, int logical, const void *attr, const sl_value *in,
                         int n_in, sl_value out, int leaf, int shard) {
  const sl_node *node = s->from->node[logical];
  sl_node mine = {.op = op,
                  .name = node->name,
                  .attr = (void *)attr,
                  .in = (sl_value *)in,
                  .n_in = n_in,
                  .n_arg = n_in,
                  .out = &out,
                  .n_out = 1,
                  .phase = node->phase,
                  .key = node->key,
                  .after = SL_NONE,
                  .fold = {0, s->from->folds},
                  .logical = logical,
                  .turn = SL__BY_READER,
                  .leaf = leaf,
                  .shard = shard,
                  .block = -1,
                  .batch_rows = s->plan->batch};
  int64_t row;
  sl_plan_leaf(s->plan, leaf, &row, &mine.leaf_rows);
  sl_plan_shard(s->plan, shard, &mine.row0, &mine.rows);
  sl_graph_push_node(s->to, &mine);
  sl_value_info *info = s->to->value[out];
  if (info->producer < 0) info->producer = s->to->n_nodes - 1;
  return sl_graph_status(s->to);
}

/* Adds the messages of a shard's piece in parts. Bits do not change: parts are copies. */
static sl_status send_parts(sl__spread *s, const sl_transfer *t, sl_value piece, int parts, int leaf, int shard) {
  const int sends = t->sender == s->model_rank, maker = s->from->value[t->value]->producer;
  const int64_t positions = s->from->value[t->value]->shape.dim[1];
  sl_value *part = malloc((size_t)parts * sizeof *part);
  if (!part) return sl_no_memory("for %d parts of a message", parts);
  sl_status status = SL_OK;
  for (int k = 0; k < parts; k++) {
    const int attr[] = {k, parts};
    sl_value_info info = *s->to->value[piece];
    info.role = SL_ROLE_TEMPORARY;
    info.logical = s->from->n_values; /* no logical value, so nobody reads it after the step */
    info.producer = -1;
    info.shape.dim[1] = positions * (k + 1) / parts - positions * k / parts;
    part[k] = sl_graph_push_value(s->to, &info);
    SL_TRY_OUT(sl_graph_status(s->to));
    if (sends) SL_TRY_OUT(add_cut(s, s->from->part, maker, attr, &piece, 1, part[k], leaf, shard));
    SL_TRY_OUT(add_message(s, t, &part[k], 1, leaf, shard));
  }
  if (!sends)
    SL_TRY_OUT(
        add_cut(s, s->from->join, s->at < s->from->n_nodes ? s->at : maker, NULL, part, parts, piece, leaf, shard));
out:
  free(part);
  return status;
}

/* Adds the messages of samples and leaves: a piece of each value in turn, since their reader needs all of a shard. */
static sl_status send_pieces(sl__spread *s, int most) {
  const sl_transfer *t;
  for (int piece = 0; piece < most; piece++)
    for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SEND, &next));) {
      if (is_whole(s, t) || piece >= pieces_of(s, t)) continue;
      const int samples = s->from->value[t->value]->scope == SL_SCOPE_SAMPLE, parts = parts_of(s, t);
      const int leaf = leaf_of(s, t, piece), shard = samples ? s->mine.first * s->per_leaf + piece : -1;
      if (parts > 1)
        SL_TRY(send_parts(s, t, s->piece[t->value][piece], parts, leaf, shard));
      else
        SL_TRY(add_message(s, t, &s->piece[t->value][piece], 1, leaf, shard));
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
