/* The exchange engine: sums arrays over all ranks along a fixed binary tree, for all ranks or for one, and copies one
 * rank's arrays to the others, while the ranks go on computing.
 *
 * The tree is over leaves (leaves.h), so sums have the same bits for any number of ranks. A rank owns consecutive
 * leaves and brings the sums of the largest whole subtrees within them, its items. Bytes move in segments through a
 * pipeline: ranks of a node meet in shared memory, each adding up a part of the segment; one rank a node exchanges what
 * is left with the other nodes, by reduce-scatter and allgather. A progress thread does all of it, in the order of the
 * buckets' numbers, whatever the order in which they are posted. */
#ifndef SL_EXCHANGE_H
#define SL_EXCHANGE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/exchange/compress.h"
#include "runtime/exchange/leaves.h"
#include "runtime/exchange/move.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a bucket's elements are: stretches of host memory. */
typedef struct sl_stretch {
  void *const *data; /* [items of this rank]; of what is copied [1] */
  int64_t count;     /* elements */
} sl_stretch;

typedef struct sl_exchange_options {
  MPI_Comm comm;              /* copied; all its ranks take part */
  MPI_Comm node;              /* its ranks that share memory; MPI_COMM_NULL: found out */
  int leaves;                 /* of the tree, >= ranks */
  const int *first;           /* [ranks + 1] rank r owns leaves [first[r], first[r + 1]) */
  int no_shared;              /* 1: messages only */
  sl_compression compression; /* of lossy sums of F32 between nodes; on all nodes the sums are the same */
  size_t segment;             /* bytes that move at once; 0: the usual */
  int ranks_per_node;         /* for tests: pretend that nodes are smaller; 0: as it is */
  const int *cpus;            /* operating-system numbers of the CPUs that the thread is bound to; copied */
  int ncpus;                  /* 0: not bound */
} sl_exchange_options;

typedef struct sl_exchange sl_exchange;

/* Collective. SL_EINVAL (leaves), SL_EMPI, SL_ENOMEM; the same status on all ranks. */
sl_status sl_exchange_create(const sl_exchange_options *options, sl_exchange **exchange);
/* Collective; waits for what is under way. NULL is allowed. */
void sl_exchange_destroy(sl_exchange *exchange);

/* Memory for what is to be exchanged, once, before buckets are added; lives as long as the engine. Where all ranks are
 * on one node they share it, and buckets that lie in it are added up in place, without a copy. Collective; contents
 * undefined. */
sl_status sl_exchange_allocate(sl_exchange *exchange, size_t bytes, void **memory);
/* Collective. Declares bucket 0, 1, ... before the first step, the same on all ranks but for addresses; its memory
 * stays until the end. dtype F32 or F64. Without elements (n = 0, COPY) nothing moves, and it ends when all ranks of
 * the node have posted it: a barrier for memory that they have in common. */
sl_status sl_exchange_add(sl_exchange *exchange, sl_exchange_move move, sl_dtype dtype, const sl_stretch *stretch,
                          int n, int *bucket);
/* Says that a bucket's items hold what is to be summed or copied, and that its memory may be written. done(arg) is
 * called by the progress thread when what this rank is to get is there and nobody reads its memory any more; it must
 * not wait. Each bucket once a round; the next round begins when all buckets of this one have been
 * posted. Any thread. */
void sl_exchange_post(sl_exchange *exchange, int bucket, void (*done)(void *arg), void *arg);
/* Waits until all that was posted has ended; the first failure. */
sl_status sl_exchange_wait(sl_exchange *exchange);

int sl_exchange_items(const sl_exchange *exchange); /* of this rank */
int sl_exchange_nodes(const sl_exchange *exchange); /* groups of ranks that share memory */
uint64_t sl_exchange_sent(
    const sl_exchange *exchange); /* bytes that this rank has sent to other nodes; between rounds */
/* Bytes that this rank has resident for it, beside its own of sl_exchange_allocate: buffers, and what it touches of
 * other ranks' memory. */
size_t sl_exchange_memory(const sl_exchange *exchange);
/* Which ranks an exchange that does not go on waits for: late[ranks] is 1 for them, and *bucket its bucket. Of another
 * node all ranks are meant. Returns how many; 0 when nothing is under way. */
int sl_exchange_waits_for(sl_exchange *exchange, int *bucket, char *late);
/* Seconds since anything moved; 0 when nothing is under way. */
double sl_exchange_stalled(sl_exchange *exchange);

#ifdef __cplusplus
}
#endif
#endif
