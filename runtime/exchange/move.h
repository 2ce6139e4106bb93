/* What is done with a bucket of values that lie on several ranks. Knows no MPI: the graph names moves, an engine
 * (exchange.h) carries them out. */
#ifndef SL_EXCHANGE_MOVE_H
#define SL_EXCHANGE_MOVE_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_exchange_kind {
  SL_EXCHANGE_SUM, /* the sums over all ranks replace data[0], on all ranks or on one; what the items hold then is
                      undefined elsewhere */
  SL_EXCHANGE_COPY /* one rank's data[0] replaces that of the others */
} sl_exchange_kind;
typedef struct sl_exchange_move {
  sl_exchange_kind kind;
  int rank;  /* SUM: who gets the sums, -1: all; COPY: whose data it is */
  int lossy; /* SUM: may be compressed between nodes: the same sum is formed round after round, and added up */
} sl_exchange_move;

#ifdef __cplusplus
}
#endif
#endif
