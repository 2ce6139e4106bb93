/* An exchange moves arrays between ranks while the ranks go on computing: sums, copies, gathers, scatters, sends and
 * receives (move.h), each on a group of ranks. Several implementations share this interface; sl_exchange_types lists
 * them. An implementation is a const descriptor at the bottom of its file: tree_make.c (a fixed tree, the same bits on
 * any number of ranks), mpi.c (MPI's collectives).
 *
 * The arrays that move together are a bucket. Buckets are declared once and posted once in every round (a training
 * step), from any thread, in any order. One thread of the exchange carries them out: within a group one after another
 * in the order in which they were added, between groups the most urgent first (sl_exchange_move.urgency). The messages
 * from one rank to another form a group of their own, and the messages in the other direction form another group. So no
 * deadlock is possible if all ranks add their buckets in one topological order of the step. To see this, take the first
 * unfinished bucket in that order. It is the next bucket of its group on every rank, and no task that its ranks must
 * run for it waits for a later bucket. Urgency does not hold it up for ever: a group that cannot move at the moment
 * lets the less urgent ones move. */
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

typedef struct sl_exchange sl_exchange;

/* An implementation: its name and what it can do. */
typedef struct sl_exchange_type {
  const char *name;    /* "tree" */
  const char *summary; /* completes "sums over ranks are formed by ..." */
  int same_bits;       /* sums have the same bits on any number of ranks */
  int compresses;      /* uses sl_exchange_options.compression */
  int shares_memory;   /* the ranks of a node share what sl_exchange_allocate returns, where the system allows it */
  int tells_whom;      /* sl_exchange_waits_for knows the ranks for every move; else only for some */
  int counts_bytes;    /* sl_exchange_sent and sl_exchange_memory are known; else 0 */
  const struct sl__exchange_functions *functions; /* engine.h */
} sl_exchange_type;

extern const sl_exchange_type *const sl_exchange_types[];   /* ends with NULL; the first is the default */
extern const char *const sl_exchange_names[];               /* their names, in the same order */
const sl_exchange_type *sl_exchange_find(const char *name); /* NULL: no such name */

/* A piece of a bucket: contiguous host memory. */
typedef struct sl_stretch {
  /* SUM: [sl_exchange_items] this rank's partial sums. Other moves: [1]; data[0] may be NULL where this rank neither
   * gives nor gets the stretch. */
  void *const *data;
  int64_t count; /* elements; may be 0 */
  int rank;      /* GATHER, SCATTER, SUM to SL_EXCHANGE_PARTS: the rank of the group whose part it is; else ignored */
} sl_stretch;

typedef struct sl_exchange_options {
  const sl_exchange_type *type; /* of sl_exchange_types */
  MPI_Comm comm;                /* copied; all its ranks take part */
  MPI_Comm node;                /* the ranks of comm that share memory with this one; MPI_COMM_NULL: ask MPI */
  int leaves;                   /* leaves of group 0's tree (leaves.h), >= ranks */
  const int *first;             /* [ranks + 1] rank r owns leaves [first[r], first[r + 1]) */
  int no_shared;                /* 1: messages only */
  sl_compression compression;   /* of lossy sums of F32 between nodes; all nodes get the same sums */
  size_t segment;               /* bytes that move at once; 0: the default */
  int ranks_per_node;           /* for tests: pretend that nodes have at most so many ranks; 0: the real nodes */
  const int *cpus;              /* operating-system numbers of the CPUs that the thread is bound to; copied */
  int ncpus;                    /* 0: not bound */
} sl_exchange_options;

/* Collective functions return the same status on all ranks that call them, whichever rank failed. All ranks call
 * sl_exchange_create, sl_exchange_allocate and sl_exchange_group; the ranks of the group call sl_exchange_add (SEND and
 * RECEIVE: the two ranks). Errors: SL_EINVAL, SL_ENOMEM, SL_EMPI, SL_EIO (no thread). After an error the exchange can
 * only be destroyed. */

/* Collective. SL_EINVAL also where a rank has no leaf. */
sl_status sl_exchange_create(const sl_exchange_options *options, sl_exchange **exchange);
/* Collective. Waits for all posted buckets. NULL is allowed. */
void sl_exchange_destroy(sl_exchange *exchange);

/* Collective over all ranks; before the first sl_exchange_add. Declares the group that this rank belongs to: rank[n]
 * are ascending ranks of the exchange, this one among them; all members pass the same list. So one call on all ranks
 * forms several groups, such as the rows of a mesh. n = 0: this rank is in none. leaves, first[n + 1]: the tree of the
 * group's sums and which leaves each member owns; first NULL: one leaf a member. *group is the number for
 * sl_exchange_move.group, the same on all ranks. */
sl_status sl_exchange_group(sl_exchange *exchange, const int *rank, int n, int leaves, const int *first, int *group);

/* Allocates memory for values that move. Collective, once, before sl_exchange_add. The memory lives as long as the
 * exchange; its contents are undefined. Where the ranks of a group share it (shares_memory), buckets that lie in it
 * move without a copy. */
sl_status sl_exchange_allocate(sl_exchange *exchange, size_t bytes, void **memory);

/* Declares a bucket. Collective over the move's ranks, before the first post; all of them pass the same arguments,
 * except for addresses. *bucket is its number on this rank, from 0. The memory must outlive the exchange. dtype: F32 or
 * F64 for SUM, any for the others, which move bytes. n = 0 (not for SUM): nothing moves, and the bucket ends when all
 * ranks of the group on this node have posted it: a barrier for memory that they share. */
sl_status sl_exchange_add(sl_exchange *exchange, sl_exchange_move move, sl_dtype dtype, const sl_stretch *stretch,
                          int n, int *bucket);
/* Marks a bucket ready: its data are final and may be overwritten. The exchange's thread calls done(arg) when this rank
 * has its results and nobody reads its memory any more; done must not wait. Post each bucket once a round; the next
 * round begins when all buckets of this round have been posted. Any thread may post. */
void sl_exchange_post(sl_exchange *exchange, int bucket, void (*done)(void *arg), void *arg);
/* Waits until all posted buckets have ended. Returns the first failure; after one nothing moves any more. */
sl_status sl_exchange_wait(sl_exchange *exchange);

const sl_exchange_type *sl_exchange_type_of(const sl_exchange *exchange);
int sl_exchange_items(const sl_exchange *exchange, int group); /* partial sums of this rank: whole subtrees */
/* Number of sets of ranks that share memory; if a group could not get shared memory, the number of ranks. The same on
 * all ranks. */
int sl_exchange_nodes(const sl_exchange *exchange);
/* Bytes that this rank has sent to other nodes. Between rounds. */
uint64_t sl_exchange_sent(const sl_exchange *exchange);
/* Resident bytes of this rank for the exchange, without the memory of its own sl_exchange_allocate: buffers, and the
 * part of other ranks' shared memory that this rank touches. */
size_t sl_exchange_memory(const sl_exchange *exchange);
/* Names the ranks that a stalled exchange waits for: sets *bucket to the bucket that waits (-1: none is under way) and
 * late[ranks] to 1 for each such rank of the exchange. Returns their number; 0 with a bucket: unknown. If it waits for
 * another node, it names all ranks of the group on that node. */
int sl_exchange_waits_for(sl_exchange *exchange, int *bucket, char *late);
/* Seconds since anything moved; 0 when nothing is under way. */
double sl_exchange_stalled(sl_exchange *exchange);

#ifdef __cplusplus
}
#endif
#endif
