/* The exchange engine.
 *
 * The buckets of a round are one endless row of segments. A segment passes four stages, each on all ranks: filled
 * (every rank has put its items into shared memory), reduced (every rank has added up its part of the segment, into the
 * place of the node's items), ready (the leader has summed the node's items with those of the other nodes) and taken
 * (every rank has copied the sums back). DEPTH segments are under way at once, so that the stages overlap; the counters
 * of how far each rank is lie in the shared memory too. Without shared memory every rank is a node of its own.
 *
 * Between nodes lossy sums can be compressed: leaders pack their parts and later the sums of their own part, with what
 * earlier messages lacked, and unpack the others'. The own part is unpacked too, so that all nodes have the same sums.
 *
 * Sums for one rank are taken by that rank only, and cross to its node whole instead of in parts. What is copied is
 * filled in by one rank, crosses from its node, and is taken by the others. */
#include "runtime/exchange.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm.h"

enum { DEPTH = 4, LINE = 64, PAGE = 4096 };
#define SEGMENT_SHARED ((size_t)256 << 10) /* stays in the caches between a rank's write and another's read */
#define SEGMENT_MESSAGES ((size_t)1 << 20) /* long enough to hide a message's latency, short enough to overlap */

/* How far a rank of the node is: numbers of segments, ever. Each on a line of its own, since others poll it. */
typedef struct counter {
  _Alignas(LINE) atomic_uint_least64_t value;
} counter;
typedef struct board {
  counter filled, reduced, ready, taken; /* ready: of a leader among several nodes */
  _Alignas(LINE) atomic_uint event;      /* goes up whenever the rank may have something to do; it sleeps on it */
  atomic_int asleep;
} board;

/* One addition of the tree: item `to` += item `from`. */
typedef struct addition {
  int to, from;
} addition;
typedef struct program {
  addition *step;
  int n;
} program;

typedef struct stretch {
  int64_t begin, count; /* elements of the bucket */
  void **mine;          /* [items of this rank] */
  void **node;          /* [items of the node's ranks] where they are in this process; NULL: not shared */
} stretch;

typedef struct bucket {
  sl_exchange_move move;
  int owner; /* move.rank within this node; -1: all, or of another node */
  int home;  /* its node; -1: all */
  sl_dtype dtype;
  stretch *stretch;
  int n;
  int64_t count; /* elements in all */
  int direct;    /* added up where the ranks have them */
  float *lacks;  /* compressed: [node's items][count] what this leader's messages lacked; NULL: not compressed */
  int posted;    /* to be filled; guarded by lock */
  int open;      /* posted and not ended; likewise */
  void (*done)(void *arg);
  void *arg;
} bucket;

/* Where in the row of segments a stage is. */
typedef struct cursor {
  uint64_t number; /* segments before it, ever */
  int bucket;
  int64_t at;     /* element of the bucket */
  uint64_t round; /* of all buckets */
} cursor;

/* A segment between the nodes: the leader's messages. */
typedef struct crossing {
  int stage;            /* 0: not begun, 1: parts on their way, 2: sums on their way */
  int n, left;          /* requests, those not done */
  MPI_Request *request; /* [most_requests] */
  int *peer;            /* [most_requests] the node that each has to do with */
  int *done;            /* [most_requests] */
  MPI_Status *status;   /* [most_requests] */
} crossing;

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
  program inside, across;
  size_t segment; /* bytes */
  MPI_Win window;
  void *private_memory;
  board *boards;           /* [locals] */
  char *slab;              /* [DEPTH][ranks' items of the node][segment] */
  char *received;          /* leader: [DEPTH][nodes' items][largest part of a segment] */
  char *packed, *unpacked; /* leader: [DEPTH][packed_slots][packed_most] messages to be sent; received */
  size_t part_most, memory, packed_most;
  int packed_slots;
  sl_compression compression;
  uint64_t sent;
  crossing crossing[DEPTH];
  int most_requests;
  void *arena; /* sl_exchange_allocate's */
  size_t arena_bytes;
  MPI_Win arena_window; /* MPI_WIN_NULL: not shared */
  char **base;          /* [locals] the ranks' arenas, where they are in this process */
  bucket *bucket;
  int n_buckets;
  cursor fill, reduce, cross, ready, take; /* the thread's; cross: begun, ready: ended, by the leader */
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

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the tree --------------------------------------------------------------------------------------------------- */

/* The additions that make the subtree over [first, first + n) of the items, which are ascending and whole subtrees. */
static int sum(program *p, const sl_leaves *items, int count, int first, int n) {
  for (int i = 0; i < count; i++)
    if (items[i].first == first && items[i].n == n) return i;
  const int half = sl_left_branch(n), to = sum(p, items, count, first, half),
            from = sum(p, items, count, first + half, n - half);
  p->step[p->n++] = (addition){to, from};
  return to;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static char *item_memory(const sl_exchange *e, uint64_t number, int item) {
  const size_t all = (size_t)e->local_items[e->locals];
  return e->slab + ((size_t)(number % DEPTH) * all + (size_t)item) * e->segment;
}

static char *received_memory(const sl_exchange *e, uint64_t number, int item) {
  return e->received + ((size_t)(number % DEPTH) * (size_t)e->node_items[e->nodes] + (size_t)item) * e->part_most;
}

/* Messages of a segment: a node's items for the nodes, or those of the nodes' items; then the sums, of each node. */
static char *packed_memory(const sl_exchange *e, char *memory, uint64_t number, int slot) {
  return memory + ((size_t)(number % DEPTH) * (size_t)e->packed_slots + (size_t)slot) * e->packed_most;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Elements of part i of n of a segment of `count` elements: whole lines, so that ranks share none. */
static void part_of(int64_t count, size_t bytes, int i, int n, int64_t *from, int64_t *to) {
  const int64_t line = LINE / (int64_t)bytes, lines = (count + line - 1) / line;
  *from = lines * i / n * line;
  *to = lines * (i + 1) / n * line;
  if (*from > count) *from = count;
  if (*to > count) *to = count;
}

static void add(void *to, const void *from, int64_t n, sl_dtype dtype) {
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

/* ---- segments --------------------------------------------------------------------------------------------------- */

/* Sums that cross to one node whole come in shorter segments: there is room for a part of the usual one. */
static int64_t segment_count(const sl_exchange *e, const cursor *c) {
  const bucket *b = &e->bucket[c->bucket];
  const size_t bytes = b->move.kind == SL_EXCHANGE_SUM && b->home >= 0 ? e->segment / (size_t)e->nodes : e->segment;
  const int64_t most = (int64_t)(bytes / sl_dtype_bytes(b->dtype)), left = b->count - c->at;
  return left < most ? left : most;
}

/* The elements of a segment of `count` that node k adds up, or has. */
static void part_of_node(const sl_exchange *e, const bucket *b, int64_t count, int k, int64_t *from, int64_t *to) {
  if (b->home < 0) {
    part_of(count, sl_dtype_bytes(b->dtype), k, e->nodes, from, to);
  } else {
    *from = 0;
    *to = k == b->home ? count : 0;
  }
}

/* Goes to the next segment; 1 when that was the last of its bucket. */
static int advance(const sl_exchange *e, cursor *c) {
  c->at += segment_count(e, c);
  c->number++;
  if (c->at < e->bucket[c->bucket].count) return 0;
  c->at = 0;
  c->bucket = (c->bucket + 1) % e->n_buckets;
  c->round += c->bucket == 0;
  return 1;
}

/* The stretch that an element of the bucket lies in. */
static const stretch *stretch_at(const bucket *b, int64_t element) {
  int low = 0, high = b->n - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (b->stretch[middle].begin <= element)
      low = middle;
    else
      high = middle - 1;
  }
  return &b->stretch[low];
}

/* Copies the segment's elements of one item between the bucket's stretches and memory. */
static void copy(const sl_exchange *e, const cursor *c, int item, char *memory, int out) {
  const bucket *b = &e->bucket[c->bucket];
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int64_t end = c->at + segment_count(e, c);
  const stretch *s = stretch_at(b, c->at);
  for (int64_t at = c->at; at < end; s++) {
    const int64_t to = s->begin + s->count < end ? s->begin + s->count : end;
    const size_t n = (size_t)(to - at) * bytes;
    char *data = (char *)s->mine[item] + (size_t)(at - s->begin) * bytes;
    memcpy(out ? data : memory, out ? memory : data, n);
    memory += n, at = to;
  }
}

static uint64_t least(const sl_exchange *e, size_t offset) {
  uint64_t all = UINT64_MAX;
  for (int i = 0; i < e->locals; i++) {
    const counter *c = (const counter *)((const char *)&e->boards[i] + offset);
    const uint64_t v = atomic_load_explicit(&c->value, memory_order_acquire);
    if (v < all) all = v;
  }
  return all;
}
#define LEAST(e, which) least(e, offsetof(board, which))

static void set(counter *c, uint64_t value) { atomic_store_explicit(&c->value, value, memory_order_release); }

static void wake(board *b) {
  atomic_fetch_add(&b->event, 1);
  if (atomic_load(&b->asleep)) syscall(SYS_futex, &b->event, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Until an event after `seen`. A thread that slept runs at once when it is woken, ahead of workers that compute; one
 * that polls and yields would wait for their slices of time. */
static void sleep_after(board *b, unsigned seen) {
  const struct timespec most = {.tv_nsec = 100000000};
  atomic_store(&b->asleep, 1);
  syscall(SYS_futex, &b->event, FUTEX_WAIT, seen, &most, NULL, 0);
  atomic_store(&b->asleep, 0);
}

static int try_fill(sl_exchange *e) {
  pthread_mutex_lock(&e->lock);
  const int posted = e->n_buckets > 0 && e->bucket[e->fill.bucket].posted && e->status == SL_OK;
  pthread_mutex_unlock(&e->lock);
  if (!posted) return 0;
  const int b = e->fill.bucket, direct = e->bucket[b].direct, sums = e->bucket[b].move.kind == SL_EXCHANGE_SUM;
  if (!direct && e->fill.number >= LEAST(e, taken) + DEPTH) return 0;
  for (int i = 0; i < e->items && !direct && sums; i++)
    copy(e, &e->fill, i, item_memory(e, e->fill.number, e->local_items[e->local] + i), 0);
  if (!direct && !sums && e->bucket[b].owner == e->local) copy(e, &e->fill, 0, item_memory(e, e->fill.number, 0), 0);
  if (advance(e, &e->fill)) {
    pthread_mutex_lock(&e->lock);
    e->bucket[b].posted = 0; /* it may be posted for the next round once its sums are there */
    pthread_mutex_unlock(&e->lock);
  }
  set(&e->boards[e->local].filled, e->fill.number);
  return 1;
}

enum { BLOCK = 16384 }; /* bytes that are added up at once, out of the innermost caches */

/* This rank's part of a segment, in the slabs. */
static void reduce_slabs(sl_exchange *e, int64_t from, int64_t to, sl_dtype dtype) {
  const size_t bytes = sl_dtype_bytes(dtype);
  const int64_t block = BLOCK / (int64_t)bytes;
  for (int64_t at = from; at < to; at += block) {
    const int64_t n = to - at < block ? to - at : block;
    for (int i = 0; i < e->inside.n; i++)
      add(item_memory(e, e->reduce.number, e->inside.step[i].to) + (size_t)at * bytes,
          item_memory(e, e->reduce.number, e->inside.step[i].from) + (size_t)at * bytes, n, dtype);
  }
}

/* The same where the ranks have their items, whose first ones get the sums: no copy, and every byte comes from memory
 * once and goes there once. */
static void reduce_direct(sl_exchange *e, int64_t from, int64_t to, const bucket *b) {
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int64_t block = BLOCK / (int64_t)bytes;
  const stretch *s = stretch_at(b, from);
  for (int64_t at = from; at < to;) {
    if (at == s->begin + s->count) s++;
    int64_t n = to - at < block ? to - at : block;
    if (n > s->begin + s->count - at) n = s->begin + s->count - at;
    const size_t offset = (size_t)(at - s->begin) * bytes;
    for (int i = 0; i < e->inside.n; i++)
      add((char *)s->node[e->inside.step[i].to] + offset, (char *)s->node[e->inside.step[i].from] + offset, n,
          b->dtype);
    for (int r = 1; r < e->locals; r++)
      if (b->owner < 0 || b->owner == r)
        memcpy((char *)s->node[e->local_items[r]] + offset, (char *)s->node[0] + offset, (size_t)n * bytes);
    at += n;
  }
}

/* Copies elements from where the owner has them. */
static void copy_direct(const sl_exchange *e, int64_t from, int64_t to, const bucket *b) {
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int owners = e->local_items[b->owner], mine = e->local_items[e->local];
  if (b->owner == e->local) return;
  for (const stretch *s = stretch_at(b, from); from < to; s++) {
    const int64_t end = s->begin + s->count < to ? s->begin + s->count : to;
    const size_t offset = (size_t)(from - s->begin) * bytes;
    memcpy((char *)s->node[mine] + offset, (const char *)s->node[owners] + offset, (size_t)(end - from) * bytes);
    from = end;
  }
}

static int try_reduce(sl_exchange *e) {
  if (e->reduce.number >= e->fill.number || LEAST(e, filled) <= e->reduce.number) return 0;
  const bucket *b = &e->bucket[e->reduce.bucket];
  const int64_t count = segment_count(e, &e->reduce);
  int64_t from, to;
  part_of(count, sl_dtype_bytes(b->dtype), e->local, e->locals, &from, &to);
  if (b->move.kind == SL_EXCHANGE_COPY) {
    if (b->direct) copy_direct(e, e->reduce.at, e->reduce.at + count, b);
  } else if (!b->direct)
    reduce_slabs(e, from, to, b->dtype);
  else if (from < to)
    reduce_direct(e, e->reduce.at + from, e->reduce.at + to, b);
  advance(e, &e->reduce);
  set(&e->boards[e->local].reduced, e->reduce.number);
  return 1;
}

/* ---- between nodes ---------------------------------------------------------------------------------------------- */

static void fail(sl_exchange *e, int code, const char *what) {
  if (e->status != SL_OK) return;
  const sl_status status = sl_comm_status(code, what);
  pthread_mutex_lock(&e->lock);
  snprintf(e->error, sizeof e->error, "%s", sl_error());
  e->status = status;
  pthread_mutex_unlock(&e->lock);
}

static void request(sl_exchange *e, crossing *x, int code, int peer, const char *what) {
  x->peer[x->n++] = peer;
  x->left = x->n;
  if (code == MPI_SUCCESS) return;
  x->request[x->n - 1] = MPI_REQUEST_NULL;
  fail(e, code, what);
}

static void send_to(sl_exchange *e, crossing *x, const void *data, size_t bytes, int node, int tag) {
  e->sent += bytes;
  request(e, x, MPI_Isend(data, (int)bytes, MPI_BYTE, node, tag, e->leaders, &x->request[x->n]), node, "MPI_Isend");
}

static void receive_from(sl_exchange *e, crossing *x, void *data, size_t bytes, int node, int tag) {
  request(e, x, MPI_Irecv(data, (int)bytes, MPI_BYTE, node, tag, e->leaders, &x->request[x->n]), node, "MPI_Irecv");
}

/* A message of n elements of the bucket. */
static size_t message_bytes(const bucket *b, const sl_compression *how, int64_t n) {
  return b->lacks ? sl_compressed_bytes(how, n) : (size_t)n * sl_dtype_bytes(b->dtype);
}

/* Sends the other leaders their parts of this node's items, and receives this one's part of theirs. */
static void send_parts(sl_exchange *e, crossing *x, const cursor *c) {
  bucket *b = &e->bucket[c->bucket];
  const uint64_t number = c->number;
  const sl_compression how = sl_compression_at(&e->compression, c->round, 0);
  const int64_t count = segment_count(e, c);
  const int tag = (int)(number % DEPTH) * 2;
  const size_t bytes = sl_dtype_bytes(b->dtype);
  int64_t from, to;
  x->n = x->left = 0;
  if (b->move.kind == SL_EXCHANGE_COPY) return;
  part_of_node(e, b, count, e->my_node, &from, &to);
  for (int k = 0; k < e->nodes && from < to; k++)
    for (int i = e->node_items[k]; k != e->my_node && i < e->node_items[k + 1]; i++)
      receive_from(e, x, b->lacks ? packed_memory(e, e->unpacked, number, i) : received_memory(e, number, i),
                   message_bytes(b, &how, to - from), k, tag);
  const int mine = e->node_items[e->my_node + 1] - e->node_items[e->my_node];
  for (int step = 1; step < e->nodes; step++) {
    const int k = (e->my_node + step) % e->nodes; /* not all to the same node at once */
    part_of_node(e, b, count, k, &from, &to);
    for (int i = 0; i < mine && from < to; i++) {
      const char *data = item_memory(e, number, e->place[i]) + (size_t)from * bytes;
      if (b->lacks) {
        char *message = packed_memory(e, e->packed, number, k * mine + i);
        sl_compress(&how, (const float *)data, b->lacks + i * b->count + c->at + from, to - from, message);
        data = message;
      }
      send_to(e, x, data, message_bytes(b, &how, to - from), k, tag);
    }
  }
}

/* Adds up this leader's part of the items, into item 0. */
static void add_parts(sl_exchange *e, uint64_t number, int64_t from, int64_t to, sl_dtype dtype) {
  const size_t bytes = sl_dtype_bytes(dtype);
  const int mine = e->node_items[e->my_node];
#define PART(i)                                                            \
  ((i) >= mine && (i) < e->node_items[e->my_node + 1]                      \
       ? item_memory(e, number, e->place[(i)-mine]) + (size_t)from * bytes \
       : received_memory(e, number, i))
  for (int i = 0; i < e->across.n; i++) add(PART(e->across.step[i].to), PART(e->across.step[i].from), to - from, dtype);
  char *sums = item_memory(e, number, 0) + (size_t)from * bytes;
  if (PART(0) != sums) memcpy(sums, PART(0), (size_t)(to - from) * bytes);
#undef PART
}

/* The others' items, out of their messages. */
static void unpack_parts(sl_exchange *e, const cursor *c, int64_t n) {
  const sl_compression how = sl_compression_at(&e->compression, c->round, 0);
  for (int i = 0; i < e->node_items[e->nodes]; i++)
    if (i < e->node_items[e->my_node] || i >= e->node_items[e->my_node + 1])
      sl_decompress(&how, packed_memory(e, e->unpacked, c->number, i), n, (float *)received_memory(e, c->number, i));
}

static char *sums_of_node(const sl_exchange *e, char *memory, uint64_t number, int node) {
  return packed_memory(e, memory, number, e->packed_slots - e->nodes + node);
}

/* Adds up this leader's part, and where all are to have it sends it to the others and receives theirs into item 0. Of
 * what is copied, one node's part is all of it. */
static void send_sums(sl_exchange *e, crossing *x, const cursor *c) {
  bucket *b = &e->bucket[c->bucket];
  const uint64_t number = c->number;
  const sl_compression how = sl_compression_at(&e->compression, c->round, 1);
  const int64_t count = segment_count(e, c);
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int tag = (int)(number % DEPTH) * 2 + 1;
  int64_t from, to;
  x->n = x->left = 0;
  part_of_node(e, b, count, e->my_node, &from, &to);
  char *whole = item_memory(e, number, 0), *own = whole + (size_t)from * bytes;
  if (b->lacks && from < to) unpack_parts(e, c, to - from);
  if (b->move.kind == SL_EXCHANGE_SUM && from < to) add_parts(e, number, from, to, b->dtype);
  if (b->move.kind == SL_EXCHANGE_SUM && b->home >= 0) return;
  for (int k = 0; k < e->nodes; k++) {
    int64_t begin, end;
    part_of_node(e, b, count, k, &begin, &end);
    if (k == e->my_node || begin == end) continue;
    receive_from(e, x, b->lacks ? sums_of_node(e, e->unpacked, number, k) : whole + (size_t)begin * bytes,
                 message_bytes(b, &how, end - begin), k, tag);
  }
  if (b->lacks && from < to) {
    char *message = sums_of_node(e, e->packed, number, e->my_node);
    sl_compress(&how, (const float *)own, b->lacks + c->at + from, to - from, message);
    sl_decompress(&how, message, to - from, (float *)own);
    own = message;
  }
  for (int step = 1; step < e->nodes && from < to; step++)
    send_to(e, x, own, message_bytes(b, &how, to - from), (e->my_node + step) % e->nodes, tag);
}

/* The other nodes' parts of the sums, out of their messages. */
static void unpack_sums(sl_exchange *e, const cursor *c) {
  const bucket *b = &e->bucket[c->bucket];
  const sl_compression how = sl_compression_at(&e->compression, c->round, 1);
  if (!b->lacks || b->home >= 0) return;
  for (int k = 0; k < e->nodes; k++) {
    int64_t from, to;
    part_of_node(e, b, segment_count(e, c), k, &from, &to);
    if (k != e->my_node && from < to)
      sl_decompress(&how, sums_of_node(e, e->unpacked, c->number, k), to - from,
                    (float *)item_memory(e, c->number, 0) + from);
  }
}

/* Moves the crossings on, oldest first; they end in order. */
static int try_cross(sl_exchange *e) {
  int moved = 0;
  if (e->local != 0 || e->nodes == 1) return 0;
  while (e->cross.number < LEAST(e, reduced) && e->cross.number < e->ready.number + DEPTH) {
    crossing *x = &e->crossing[e->cross.number % DEPTH];
    send_parts(e, x, &e->cross);
    x->stage = 1;
    advance(e, &e->cross);
    moved = 1;
  }
  cursor c = e->ready;
  for (; c.number < e->cross.number; advance(e, &c)) {
    crossing *x = &e->crossing[c.number % DEPTH];
    if (x->stage == 3) continue;
    /* those that are done become MPI_REQUEST_NULL, so that sl_exchange_waits_for can tell */
    int done = 0;
    const int code = MPI_Testsome(x->n, x->request, &done, x->done, x->status);
    if (code != MPI_SUCCESS) fail(e, code, "MPI_Testsome");
    if (done != MPI_UNDEFINED) x->left -= done;
    if (x->left > 0) continue;
    moved = 1;
    if (x->stage == 1)
      send_sums(e, x, &c);
    else
      unpack_sums(e, &c);
    x->stage++;
  }
  while (e->ready.number < e->cross.number && e->crossing[e->ready.number % DEPTH].stage == 3) {
    e->crossing[e->ready.number % DEPTH].stage = 0;
    advance(e, &e->ready);
    set(&e->boards[0].ready, e->ready.number);
  }
  return moved;
}

static void end(sl_exchange *e, bucket *b) {
  pthread_mutex_lock(&e->lock);
  b->open = 0;
  pthread_mutex_unlock(&e->lock);
  if (b->done) b->done(b->arg);
  pthread_mutex_lock(&e->lock);
  if (--e->pending == 0) pthread_cond_broadcast(&e->idle);
  pthread_mutex_unlock(&e->lock);
}

static int try_take(sl_exchange *e) {
  if (e->take.number >= e->fill.number) return 0;
  const uint64_t ready =
      e->nodes == 1 ? LEAST(e, reduced) : atomic_load_explicit(&e->boards[0].ready.value, memory_order_acquire);
  if (ready <= e->take.number) return 0;
  bucket *b = &e->bucket[e->take.bucket];
  const int takes = b->move.kind == SL_EXCHANGE_COPY ? b->owner != e->local : b->move.rank < 0 || b->owner == e->local;
  if (!b->direct && takes) copy(e, &e->take, 0, item_memory(e, e->take.number, 0), 1);
  const int last = advance(e, &e->take);
  set(&e->boards[e->local].taken, e->take.number);
  if (last) end(e, b);
  return 1;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static void bind_thread(const sl_exchange *e) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < e->ncpus; i++)
    if (e->cpus[i] >= 0 && e->cpus[i] < CPU_SETSIZE) CPU_SET(e->cpus[i], &set);
  if (e->ncpus > 0) pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* After a failure nothing is exchanged any more, and everything that was posted ends. */
static void end_all(sl_exchange *e) {
  for (int b = 0; b < e->n_buckets; b++) {
    pthread_mutex_lock(&e->lock);
    const int open = e->bucket[b].open;
    pthread_mutex_unlock(&e->lock);
    if (open) end(e, &e->bucket[b]);
  }
}

/* While messages are under way it must not sleep, since MPI moves nothing meanwhile; it yields. */
static void *run(void *arg) {
  sl_exchange *e = arg;
  board *mine = &e->boards[e->local];
  bind_thread(e);
  for (;;) {
    const unsigned seen = atomic_load(&mine->event);
    pthread_mutex_lock(&e->lock);
    const int stopping = e->stopping, pending = e->pending, failed = e->status != SL_OK;
    pthread_mutex_unlock(&e->lock);
    if (stopping) return NULL;
    if (failed) end_all(e);
    const int moved = pending && !failed && (try_fill(e) | try_reduce(e) | try_cross(e) | try_take(e));
    if (moved) {
      e->moved = now();
      for (int i = 0; i < e->locals; i++)
        if (i != e->local) wake(&e->boards[i]);
    } else if (e->ready.number < e->cross.number && !failed) {
      sched_yield();
    } else {
      sleep_after(mine, seen);
    }
  }
}

void sl_exchange_post(sl_exchange *e, int number, void (*done)(void *arg), void *arg) {
  bucket *b = &e->bucket[number];
  pthread_mutex_lock(&e->lock);
  b->posted = b->open = 1;
  b->done = done, b->arg = arg;
  if (e->pending++ == 0) e->moved = now();
  pthread_mutex_unlock(&e->lock);
  wake(&e->boards[e->local]);
}

sl_status sl_exchange_wait(sl_exchange *e) {
  pthread_mutex_lock(&e->lock);
  while (e->pending > 0) pthread_cond_wait(&e->idle, &e->lock);
  const sl_status status = e->status;
  pthread_mutex_unlock(&e->lock);
  return status == SL_OK ? SL_OK : sl_fail(status, "%s", e->error);
}

double sl_exchange_stalled(sl_exchange *e) {
  pthread_mutex_lock(&e->lock);
  const double seconds = e->pending > 0 ? now() - e->moved : 0;
  pthread_mutex_unlock(&e->lock);
  return seconds;
}

/* Reads what the thread writes; called when nothing moves. */
int sl_exchange_waits_for(sl_exchange *e, int *number, char *late) {
  memset(late, 0, (size_t)e->ranks);
  pthread_mutex_lock(&e->lock);
  const int pending = e->pending;
  pthread_mutex_unlock(&e->lock);
  if (pending == 0) return 0;
  *number = e->take.bucket;
  if (e->fill.number == e->take.number) { /* nothing of it has been posted here */
    late[e->rank] = 1;
    return 1;
  }
  /* the earliest stage that is not passed, and who has not */
  int n = 0;
  for (int stage = 0; stage < 2 && n == 0; stage++)
    for (int i = 0; i < e->locals; i++) {
      const counter *c = stage == 0 ? &e->boards[i].filled : &e->boards[i].reduced;
      if (atomic_load(&c->value) > e->take.number) continue;
      late[e->node_rank[e->my_node] + i] = 1;
      n++;
    }
  if (n > 0) return n;
  if (e->local != 0 && e->nodes > 1) { /* the leader knows more */
    late[e->node_rank[e->my_node]] = 1;
    return 1;
  }
  const crossing *x = &e->crossing[e->ready.number % DEPTH];
  for (int i = 0; i < x->n && e->ready.number < e->cross.number; i++)
    for (int r = e->node_rank[x->peer[i]]; r < e->node_rank[x->peer[i] + 1] && x->request[i] != MPI_REQUEST_NULL; r++)
      if (!late[r]) late[r] = 1, n++;
  return n;
}

/* ---- making one ------------------------------------------------------------------------------------------------- */

/* The same verdict on all ranks. */
static sl_status agree(const sl_exchange *e, sl_status status) {
  int mine = status, worst = SL_OK;
  SL_TRY(sl_comm_status(MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, e->comm), "MPI_Allreduce"));
  if (worst != SL_OK && status == SL_OK)
    return sl_fail((sl_status)worst, "another rank could not prepare its exchange: %s",
                   sl_status_text((sl_status)worst));
  return status;
}

sl_status sl_exchange_allocate(sl_exchange *e, size_t bytes, void **memory) {
  *memory = NULL;
  if (e->arena) return sl_fail(SL_EEXIST, "the exchange has allocated its memory already");
  int shares = e->nodes == 1 && e->locals > 1;
  if (shares) {
    void *base;
    shares = MPI_Win_allocate_shared((MPI_Aint)round_up(bytes + PAGE, PAGE), 1, MPI_INFO_NULL, e->node, &base,
                                     &e->arena_window) == MPI_SUCCESS;
    if (!shares) e->arena_window = MPI_WIN_NULL;
  }
  int all = 0;
  SL_TRY(sl_comm_status(MPI_Allreduce(&shares, &all, 1, MPI_INT, MPI_MIN, e->comm), "MPI_Allreduce"));
  if (shares && !all) MPI_Win_free(&e->arena_window);
  e->base = calloc((size_t)e->locals, sizeof *e->base);
  if (!all) e->arena = aligned_alloc(PAGE, round_up(bytes + 1, PAGE));
  SL_TRY(agree(
      e, e->base && (all || e->arena) ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %zu bytes to exchange", bytes)));
  for (int r = 0; r < e->locals && all; r++) {
    MPI_Aint size;
    int unit;
    void *base;
    SL_TRY(sl_comm_status(MPI_Win_shared_query(e->arena_window, r, &size, &unit, &base), "MPI_Win_shared_query"));
    e->base[r] = (char *)round_up((uintptr_t)base, LINE);
  }
  if (all) e->arena = e->base[e->local];
  e->arena_bytes = bytes;
  *memory = e->arena;
  return SL_OK;
}

/* Where the items of the node's ranks are here, if all of them lie in the memory that the ranks share. */
static sl_status find_shared(sl_exchange *e, bucket *b) {
  const int all = e->local_items[e->locals];
  const size_t bytes = sl_dtype_bytes(b->dtype);
  int64_t *mine = malloc((size_t)e->items * sizeof *mine), *offset = malloc((size_t)all * sizeof *offset);
  int *count = malloc((size_t)e->locals * sizeof *count), inside = e->arena_window != MPI_WIN_NULL;
  sl_status status = SL_OK;
  SL_TRY_OUT(agree(e, mine && offset && count ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a bucket")));
  for (int r = 0; r < e->locals; r++) count[r] = e->local_items[r + 1] - e->local_items[r];
  for (int s = 0; s < b->n; s++)
    for (int i = 0; i < e->items && inside; i++) {
      const int64_t at = (char *)b->stretch[s].mine[i] - (char *)e->arena;
      inside = at >= 0 && (size_t)at + (size_t)b->stretch[s].count * bytes <= e->arena_bytes;
    }
  SL_TRY_OUT(sl_comm_status(MPI_Allreduce(&inside, &b->direct, 1, MPI_INT, MPI_MIN, e->comm), "MPI_Allreduce"));
  for (int s = 0; s < b->n && b->direct; s++) {
    for (int i = 0; i < e->items; i++) mine[i] = (char *)b->stretch[s].mine[i] - (char *)e->arena;
    SL_TRY_OUT(
        sl_comm_status(MPI_Allgatherv(mine, e->items, MPI_INT64_T, offset, count, e->local_items, MPI_INT64_T, e->node),
                       "MPI_Allgatherv"));
    for (int r = 0; r < e->locals; r++)
      for (int i = e->local_items[r]; i < e->local_items[r + 1]; i++) b->stretch[s].node[i] = e->base[r] + offset[i];
  }
out:
  free(mine), free(offset), free(count);
  return status;
}

static void release_bucket(bucket *b) {
  for (int s = 0; s < b->n; s++) free(b->stretch[s].mine), free(b->stretch[s].node);
  free(b->stretch), free(b->lacks);
}

/* Which node the bucket's rank is of, and which of its ranks. */
static void find_owner(const sl_exchange *e, bucket *b) {
  const int rank = b->move.rank;
  b->owner = b->home = -1;
  if (rank < 0) return;
  while (e->node_rank[b->home + 1] <= rank) b->home++;
  if (b->home == e->my_node) b->owner = rank - e->node_rank[e->my_node];
}

/* Whether this rank compresses what it sends of the bucket. */
static int compresses(const sl_exchange *e, const bucket *b) {
  return e->compression.kind != SL_COMPRESSION_NONE && e->nodes > 1 && e->local == 0 && b->dtype == SL_F32 &&
         b->move.lossy && b->move.kind == SL_EXCHANGE_SUM;
}

sl_status sl_exchange_add(sl_exchange *e, sl_exchange_move move, sl_dtype dtype, const sl_stretch *from, int n,
                          int *number) {
  if (dtype != SL_F32 && dtype != SL_F64) return sl_fail(SL_EINVAL, "an exchange of %s", sl_dtype_name(dtype));
  if (move.rank < (move.kind == SL_EXCHANGE_COPY ? 0 : -1) || move.rank >= e->ranks)
    return sl_fail(SL_EINVAL, "an exchange with rank %d of %d", move.rank, e->ranks);
  sl_status status = SL_OK;
  bucket b = {.move = move, .dtype = dtype, .stretch = calloc((size_t)n + 1, sizeof *b.stretch)};
  find_owner(e, &b);
  bucket *more = realloc(e->bucket, (size_t)(e->n_buckets + 1) * sizeof *more);
  if (more) e->bucket = more;
  int fine = more && b.stretch;
  for (int i = 0; i < n && fine; i++) {
    if (from[i].count == 0) continue;
    stretch *s = &b.stretch[b.n++];
    *s = (stretch){.begin = b.count,
                   .count = from[i].count,
                   .mine = malloc((size_t)e->items * sizeof *s->mine),
                   .node = malloc((size_t)e->local_items[e->locals] * sizeof *s->node)};
    fine = s->mine && s->node;
    for (int k = 0; k < e->items && fine; k++) s->mine[k] = from[i].data[move.kind == SL_EXCHANGE_COPY ? 0 : k];
    b.count += from[i].count;
  }
  const size_t lacks = compresses(e, &b) ? (size_t)(e->node_items[e->my_node + 1] - e->node_items[e->my_node]) : 0;
  if (fine && lacks) fine = (b.lacks = calloc(lacks * (size_t)b.count + 1, sizeof *b.lacks)) != NULL;
  if (!fine)
    status = sl_fail(SL_ENOMEM, "no memory for a bucket of %d arrays", n);
  else if (b.count == 0 && move.kind == SL_EXCHANGE_SUM)
    status = sl_fail(SL_EINVAL, "a bucket without elements");
  SL_TRY_OUT(agree(e, status));
  SL_TRY_OUT(find_shared(e, &b));
  *number = e->n_buckets;
  e->bucket[e->n_buckets++] = b;
  e->memory += lacks * (size_t)b.count * sizeof *b.lacks;
  return SL_OK;
out:
  release_bucket(&b);
  return status;
}

/* Groups of consecutive ranks that share memory; every rank on its own where they do not. */
static sl_status find_nodes(sl_exchange *e, const sl_exchange_options *o) {
  MPI_Comm node = MPI_COMM_NULL;
  int *leader = malloc((size_t)e->ranks * sizeof *leader), own = e->rank;
  if (!leader) return sl_fail(SL_ENOMEM, "no memory for %d ranks", e->ranks);
  sl_status status = SL_OK;
  if (!o->no_shared) {
    if (o->node != MPI_COMM_NULL)
      SL_TRY_OUT(sl_comm_status(MPI_Comm_dup(o->node, &node), "MPI_Comm_dup"));
    else
      SL_TRY_OUT(sl_comm_status(MPI_Comm_split_type(e->comm, MPI_COMM_TYPE_SHARED, e->rank, MPI_INFO_NULL, &node),
                                "MPI_Comm_split_type"));
    SL_TRY_OUT(sl_comm_status(MPI_Allreduce(&e->rank, &own, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce"));
    if (o->ranks_per_node > 0) own += (e->rank - own) / o->ranks_per_node * o->ranks_per_node;
  }
  SL_TRY_OUT(sl_comm_status(MPI_Allgather(&own, 1, MPI_INT, leader, 1, MPI_INT, e->comm), "MPI_Allgather"));
  int scattered = 0;
  for (int r = 0; r < e->ranks; r++) scattered |= leader[r] != r && (r == 0 || leader[r] != leader[r - 1]);
  for (int r = 0; r < e->ranks; r++) {
    if (scattered) leader[r] = r;
    if (leader[r] == r) e->node_rank[e->nodes++] = r;
    if (r == e->rank) e->my_node = e->nodes - 1;
  }
  e->node_rank[e->nodes] = e->ranks;
  SL_TRY_OUT(sl_comm_status(MPI_Comm_split(e->comm, leader[e->rank], e->rank, &e->node), "MPI_Comm_split"));
  MPI_Comm_rank(e->node, &e->local);
  MPI_Comm_size(e->node, &e->locals);
  SL_TRY_OUT(sl_comm_status(MPI_Comm_split(e->comm, e->local == 0 ? 0 : MPI_UNDEFINED, e->rank, &e->leaders),
                            "MPI_Comm_split"));
out:
  if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
  free(leader);
  return status;
}

/* The tables of items, and the additions inside the node and across nodes. */
static sl_status find_items(sl_exchange *e) {
  sl_leaves mine[SL_MAX_SUBTREES];
  const int begin = e->node_rank[e->my_node], end = e->node_rank[e->my_node + 1];
  sl_leaves *inside = malloc((size_t)e->leaves * sizeof *inside), *across = malloc((size_t)e->leaves * sizeof *across);
  e->local_items = calloc((size_t)e->locals + 1, sizeof *e->local_items);
  e->node_items = calloc((size_t)e->nodes + 1, sizeof *e->node_items);
  e->inside.step = malloc((size_t)e->leaves * sizeof *e->inside.step);
  e->across.step = malloc((size_t)e->leaves * sizeof *e->across.step);
  e->place = malloc((size_t)e->leaves * sizeof *e->place);
  sl_status status = SL_OK;
  if (!inside || !across || !e->local_items || !e->node_items || !e->inside.step || !e->across.step || !e->place) {
    status = sl_fail(SL_ENOMEM, "no memory for a tree of %d leaves", e->leaves);
    goto out;
  }
  for (int r = begin; r < end; r++) {
    const int n = sl_subtrees(e->leaves, (sl_leaves){e->first[r], e->first[r + 1] - e->first[r]}, mine),
              at = e->local_items[r - begin];
    memcpy(inside + at, mine, (size_t)n * sizeof *mine);
    e->local_items[r - begin + 1] = at + n;
    if (r == e->rank) e->items = n;
  }
  for (int k = 0; k < e->nodes; k++) {
    const int from = e->first[e->node_rank[k]], to = e->first[e->node_rank[k + 1]];
    const int n = sl_subtrees(e->leaves, (sl_leaves){from, to - from}, mine), at = e->node_items[k];
    memcpy(across + at, mine, (size_t)n * sizeof *mine);
    e->node_items[k + 1] = at + n;
    for (int i = 0; k == e->my_node && i < n; i++)
      e->place[i] = sum(&e->inside, inside, e->local_items[e->locals], mine[i].first, mine[i].n);
  }
  sum(&e->across, across, e->node_items[e->nodes], 0, e->leaves);
out:
  free(inside), free(across);
  return status;
}

/* Memory for compressed messages. */
static sl_status find_packed(sl_exchange *e) {
  const int mine = e->node_items[e->my_node + 1] - e->node_items[e->my_node], all = e->node_items[e->nodes];
  e->packed_slots = (mine * e->nodes > all ? mine * e->nodes : all) + e->nodes;
  const sl_compression most = sl_compression_at(&e->compression, 0, 1);
  e->packed_most = round_up(sl_compressed_bytes(&most, (int64_t)(e->part_most / sizeof(float))), LINE);
  const size_t bytes = DEPTH * (size_t)e->packed_slots * e->packed_most;
  e->packed = aligned_alloc(LINE, bytes);
  e->unpacked = aligned_alloc(LINE, bytes);
  e->memory += 2 * bytes;
  return e->packed && e->unpacked ? SL_OK : sl_fail(SL_ENOMEM, "no memory for messages of %zu bytes", bytes);
}

/* The node's slabs, in a window that its ranks share. *fits: 0 when this node's shared memory is too small. */
static sl_status find_memory(sl_exchange *e, int *fits) {
  const size_t boards = round_up((size_t)e->locals * sizeof(board), LINE),
               slabs = DEPTH * (size_t)e->local_items[e->locals] * e->segment;
  *fits = 1;
  if (e->locals == 1) {
    e->private_memory = aligned_alloc(LINE, round_up(boards + slabs, LINE));
    if (!e->private_memory) return sl_fail(SL_ENOMEM, "no memory for exchanging %zu bytes at once", slabs);
    e->boards = e->private_memory;
    e->memory = boards + slabs;
  } else {
    MPI_Aint bytes = e->local == 0 ? (MPI_Aint)(boards + slabs + LINE) : 0;
    int unit;
    void *base;
    MPI_Comm_set_errhandler(e->node, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, e->node, &base, &e->window) != MPI_SUCCESS) {
      e->window = MPI_WIN_NULL;
      *fits = 0;
      return SL_OK;
    }
    SL_TRY(sl_comm_status(MPI_Win_shared_query(e->window, 0, &bytes, &unit, &base), "MPI_Win_shared_query"));
    e->boards = (board *)(((uintptr_t)base + LINE - 1) / LINE * LINE);
    e->memory = boards + DEPTH * (size_t)e->items * e->segment;
  }
  e->slab = (char *)e->boards + boards;
  for (int i = 0; i < e->items; i++) /* touched where they are filled */
    for (int d = 0; d < DEPTH; d++) memset(item_memory(e, (uint64_t)d, e->local_items[e->local] + i), 0, e->segment);
  memset(&e->boards[e->local], 0, sizeof(board));
  if (e->local != 0 || e->nodes == 1) return SL_OK;
  e->part_most = round_up(e->segment / (size_t)e->nodes + LINE, LINE);
  const size_t received = DEPTH * (size_t)e->node_items[e->nodes] * e->part_most;
  e->received = aligned_alloc(LINE, received);
  e->most_requests = 2 * e->node_items[e->nodes] * e->nodes + 2 * e->nodes;
  e->memory += received;
  if (!e->received) return sl_fail(SL_ENOMEM, "no memory for exchanging %zu bytes at once", received);
  memset(e->received, 0, received);
  if (e->compression.kind != SL_COMPRESSION_NONE) SL_TRY(find_packed(e));
  for (int d = 0; d < DEPTH; d++) {
    e->crossing[d].request = malloc((size_t)e->most_requests * sizeof(MPI_Request));
    e->crossing[d].peer = malloc((size_t)e->most_requests * sizeof(int));
    e->crossing[d].done = malloc((size_t)e->most_requests * sizeof(int));
    e->crossing[d].status = malloc((size_t)e->most_requests * sizeof(MPI_Status));
    if (!e->crossing[d].request || !e->crossing[d].peer || !e->crossing[d].done || !e->crossing[d].status)
      return sl_fail(SL_ENOMEM, "no memory for requests");
  }
  return SL_OK;
}

static void release_groups(sl_exchange *e) {
  if (e->window != MPI_WIN_NULL) MPI_Win_free(&e->window);
  if (e->leaders != MPI_COMM_NULL) MPI_Comm_free(&e->leaders);
  if (e->node != MPI_COMM_NULL) MPI_Comm_free(&e->node);
  for (int d = 0; d < DEPTH; d++) {
    free(e->crossing[d].request), free(e->crossing[d].peer), free(e->crossing[d].done), free(e->crossing[d].status);
    e->crossing[d] = (crossing){0};
  }
  free(e->private_memory), free(e->received), free(e->packed), free(e->unpacked);
  e->packed = e->unpacked = NULL;
  free(e->local_items), free(e->node_items), free(e->place), free(e->inside.step), free(e->across.step);
  e->private_memory = NULL, e->received = NULL, e->local_items = e->node_items = e->place = NULL;
  e->inside = e->across = (program){0};
  e->nodes = 0;
}

static sl_status prepare(sl_exchange *e, const sl_exchange_options *o, int *fits) {
  *fits = 1;
  SL_TRY(find_nodes(e, o));
  e->segment = round_up(o->segment ? o->segment : e->nodes > 1 ? SEGMENT_MESSAGES : SEGMENT_SHARED, LINE);
  sl_status status = agree(e, find_items(e));
  if (status == SL_OK) status = agree(e, find_memory(e, fits));
  if (status != SL_OK) return status;
  int mine = *fits;
  return sl_comm_status(MPI_Allreduce(&mine, fits, 1, MPI_INT, MPI_MIN, e->comm), "MPI_Allreduce");
}

sl_status sl_exchange_create(const sl_exchange_options *o, sl_exchange **exchange) {
  int fits;
  *exchange = NULL;
  sl_status status = SL_OK;
  sl_exchange *e = calloc(1, sizeof *e);
  if (!e) return sl_fail(SL_ENOMEM, "no memory for an exchange");
  e->comm = e->node = e->leaders = MPI_COMM_NULL;
  e->window = e->arena_window = MPI_WIN_NULL;
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->idle, NULL);
  SL_TRY_OUT(sl_comm_status(MPI_Comm_dup(o->comm, &e->comm), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(e->comm, &e->rank);
  MPI_Comm_size(e->comm, &e->ranks);
  e->leaves = o->leaves;
  e->compression = o->compression;
  e->first = malloc((size_t)(e->ranks + 1) * sizeof *e->first);
  e->node_rank = malloc((size_t)(e->ranks + 1) * sizeof *e->node_rank);
  if (!e->first || !e->node_rank) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for %d ranks", e->ranks));
  memcpy(e->first, o->first, (size_t)(e->ranks + 1) * sizeof *e->first);
  for (int r = 0; r < e->ranks; r++)
    if (e->first[r + 1] <= e->first[r])
      SL_TRY_OUT(sl_fail(SL_EINVAL, "rank %d of %d has none of the %d leaves: use more leaves or fewer ranks", r,
                         e->ranks, e->leaves));
  if (e->first[0] != 0 || e->first[e->ranks] != e->leaves)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "the ranks' leaves are not all of the %d", e->leaves));
  SL_TRY_OUT(prepare(e, o, &fits));
  if (!fits) { /* shared memory too small somewhere: messages everywhere */
    sl_exchange_options messages = *o;
    messages.no_shared = 1;
    release_groups(e);
    SL_TRY_OUT(prepare(e, &messages, &fits));
  }
  if (o->ncpus > 0) {
    e->cpus = malloc((size_t)o->ncpus * sizeof *e->cpus);
    if (!e->cpus) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for %d CPUs", o->ncpus));
    memcpy(e->cpus, o->cpus, (size_t)o->ncpus * sizeof *e->cpus);
    e->ncpus = o->ncpus;
  }
  if (pthread_create(&e->thread, NULL, run, e) != 0) SL_TRY_OUT(sl_fail(SL_EIO, "no thread for the exchange"));
  e->started = 1;
  pthread_setname_np(e->thread, "sl-exchange");
  SL_TRY_OUT(sl_comm_status(MPI_Barrier(e->comm), "MPI_Barrier"));
  *exchange = e;
  e = NULL;
out:
  sl_exchange_destroy(e);
  return status;
}

void sl_exchange_destroy(sl_exchange *e) {
  if (!e) return;
  if (e->started) {
    sl_exchange_wait(e);
    pthread_mutex_lock(&e->lock);
    e->stopping = 1;
    pthread_mutex_unlock(&e->lock);
    wake(&e->boards[e->local]);
    pthread_join(e->thread, NULL);
  }
  if (e->arena_window != MPI_WIN_NULL)
    MPI_Win_free(&e->arena_window);
  else
    free(e->arena);
  free(e->base);
  release_groups(e);
  if (e->comm != MPI_COMM_NULL) MPI_Comm_free(&e->comm);
  for (int i = 0; i < e->n_buckets; i++) release_bucket(&e->bucket[i]);
  pthread_cond_destroy(&e->idle), pthread_mutex_destroy(&e->lock);
  free(e->bucket), free(e->first), free(e->node_rank), free(e->cpus), free(e);
}

int sl_exchange_items(const sl_exchange *e) { return e->items; }
int sl_exchange_nodes(const sl_exchange *e) { return e->nodes; }
size_t sl_exchange_memory(const sl_exchange *e) {
  const size_t others = e->arena_window == MPI_WIN_NULL ? 0 : e->arena_bytes * (size_t)(e->locals - 1);
  return e->memory + others / (size_t)e->locals;
}
uint64_t sl_exchange_sent(const sl_exchange *e) { return e->sent; }
