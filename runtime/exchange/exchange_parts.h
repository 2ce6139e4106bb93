/* What the files of the exchange engine share: exchange.c (the stages inside a node, the thread), exchange_nodes.c (the
 * stage between nodes), exchange_make.c (making one). Private to runtime/. */
#ifndef SL_EXCHANGE_PARTS_H
#define SL_EXCHANGE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/exchange/exchange.h"
#include "runtime/machine/comm.h"

enum { SL__DEPTH = 4, SL__LINE = 64 }; /* segments under way at once; bytes of a cache line */

/* How far a rank of the node is: numbers of segments, ever. Each on a line of its own, since others poll it. */
typedef struct sl__reached {
  _Alignas(SL__LINE) atomic_uint_least64_t value;
} sl__reached;
typedef struct sl__board {
  sl__reached filled, reduced, ready, taken; /* ready: of a leader among several nodes */
  _Alignas(SL__LINE) atomic_uint event;      /* goes up whenever the rank may have something to do; it sleeps on it */
  atomic_int asleep;
} sl__board;

/* One addition of the tree: item `to` += item `from`. */
typedef struct sl__addition {
  int to, from;
} sl__addition;
typedef struct sl__additions {
  sl__addition *step;
  int n;
} sl__additions;

typedef struct sl__stretch {
  int64_t begin, count; /* elements of the bucket */
  void **mine;          /* [items of this rank] */
  void **node;          /* [items of the node's ranks] where they are in this process; NULL: not shared */
} sl__stretch;

typedef struct sl__bucket {
  sl_exchange_move move;
  int owner; /* move.rank within this node; -1: all, or of another node */
  int home;  /* its node; -1: all */
  sl_dtype dtype;
  sl__stretch *stretch;
  int n;
  int64_t count; /* elements in all */
  int direct;    /* added up where the ranks have them */
  float *lacks;  /* compressed: [node's items][count] what this leader's messages lacked; NULL: not compressed */
  int posted;    /* to be filled; guarded by lock */
  int open;      /* posted and not ended; likewise */
  void (*done)(void *arg);
  void *arg;
} sl__bucket;

/* Where in the row of segments a stage is. */
typedef struct sl__cursor {
  uint64_t number; /* segments before it, ever */
  int bucket;
  int64_t at;     /* element of the bucket */
  uint64_t round; /* of all buckets */
} sl__cursor;

/* A segment between the nodes: the leader's messages. */
typedef struct sl__crossing {
  int stage;            /* 0: not begun, 1: parts on their way, 2: sums on their way */
  int n, left;          /* requests, those not done */
  MPI_Request *request; /* [most_requests] */
  int *peer;            /* [most_requests] the node that each has to do with */
  int *done;            /* [most_requests] */
  MPI_Status *status;   /* [most_requests] */
} sl__crossing;

struct sl_exchange {
  MPI_Comm comm, node, leaders; /* leaders: MPI_COMM_NULL on others */
  int rank, ranks, local, locals, my_node, nodes;
  int leaves;
  int *first;       /* [ranks + 1] */
  int *node_rank;   /* [nodes + 1] first rank of each node */
  int *local_items; /* [locals + 1] offsets into the node's table of ranks' items */
  int items;        /* of this rank */
  int *node_items;  /* [nodes + 1] offsets into the table of nodes' items */
  int *place;       /* [node's items] which of the ranks' items holds it after the additions inside the node */
  sl__additions inside, across;
  size_t segment; /* bytes */
  MPI_Win window;
  void *private_memory;
  sl__board *boards;       /* [locals] */
  char *slab;              /* [SL__DEPTH][ranks' items of the node][segment] */
  char *received;          /* leader: [SL__DEPTH][nodes' items][largest part of a segment] */
  char *packed, *unpacked; /* leader: [SL__DEPTH][packed_slots][packed_most] messages to be sent; received */
  size_t part_most, memory, packed_most;
  int packed_slots;
  sl_compression compression;
  uint64_t sent;
  sl__crossing crossing[SL__DEPTH];
  int most_requests;
  void *arena; /* sl_exchange_allocate's */
  size_t arena_bytes;
  MPI_Win arena_window; /* MPI_WIN_NULL: not shared */
  char **base;          /* [locals] the ranks' arenas, where they are in this process */
  sl__bucket *bucket;
  int n_buckets;
  sl__cursor fill, reduce, cross, ready, take; /* the thread's; cross: begun, ready: ended, by the leader */
  pthread_t thread;
  int started, stopping;
  pthread_mutex_t lock; /* guards posted, open, pending, stopping, status */
  pthread_cond_t idle;
  int pending; /* posted and not ended */
  sl_status status;
  char error[512];
  int *cpus, ncpus;
  _Atomic double moved; /* time of the last progress */
};

/* The thread of exchange.c; arg: the engine. */
void *sl__exchange_run(void *arg);
/* For leaders of several nodes: memory for their messages. SL_ENOMEM. */
sl_status sl__crossings_prepare(sl_exchange *e);
void sl__crossings_release(sl_exchange *e);
/* Moves the segments between the nodes on, oldest first; they end in order. Whether anything moved. */
int sl__exchange_cross(sl_exchange *e);

/* Of the node's table of ranks' items, in the slab of a segment. */
static inline char *sl__item_memory(const sl_exchange *e, uint64_t number, int item) {
  const size_t all = (size_t)e->local_items[e->locals];
  return e->slab + ((size_t)(number % SL__DEPTH) * all + (size_t)item) * e->segment;
}

static inline size_t sl__round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Elements of part i of n of a segment of `count` elements: whole lines, so that ranks share none. */
static inline void sl__part_of(int64_t count, size_t bytes, int i, int n, int64_t *from, int64_t *to) {
  const int64_t line = SL__LINE / (int64_t)bytes, lines = (count + line - 1) / line;
  *from = lines * i / n * line;
  *to = lines * (i + 1) / n * line;
  if (*from > count) *from = count;
  if (*to > count) *to = count;
}

static inline void sl__add(void *to, const void *from, int64_t n, sl_dtype dtype) {
  if (dtype == SL_F32) {
    float *restrict a = to;
    const float *restrict b = from;
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
  } else {
    double *restrict a = to;
    const double *restrict b = from;
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
  }
}

/* Sums that cross to one node whole come in shorter segments: there is room for a part of the usual one. */
static inline int64_t sl__segment_count(const sl_exchange *e, const sl__cursor *c) {
  const sl__bucket *b = &e->bucket[c->bucket];
  const size_t bytes = b->move.kind == SL_EXCHANGE_SUM && b->home >= 0 ? e->segment / (size_t)e->nodes : e->segment;
  const int64_t most = (int64_t)(bytes / sl_dtype_bytes(b->dtype)), left = b->count - c->at;
  return left < most ? left : most;
}

/* Goes to the next segment; 1 when that was the last of its bucket. */
static inline int sl__advance(const sl_exchange *e, sl__cursor *c) {
  c->at += sl__segment_count(e, c);
  c->number++;
  if (c->at < e->bucket[c->bucket].count) return 0;
  c->at = 0;
  c->bucket = (c->bucket + 1) % e->n_buckets;
  c->round += c->bucket == 0;
  return 1;
}

/* How far the slowest rank of the node is. */
static inline uint64_t sl__least(const sl_exchange *e, size_t offset) {
  uint64_t all = UINT64_MAX;
  for (int i = 0; i < e->locals; i++) {
    const sl__reached *c = (const sl__reached *)((const char *)&e->boards[i] + offset);
    const uint64_t v = atomic_load_explicit(&c->value, memory_order_acquire);
    if (v < all) all = v;
  }
  return all;
}
#define SL__LEAST(e, which) sl__least(e, offsetof(sl__board, which))

static inline void sl__set(sl__reached *c, uint64_t value) {
  atomic_store_explicit(&c->value, value, memory_order_release);
}

void sl__exchange_wake(sl__board *b); /* its rank may have something to do */

#endif
