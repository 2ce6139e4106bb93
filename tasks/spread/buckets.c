/* Sums over the ranks (SL_TRANSFER_SUM). Sums that are complete one after another share an exchange node, a bucket, so
 * that few large messages are sent. A bucket ends when it is full, when a node reads one of its values, or when the
 * next sum goes elsewhere; so no bucket waits for a later one. These conditions are the same on every rank, and so
 * are the buckets. */
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/parts.h"

sl_status sl__close_bucket(sl__spread *s) {
  sl__sum_bucket *b = &s->bucket;
  if (b->n == 0) return sl_graph_status(s->to);
  const int n_in = b->n * s->subtrees, waits = b->phase == SL_PHASE_BACKWARD;
  sl_value *in = malloc((size_t)n_in * sizeof *in), *out = malloc((size_t)(b->n + sl__waits_room(s)) * sizeof *out);
  sl_status status = in && out ? SL_OK : sl_no_memory("for an exchange of %d sums", b->n);
  if (status == SL_OK) {
    for (int i = 0; i < b->n; i++)
      for (int k = 0; k < s->subtrees; k++) in[k * b->n + i] = b->item[i * s->subtrees + k];
    memcpy(out, in, (size_t)b->n * sizeof *out);
    const sl__exchange_attr attr = {.move = {.kind = SL_EXCHANGE_SUM, .rank = b->to.rank, .lossy = b->lossy},
                                    .values = b->n};
    const int n_out = b->n + (waits ? sl__take_waits(s, out + b->n) : 0);
    status = sl__exchange_node_add(s->to, b->name, b->phase, ++s->exchanges, &attr, in, n_in, out, n_out);
  }
  free(in), free(out);
  b->n = 0;
  b->bytes = 0;
  memset(s->waiting, 0, (size_t)s->from->n_values);
  return status;
}

static int fits(const sl__spread *s, const sl__sum_bucket *b, sl_phase phase, const sl_transfer *t) {
  return b->phase == phase && sl_placement_equal(b->to, t->need) && b->lossy == t->lossy &&
         s->to->value[b->item[0]]->dtype == s->from->value[t->value]->dtype;
}

static sl_status enter_block(sl__spread *s, sl_value v, int block) {
  sl__sum_bucket *b = &s->bucket;
  if (b->n == b->most) {
    const int wanted = b->most ? 2 * b->most : 16;
    sl_value *more = realloc(b->item, (size_t)(wanted * s->subtrees) * sizeof *more);
    if (!more) return sl_no_memory("for an exchange of %d sums", wanted);
    b->item = more;
    b->most = wanted;
  }
  sl_value *item = b->item + b->n++ * s->subtrees;
  for (int k = 0; k < s->subtrees; k++) item[k] = sl__piece_of_leaf(s, v, s->subtree[k].first, block);
  b->bytes += sl_value_bytes(s->to->value[item[0]]);
  return SL_OK;
}

/* A sum of the forward pass has a bucket of its own: its readers come at once. */
static sl_status enter(sl__spread *s, const sl_node *node, const sl_transfer *t) {
  sl__sum_bucket *b = &s->bucket;
  if (b->n > 0 && !fits(s, b, node->phase, t)) SL_TRY(sl__close_bucket(s));
  if (b->n == 0) b->name = node->name;
  b->to = t->need;
  b->lossy = t->lossy;
  b->phase = node->phase;
  for (int block = 0; block < s->blocks[t->value]; block++) SL_TRY(enter_block(s, t->value, block));
  s->waiting[t->value] = 1;
  return b->bytes >= SL__BUCKET_BYTES || node->phase == SL_PHASE_FORWARD ? sl__close_bucket(s) : SL_OK;
}

sl_status sl__complete_sums(sl__spread *s) {
  const sl_transfer *t;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_SUM, &next));) {
    SL_TRY(sl__add_tree_sums(s, s->at - 1, t->value)); /* the node before completed it */
    if (s->division) SL_TRY(enter(s, s->from->node[s->at - 1], t));
  }
  return SL_OK;
}
