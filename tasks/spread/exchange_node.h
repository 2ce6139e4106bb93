/* An exchange between ranks as a node of the step graph: the sums of several values over all ranks, for all or for one;
 * or one rank's values, copied to the others. The values of one node are a bucket.
 *
 * The inputs of a sum are, subtree by subtree of this rank's leaves, the partial sums of its values; its outputs are
 * the inputs of the first subtree, which the whole sums replace. A copy's inputs are its outputs. Further outputs are
 * values that nobody may write before the exchange has ended. The node has no kernel. Private to tasks/. */
#ifndef SL_EXCHANGE_NODE_H
#define SL_EXCHANGE_NODE_H

#include "runtime/exchange/move.h"
#include "tasks/graph/operation.h"

enum { SL__BUCKET_BYTES = 2 << 20 }; /* a bucket of so many bytes or more is full */

typedef struct sl__exchange_attr {
  sl_exchange_move move;
  int values; /* number of values that are summed or copied: the first outputs */
} sl__exchange_attr;

extern const sl_operation sl__exchange_operation;

#endif
