/* Copies from one rank to all others (SL_TRANSFER_COPY): inputs of a node that every rank computes and, at the end of
 * the step, parameters that their owners have updated. */
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
static sl_status list_pieces(sl__spread *s, sl_value v, sl_value *pieces, int *n) {
  if (!s->piece[v]) SL_TRY(sl__make_pieces(s, v));
  for (int b = 0; b < s->blocks[v]; b++) pieces[(*n)++] = s->piece[v][b];
  return SL_OK;
}

/* Adds an exchange node for each owner. */
sl_status sl__copy_inputs(sl__spread *s) {
  const sl_transfer *t;
  int next = s->due;
  if (!sl__next_due(s, SL_TRANSFER_COPY, &next)) return SL_OK;
  sl_value *pieces = make_room(s);
  sl_status status = pieces ? SL_OK : sl_no_memory("to copy values from their owners");
  for (int owner = 0; owner < s->division->ranks && status == SL_OK; owner++) {
    int n = 0;
    for (next = s->due; (t = sl__next_due(s, SL_TRANSFER_COPY, &next)) && status == SL_OK;)
      if (t->have.rank == owner) status = list_pieces(s, t->value, pieces, &n);
    if (status == SL_OK)
      status = sl__add_copy(s, s->from->node[s->at]->name, s->from->node[s->at]->phase, owner, pieces, n);
  }
  free(pieces);
  return status;
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
    status = list_pieces(s, t->value, pieces, &n);
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
