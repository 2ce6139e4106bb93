/* Waits (SL_TRANSFER_WAIT): ranks of a node may share the memory of parameters, so an owner must not overwrite a
 * parameter before all ranks have read it for the last time. The exchanges of the backward pass ensure this at no cost:
 * an exchange node also lists, as further outputs, the parameters whose last reader comes before it. So the exchange
 * begins after every rank has read them, and the update comes after the exchange. Parameters that are read later get an
 * exchange node of their own, which moves no data. */
#include <stdlib.h>

#include "tasks/spread/parts.h"

int sl__waits_room(const sl__spread *s) {
  int n = 0;
  for (int i = 0; i < s->placements->n_owned; i++) n += s->blocks[s->placements->owned[i]];
  return n;
}

int sl__take_waits(sl__spread *s, sl_value *pieces) {
  int n = 0;
  for (int i = 0; i < s->placements->n_transfers; i++) {
    const sl_transfer *t = &s->placements->transfer[i];
    if (t->kind != SL_TRANSFER_WAIT || !sl__concerns(s, t) || s->released[i] || t->since > s->at) continue;
    s->released[i] = 1;
    for (int b = 0; b < s->blocks[t->value]; b++) pieces[n++] = s->piece[t->value][b];
  }
  return n;
}

sl_status sl__add_wait_node(sl__spread *s) {
  sl_value *pieces = malloc((size_t)(sl__waits_room(s) + 1) * sizeof *pieces);
  if (!pieces) return sl_no_memory("to exchange parameters");
  const int n = sl__take_waits(s, pieces);
  const sl__exchange_attr attr = {.move = {.kind = SL_EXCHANGE_COPY}};
  const sl_status status =
      n == 0 ? SL_OK
             : sl__exchange_node_add(s->to, "update", SL_PHASE_BACKWARD, ++s->exchanges, &attr, NULL, 0, pieces, n);
  free(pieces);
  return status;
}
