/* Shared by the files of the tree: tree.c (phases inside a node, the thread's work), tree_nodes.c (phase between
 * nodes), tree_make.c (nodes, items, memory, buckets; the descriptor). Private to runtime/exchange. */
#ifndef SL_EXCHANGE_TREE_H
#define SL_EXCHANGE_TREE_H

#include "runtime/exchange/engine.h"

extern const sl_exchange_type sl__exchange_tree;

enum { SL__DEPTH = 4, SL__LINE = 64 }; /* segments under way at once; bytes of a cache line */

/* Number of segments that a rank has passed through each phase since the start. One cache line each, since other ranks
 * poll them. */
typedef struct sl__reached {
  _Alignas(SL__LINE) atomic_uint_least64_t value;
} sl__reached;
typedef struct sl__board {
  sl__reached filled, reduced, ready, taken; /* ready: set by a node's leader where there are several nodes */
} sl__board;

/* One addition of the tree: item `to` += item `from`. */
typedef struct sl__addition {
  int to, from;
} sl__addition;
typedef struct sl__additions {
  sl__addition *step;
  int n;
} sl__additions;

/* The unit of movement: elements of one leg (engine.h). */
typedef struct sl__segment {
  int64_t at, count; /* elements of the bucket */
  int from, to;      /* the leg's: ranks of the group or SL_EXCHANGE_ALL */
} sl__segment;

/* The tree's part of a bucket. */
typedef struct sl__cargo {
  sl__bucket *b;
  sl__segment *segment;
  int n;           /* segments, at least 1: an empty bucket has an empty one */
  int relayed;     /* 1: nodes pass on parts of it (SL_EXCHANGE_RELAYED_BYTES) */
  void ***shared;  /* = item if the bucket is exchanged in place; else NULL */
  void ***item;    /* [stretches][items of the node's ranks] addresses in this process */
  int64_t *own;    /* [stretches][items] bytes from the start of this rank's arena; -1: this rank lacks the item, -2: it
                      lies outside the arena */
  int64_t *offset; /* the tables `own` of all ranks of the node, one after another */
  int *part;       /* [2][locals] of each rank's table: number of entries, index of the first one in `offset` */
  float *residual; /* [node's items][count] what this leader's compressed messages left out; NULL: not compressed */
} sl__cargo;

/* A phase's place in the lane's endless sequence of segments. The exchange's thread writes it; another thread may read
 * number and bucket (sl__number_of), to see where a stalled exchange stands. */
typedef struct sl__cursor {
  uint64_t number;     /* segments before it since the start */
  int bucket, segment; /* index of the bucket in the lane, of the segment in the bucket */
  uint64_t round;      /* rounds before it */
} sl__cursor;

/* A segment between the nodes: the leader's messages. */
typedef struct sl__crossing {
  int phase;            /* 0: not begun, 1: partial sums on their way, 2: results on their way, 3: done */
  int left;             /* unfinished requests */
  atomic_int n;         /* requests; waits_for of another thread reads it and peer, too */
  MPI_Request *request; /* [most_requests] */
  atomic_int *peer;     /* [most_requests] the node at the other end */
  int *done;            /* [most_requests] */
  MPI_Status *status;   /* [most_requests] */
} sl__crossing;

/* A group's tree, its memory, and the progress of its segments. "Items" are partial sums of whole subtrees: a rank has
 * those of its leaves, a node has those of its ranks' leaves. */
typedef struct sl__lane {
  sl_exchange *e;
  sl__group *group;
  MPI_Comm node, leaders; /* leaders: MPI_COMM_NULL on others */
  int local, locals, my_node, nodes;
  int *node_rank;   /* [nodes + 1] first rank of each node */
  int *local_items; /* [locals + 1] offsets into the table of the node's ranks' items */
  int *node_items;  /* [nodes + 1] offsets into the table of nodes' items */
  int *place;       /* [node's items] which of the ranks' items holds it after the additions inside the node */
  sl__additions inside, across;
  size_t segment; /* bytes */
  MPI_Win window;
  void *private_memory;
  sl__board *boards;       /* [locals] */
  char *slab;              /* [SL__DEPTH][ranks' items of the node][segment] */
  char *received;          /* leader: [SL__DEPTH][nodes' items][largest part of a segment] */
  char *packed, *unpacked; /* leader: [SL__DEPTH][packed_slots][packed_most] compressed messages, out and in */
  size_t part_most, packed_most, memory;
  int packed_slots;
  sl__crossing crossing[SL__DEPTH];
  int most_requests;
  /* The next segment of each phase on this rank. Between nodes, for the leader only: cross is the next segment to
   * begin, ready the oldest one that has begun and not ended. */
  sl__cursor fill, reduce, cross, ready, take;
} sl__lane;

typedef struct sl__tree {
  sl_exchange base;
  int *node_of;        /* [ranks] the first rank of each rank's node */
  MPI_Comm node;       /* the ranks of this node */
  int local, locals;   /* in it */
  MPI_Win bell_window; /* MPI_WIN_NULL: every rank is a node of its own */
  sl__bell *bells;     /* [locals] */
  sl_compression compression;
  size_t segment; /* bytes asked for; 0: the default */
  char *arena;    /* sl_exchange_allocate's */
  size_t arena_bytes;
  MPI_Win arena_window; /* MPI_WIN_NULL: not shared */
  char **base_of;       /* [locals] addresses of the ranks' arenas in this process */
  char *touched;        /* [locals][windows] 1: this rank touches that window of that arena (sl_exchange_memory) */
  size_t windows;       /* windows of 64 KiB in the largest arena */
  uint64_t sent;
  size_t memory;
} sl__tree;

/* The thread's work: moves segments of the most urgent lane that can move. */
sl__found sl__tree_advance(sl_exchange *e);
int sl__tree_waits_for(sl_exchange *e, const sl__group *g, const sl__bucket **bucket, char *late);

/* Memory for the messages of a leader. SL_ENOMEM. */
sl_status sl__crossings_prepare(sl__lane *l);
void sl__crossings_release(sl__lane *l);
/* Moves the segments between the nodes, oldest first; they end in order. Returns 1 if anything moved. */
int sl__lane_cross(sl__lane *l);

static inline sl__cargo *sl__cargo_at(const sl__lane *l, int bucket) { return l->group->row[bucket]->own; }

static inline const sl__segment *sl__segment_at(const sl__lane *l, const sl__cursor *c) {
  return &sl__cargo_at(l, c->bucket)->segment[c->segment];
}

/* Address of an item of the node's ranks, in the slab of a segment. */
static inline char *sl__item_memory(const sl__lane *l, uint64_t number, int item) {
  const size_t all = (size_t)l->local_items[l->locals];
  return l->slab + ((size_t)(number % SL__DEPTH) * all + (size_t)item) * l->segment;
}

/* The node of a rank of the group. */
static inline int sl__node_of(const sl__lane *l, int rank) {
  int node = 0;
  while (l->node_rank[node + 1] <= rank) node++;
  return node;
}

static inline size_t sl__round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Elements of part i of n of a segment of `count` elements. Parts are whole cache lines, so that no two ranks share
 * one.
 */
static inline void sl__part_of(int64_t count, size_t width, int i, int n, int64_t *from, int64_t *to) {
  const int64_t line = SL__LINE / (int64_t)width, lines = (count + line - 1) / line;
  *from = lines * i / n * line;
  *to = lines * (i + 1) / n * line;
  if (*from > count) *from = count;
  if (*to > count) *to = count;
}

/* Reads a cursor from another thread than the exchange's. */
static inline uint64_t sl__number_of(const sl__cursor *c) { return __atomic_load_n(&c->number, __ATOMIC_RELAXED); }

/* Goes to the next segment. Returns 1 if the old one was the last of its bucket. */
static inline int sl__step_on(const sl__lane *l, sl__cursor *c) {
  __atomic_store_n(&c->number, c->number + 1, __ATOMIC_RELAXED);
  if (++c->segment < sl__cargo_at(l, c->bucket)->n) return 0;
  c->segment = 0;
  __atomic_store_n(&c->bucket, (c->bucket + 1) % l->group->n, __ATOMIC_RELAXED);
  c->round += c->bucket == 0;
  return 1;
}

/* The progress of the node's slowest rank. */
static inline uint64_t sl__least(const sl__lane *l, size_t offset) {
  uint64_t all = UINT64_MAX;
  for (int i = 0; i < l->locals; i++) {
    const sl__reached *c = (const sl__reached *)((const char *)&l->boards[i] + offset);
    const uint64_t v = atomic_load_explicit(&c->value, memory_order_acquire);
    if (v < all) all = v;
  }
  return all;
}
#define SL__LEAST(l, which) sl__least(l, offsetof(sl__board, which))

static inline void sl__set(sl__reached *c, uint64_t value) {
  atomic_store_explicit(&c->value, value, memory_order_release);
}

#endif
