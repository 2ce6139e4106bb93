/* Gathered sums (SL_TRANSFER_GATHER). A node that adds rows of its inputs to a few rows of a large table has no sum per
 * leaf. Instead each rank copies its inputs, which are smaller, to all ranks, and the node's tasks add all shards of
 * the batch, in order, to the whole sum. */
#include <stdlib.h>

#include "tasks/spread/parts.h"

/* Makes the pieces of all shards of the batch: this rank's own, and buffers for the other ranks' shards. */
static sl_status make_copies(sl__spread *s, sl_value v) {
  const int first = s->mine.first * s->per_leaf, end = first + s->mine.n * s->per_leaf;
  s->copy[v] = malloc((size_t)s->plan->shards * sizeof(sl_value));
  if (!s->copy[v]) return sl_no_memory("for the pieces of '%s'", s->from->value[v]->name);
  for (int shard = 0; shard < s->plan->shards; shard++) {
    const sl_value_info piece = sl__shard_piece(s, v, shard);
    s->copy[v][shard] = shard >= first && shard < end ? s->piece[v][shard - first] : sl_graph_push_value(s->to, &piece);
  }
  return sl_graph_status(s->to);
}

/* The pieces of rank r's shards of the values whose elements have `width` bytes; returns their number. */
static int pieces_of(sl__spread *s, int r, size_t width, sl_value *pieces) {
  const sl_transfer *t;
  int n = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_GATHER, &next));)
    for (int shard = s->division->first[r] * s->per_leaf; shard < s->division->first[r + 1] * s->per_leaf; shard++)
      if (sl_dtype_bytes(s->from->value[t->value]->dtype) == width) pieces[n++] = s->copy[t->value][shard];
  return n;
}

/* Adds an exchange node for each rank that has shards and each width of elements, since a bucket has one width. */
sl_status sl__gather_inputs(sl__spread *s) {
  static const size_t widths[] = {4, 2};
  const sl_transfer *t;
  int values = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_GATHER, &next)); values++) SL_TRY(make_copies(s, t->value));
  sl_value *pieces = malloc((size_t)(values * s->plan->shards + 1) * sizeof *pieces);
  if (!pieces) return sl_no_memory("to gather %d shards", s->plan->shards);
  sl_status status = SL_OK;
  for (int r = 0; r < s->division->ranks; r++)
    for (size_t w = 0; w < sizeof widths / sizeof *widths && status == SL_OK; w++) {
      const int n = pieces_of(s, r, widths[w], pieces);
      if (n) status = sl__add_copy(s, s->from->node[s->at]->name, SL_PHASE_BACKWARD, r, pieces, n);
    }
  free(pieces);
  return status;
}
