/* The moves of an exchange: what happens to values that lie on several ranks of a group. Includes no MPI: the graph
 * names moves, and an exchange (exchange.h) carries them out.
 *
 * A move's values are stretches of memory (exchange.h). GATHER, SCATTER and SUM to parts treat each stretch as the part
 * of one rank; parts may differ in length and may be empty. */
#ifndef SL_EXCHANGE_MOVE_H
#define SL_EXCHANGE_MOVE_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_exchange_kind {
  SL_EXCHANGE_SUM,     /* the sum over the group replaces data[0] on `rank`; elsewhere the data become undefined */
  SL_EXCHANGE_COPY,    /* the data of `rank` replace those of all others */
  SL_EXCHANGE_GATHER,  /* `rank` gets the part of every rank */
  SL_EXCHANGE_SCATTER, /* every rank gets its part of the data of `rank` */
  SL_EXCHANGE_SEND,    /* to `rank`, which adds a RECEIVE; only these two add and post it */
  SL_EXCHANGE_RECEIVE, /* from `rank`, which adds a SEND */
  SL_EXCHANGE_KINDS
} sl_exchange_kind;

enum {
  SL_EXCHANGE_ALL = -1,  /* as rank of SUM (allreduce) and GATHER (allgather): every rank of the group */
  SL_EXCHANGE_PARTS = -2 /* as rank of SUM (reduce-scatter): the sum of each part goes to the part's rank */
};

/* With three or more nodes, a COPY or a SUM for one rank is relayed if it has at least this many bytes. COPY: the node
 * of `rank` sends each other node one part, and the nodes send their parts to one another. SUM: every node adds up one
 * part and sends it to the node of `rank`. So the node of `rank` moves the bytes twice instead of once for each other
 * node (scatter and allgather: Thakur, Rabenseifner, Gropp 2005). Shorter moves go directly, which saves a latency. */
enum { SL_EXCHANGE_RELAYED_BYTES = 16384 };

typedef struct sl_exchange_move {
  sl_exchange_kind kind;
  int rank;  /* of the group: 0 to its ranks - 1, or one of the names above */
  int lossy; /* SUM: may be compressed between nodes; what one round leaves out is added in the next */
  int group; /* number from sl_exchange_group; 0: all ranks */
  /* How much of the step depends on this move, >= 0, such as the path from it to the end of the step. Of the groups
   * with posted buckets, the one with the most urgent bucket moves first. It may differ between ranks; the largest
   * counts. */
  double urgency;
} sl_exchange_move;

#ifdef __cplusplus
}
#endif
#endif
