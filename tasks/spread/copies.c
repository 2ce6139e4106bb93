/* Copies from one rank to all others (SL_TRANSFER_COPY): inputs of a node that every rank computes and, at the end of
 * the step, parameters that their owners have updated.
 *
 * Parameters that only their owners keep (ZeRO 3) are fetched, each time into new pieces. The other ranks have these
 * pieces until the last reader before the next fetch has ended. Fetch n begins after the first task that uses fetch
 * n - 2 has ended, so at most three fetches are in memory. */
#include <stdlib.h>

#include "tasks/spread/parts.h"

sl_status sl__add_copy(sl__spread *s, const char *name, sl_phase phase, int rank, const sl_value *pieces, int n) {
  if (n == 0) return SL_OK;
  const sl__exchange_attr attr = {.move = {.kind = SL_EXCHANGE_COPY, .rank = rank}, .values = n};
  SL_TRY(sl__exchange_node_add(s->to, name, phase, ++s->exchanges, &attr, pieces, n, pieces, n));
  for (int i = 0; i < n; i++) {
    sl_value_info *info = s->to->value[pieces[i]];
    if (info->role == SL_ROLE_TEMPORARY && info->producer < 0) info->producer = s->to->n_nodes - 1;
  }
  return SL_OK;
}

/* Allocates an array for the pieces of all copies that are due. */
static sl_value *make_room(const sl__spread *s) {
  const sl_transfer *t;
  int n = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_COPY, &next));) n += s->blocks[t->value];
  return malloc((size_t)(n + 1) * sizeof(sl_value));
}

/* Adds the pieces of a value to a list of n. */
static sl_status list_pieces(sl__spread *s, const sl_transfer *t, sl_value *pieces, int *n) {
  const sl_value v = t->value;
  if (t->fetched && sl_placement_elsewhere(t->have, s->rank)) {
    free(s->piece[v]);
    s->piece[v] = NULL;
  }
  if (!s->piece[v]) SL_TRY(sl__make_pieces(s, v));
  for (int b = 0; b < s->blocks[v]; b++) pieces[(*n)++] = s->piece[v][b];
  return SL_OK;
}

/* Adds the exchange node for the values of one owner and one width that are due. */
static sl_status copy_from(sl__spread *s, int owner, size_t width, sl_value *pieces) {
  const sl_transfer *t, *first = NULL;
  int n = 0;
  for (int next = s->due; (t = sl__next_due(s, SL_TRANSFER_COPY, &next));) {
    if (t->have.rank != owner || sl_dtype_bytes(s->from->value[t->value]->dtype) != width) continue;
    SL_TRY(list_pieces(s, t, pieces, &n));
    if (!first) first = t;
  }
  if (n == 0) return SL_OK;
  const sl_node *reader = s->from->node[first->fetched ? first->since : s->at];
  SL_TRY(sl__add_copy(s, reader->name, reader->phase, owner, pieces, n));
  if (first->fetched) s->to->node[s->to->n_nodes - 1]->after = s->gate;
  return SL_OK;
}

/* Adds an exchange node for each owner and each width of elements, since a bucket has one. */
sl_status sl__copy_inputs(sl__spread *s) {
  static const size_t widths[] = {8, 4, 2};
  int next = s->due;
  if (!sl__next_due(s, SL_TRANSFER_COPY, &next)) return SL_OK;
  sl_value *pieces = make_room(s);
  sl_status status = pieces ? SL_OK : sl_no_memory("to copy values from their owners");
  for (int owner = 0; owner < s->division->ranks; owner++)
    for (size_t w = 0; w < sizeof widths / sizeof *widths && status == SL_OK; w++)
      status = copy_from(s, owner, widths[w], pieces);
  free(pieces);
  return status;
}

void sl__open_gate(sl__spread *s, int index) {
  const sl_node *node = s->from->node[index];
  if (s->fetches[index] && node->n_out > 0) s->gate = s->piece[node->out[0]][0];
}

/* Parameters of one owner share an exchange node until it is full. */
sl_status sl__copy_parameters(sl__spread *s) {
  int next = s->due, n = 0;
  size_t bytes = 0;
  sl_value *pieces = make_room(s);
  sl_status status = pieces ? SL_OK : sl_no_memory("to exchange parameters");
  const sl_transfer *t = sl__next_due(s, SL_TRANSFER_COPY, &next);
  while (t && status == SL_OK) {
    const sl_transfer *following = sl__next_due(s, SL_TRANSFER_COPY, &next);
    status = list_pieces(s, t, pieces, &n);
    bytes += sl_value_bytes(s->from->value[t->value]);
    if (status == SL_OK && (!following || bytes >= SL__BUCKET_BYTES || following->have.rank != t->have.rank)) {
      status = sl__add_copy(s, s->from->value[t->value]->name, SL_PHASE_UPDATE, t->have.rank, pieces, n);
      n = 0;
      bytes = 0;
    }
    t = following;
  }
  free(pieces);
  return status;
}
