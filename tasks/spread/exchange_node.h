/* An exchange between ranks as a node of the step graph. It sums several values over all ranks, for all ranks or for
 * one; copies one rank's values to the others; sends values to one rank or receives them (sends.c); or moves nothing
 * and only waits (waits.c). The values of one node are a bucket.
 *
 * The inputs of a sum are this rank's partial sums: for each subtree of its leaves, the sums of all values. The whole
 * sums replace the inputs of the first subtree, so these inputs are also the first outputs. The inputs of a copy are
 * its first outputs, too. The other outputs are parameters that the exchange does not change: as outputs they keep
 * later nodes from overwriting them before the exchange has ended (waits.c). The node has no kernel. Private to
 * tasks/. */
#ifndef SL_EXCHANGE_NODE_H
#define SL_EXCHANGE_NODE_H

#include "runtime/exchange/move.h"
#include "tasks/graph/graph.h"

enum { SL__BUCKET_BYTES = 2 << 20 }; /* a bucket of this size or more is full */

typedef struct sl__exchange_attr {
  sl_exchange_move move;
  int values; /* number of values summed or copied: the first outputs */
  /* Ranks that share samples declare their exchanges in the order of slots and, within a slot, of places; this order is
   * the same on all ranks. slot: the slot in which the message is sent (timetable.h). place: the exchange's number in
   * the order in which sl_spread adds exchanges, from 1. */
  int slot, place;
} sl__exchange_attr;

extern const sl_operation sl__exchange_operation;

/* Adds a node to the step graph. number: the exchange's number, from 1. */
sl_status sl__exchange_node_add(sl_graph *step, const char *name, sl_phase phase, int number,
                                const sl__exchange_attr *attr, const sl_value *in, int n_in, const sl_value *out,
                                int n_out);

#endif
