/* runtime/exchange/exchange.c: every implementation carries out every move, on all ranks and on the rows and columns of
 * a mesh in one round, with parts of any length, posted in any order, with and without shared memory. It names the
 * ranks that a stalled move waits for, and agrees with its descriptor. Messages of two directions do not wait for each
 * other. The most urgent group moves first. Runs itself under mpiexec. */
#include "runtime/exchange/exchange.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/exchange/engine.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

enum { MOST_RANKS = 6, STRETCHES = 6, MOST_BUCKETS = 80, ROUNDS = 3 };

/* A number of few bits, whose sums are exact in any order, so that MPI's sums can be compared bit for bit too. `salt`
 * differs for each bucket, stretch, round and owner. */
static double value(int salt, int owner, int64_t i) {
  uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)(salt * 131 + owner * 31 + 7) * 40503u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (double)(h & 0xfff) - 2048;
}

static void put(void *array, sl_dtype dtype, int64_t i, double x) {
  switch (sl_dtype_bytes(dtype)) {
    case 1:
      ((uint8_t *)array)[i] = (uint8_t)((int)x & 0xff);
      break;
    case 2:
      ((uint16_t *)array)[i] = (uint16_t)((int)x & 0xffff);
      break;
    case 4:
      ((float *)array)[i] = (float)x;
      break;
    default:
      ((double *)array)[i] = x;
  }
}

/* A bucket of the test, on one group. Lengths of the stretches and their ranks follow from its number. */
typedef struct bucket {
  sl_exchange_move move;
  sl_dtype dtype;
  int id;      /* the same on all ranks of the group */
  int number;  /* the exchange's */
  int members; /* of the group */
  int me;      /* this rank in it */
  int pair[2]; /* SEND, RECEIVE: from, to */
  int64_t count[STRETCHES];
  int rank[STRETCHES];
  void *data[STRETCHES][SL_MAX_SUBTREES];
  int items;
} bucket;

/* Few elements, none, more than a segment. */
static const int64_t lengths[] = {1, 0, 700, 5000, 33, 2048, 0, 17};

static int origin(const bucket *b, int s) { /* of a stretch; -1: the sum of all */
  switch (b->move.kind) {
    case SL_EXCHANGE_SUM:
      return -1;
    case SL_EXCHANGE_GATHER:
      return b->rank[s];
    case SL_EXCHANGE_SEND:
    case SL_EXCHANGE_RECEIVE:
      return b->pair[0];
    default:
      return b->move.rank;
  }
}

static int gets(const bucket *b, int s) { /* whether this rank gets the stretch */
  switch (b->move.kind) {
    case SL_EXCHANGE_COPY:
      return 1;
    case SL_EXCHANGE_SCATTER:
      return b->rank[s] == b->me;
    case SL_EXCHANGE_SEND:
      return 0;
    case SL_EXCHANGE_RECEIVE:
      return 1;
    default:
      return b->move.rank == SL_EXCHANGE_PARTS ? b->rank[s] == b->me : b->move.rank < 0 || b->move.rank == b->me;
  }
}

typedef struct group {
  int number, ranks, me, members[MOST_RANKS];
} group;

typedef struct scene {
  sl_exchange *e;
  bucket bucket[MOST_BUCKETS];
  int n, id;  /* buckets; the last id: the same on all ranks of a group */
  char *next; /* memory for the data; all of it is from one allocation */
} scene;

/* Adds a bucket; missing: stretches that this rank neither gives nor gets have no memory. */
static void add(scene *t, const group *g, sl_exchange_kind kind, int rank, sl_dtype dtype, int from, int missing) {
  const int id = ++t->id;
  if (kind == SL_EXCHANGE_SEND && g->me != from && g->me != rank) return;
  bucket *b = &t->bucket[t->n++];
  sl_stretch stretch[STRETCHES];
  /* Ranks differ in what is urgent; nothing may wait for ever. */
  *b = (bucket){.move = {.kind = kind, .rank = rank, .group = g->number, .urgency = (id * 7 + g->me * 3) % 5},
                .dtype = dtype,
                .id = id,
                .members = g->ranks,
                .me = g->me,
                .items = kind == SL_EXCHANGE_SUM ? sl_exchange_items(t->e, g->number) : 1};
  b->pair[0] = from, b->pair[1] = rank;
  if (kind == SL_EXCHANGE_SEND) b->move.kind = g->me == from ? kind : SL_EXCHANGE_RECEIVE;
  if (kind == SL_EXCHANGE_SEND && g->me == rank) b->move.rank = from;
  for (int s = 0; s < STRETCHES; s++) {
    b->count[s] = lengths[(s + id) % 8];
    b->rank[s] = (s + id / 2) % g->ranks; /* with four ranks, some have two parts and some one; not in order */
    for (int k = 0; k < b->items; k++, t->next += (b->count[s] * 8 + 63) / 64 * 64) b->data[s][k] = t->next;
    if (missing && kind != SL_EXCHANGE_SUM && origin(b, s) != g->me && !gets(b, s)) b->data[s][0] = NULL;
    stretch[s] = (sl_stretch){.data = b->data[s], .count = b->count[s], .rank = b->rank[s]};
  }
  const int n = kind == SL_EXCHANGE_COPY && dtype == SL_U8 ? 0 : STRETCHES; /* a barrier */
  if (n == 0) memset(b->count, 0, sizeof b->count);
  RANK_CHECK(sl_exchange_add(t->e, b->move, dtype, stretch, n, &b->number) == SL_OK);
}

/* Adds buckets with all moves on a group. */
static void add_moves(scene *t, const group *g, int missing) {
  const int last = g->ranks - 1, second = 1 % g->ranks;
  add(t, g, SL_EXCHANGE_SUM, SL_EXCHANGE_ALL, SL_F32, 0, missing);
  add(t, g, SL_EXCHANGE_GATHER, SL_EXCHANGE_ALL, SL_F64, 0, missing);
  add(t, g, SL_EXCHANGE_SUM, SL_EXCHANGE_PARTS, SL_F64, 0, missing);
  add(t, g, SL_EXCHANGE_SCATTER, last, SL_F32, 0, missing);
  add(t, g, SL_EXCHANGE_SUM, second, SL_F64, 0, missing);
  add(t, g, SL_EXCHANGE_GATHER, second, SL_BF16, 0, missing);
  add(t, g, SL_EXCHANGE_COPY, second, SL_F16, 0, missing);
  add(t, g, SL_EXCHANGE_COPY, 0, SL_U8, 0, missing);
  add(t, g, SL_EXCHANGE_SCATTER, 0, SL_BF16, 0, missing);
  add(t, g, SL_EXCHANGE_SUM, SL_EXCHANGE_PARTS, SL_F32, 0, missing);
  add(t, g, SL_EXCHANGE_COPY, second, SL_F64, 0, missing); /* relayed, as the sum for `second` */
  for (int r = 0; r < last; r++) {                         /* along a chain of ranks and back */
    add(t, g, SL_EXCHANGE_SEND, r + 1, SL_F32, r, missing);
    add(t, g, SL_EXCHANGE_SEND, r, SL_F16, r + 1, missing);
  }
  if (last > 1) add(t, g, SL_EXCHANGE_SEND, last, SL_F64, 0, missing); /* rank 0 is in two pairs */
}

static int salt(const bucket *b, int s, int round) { return b->id * 8 + s + 1000 * round; }

static void fill(bucket *b, int round, const sl_leaves *item) {
  for (int s = 0; s < STRETCHES; s++)
    for (int k = 0; k < b->items && b->data[s][k]; k++)
      for (int64_t i = 0; i < b->count[s]; i++) {
        double x = origin(b, s) == b->me ? value(salt(b, s, round), 0, i) : -77;
        if (b->move.kind == SL_EXCHANGE_SUM) x = 0;
        for (int leaf = item[k].first; b->move.kind == SL_EXCHANGE_SUM && leaf < item[k].first + item[k].n; leaf++)
          x += value(salt(b, s, round), leaf, i);
        put(b->data[s][k], b->dtype, i, x);
      }
}

static void look(const bucket *b, int round, int leaves) {
  for (int s = 0; s < STRETCHES; s++)
    for (int64_t i = 0; i < b->count[s] && gets(b, s); i++) {
      double want = 0;
      char bytes[8] = {0};
      for (int leaf = 0; leaf < (b->move.kind == SL_EXCHANGE_SUM ? leaves : 1); leaf++)
        want += value(salt(b, s, round), leaf, i);
      put(bytes, b->dtype, 0, want);
      const size_t width = sl_dtype_bytes(b->dtype);
      if (memcmp(bytes, (const char *)b->data[s][0] + (size_t)i * width, width) == 0) continue;
      fprintf(stderr, "move %d with rank %d of %d, %s, on rank %d: stretch %d of rank %d, element %lld of %lld\n",
              (int)b->move.kind, b->move.rank, b->members, sl_dtype_name(b->dtype), b->me, s, b->rank[s], (long long)i,
              (long long)b->count[s]);
      RANK_CHECK(!"the right element");
    }
}

static void count_done(void *arg) { __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST); }

/* Declares this rank's group among n groups; ranks r with equal r / by % n form a group. */
static void declare(sl_exchange *e, int rank, int ranks, int by, int n, int leaves, group *g) {
  int first[MOST_RANKS + 1];
  *g = (group){0};
  for (int r = 0; r < ranks; r++) {
    if (r / by % n != rank / by % n) continue;
    if (r == rank) g->me = g->ranks;
    g->members[g->ranks++] = r;
  }
  for (int r = 0; r <= g->ranks; r++) first[r] = leaves * r / g->ranks;
  RANK_CHECK(sl_exchange_group(e, g->members, g->ranks, leaves, first, &g->number) == SL_OK);
}

typedef struct way {
  const char *type;
  int no_shared, ranks_per_node, allocate, missing;
} way;

enum { LEAVES = 7, ROW_LEAVES = 4 };

/* All moves on all ranks, on rows and on columns; three rounds, posted in another order on each rank and in each round.
 * With an odd number of ranks the mesh's last row or column is short. */
static void ranks_move_in(way w) {
  int rank, ranks, first[MOST_RANKS + 1], done = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int r = 0; r <= ranks; r++) first[r] = LEAVES * r / ranks;
  scene *t = calloc(1, sizeof *t);
  RANK_CHECK(t);
  const sl_exchange_options options = {.type = sl_exchange_find(w.type),
                                       .comm = MPI_COMM_WORLD,
                                       .node = MPI_COMM_NULL,
                                       .leaves = LEAVES,
                                       .first = first,
                                       .no_shared = w.no_shared,
                                       .ranks_per_node = w.ranks_per_node,
                                       .segment = 4096};
  RANK_CHECK(sl_exchange_create(&options, &t->e) == SL_OK);
  group g[3] = {{.ranks = ranks, .me = rank}};
  for (int r = 0; r < ranks; r++) g[0].members[r] = r;
  declare(t->e, rank, ranks, 2, 2, ROW_LEAVES, &g[1]); /* rows {0, 1, 4, 5}, {2, 3} */
  declare(t->e, rank, ranks, 1, 2, 5, &g[2]);          /* columns {0, 2, 4}, {1, 3, 5} */
  RANK_CHECK(g[1].number != 0 && g[2].number != 0 && g[1].number != g[2].number);
  const size_t bytes = (size_t)MOST_BUCKETS * STRETCHES * 5 * 5000 * 8;
  void *memory = malloc(bytes);
  if (w.allocate) {
    free(memory);
    RANK_CHECK(sl_exchange_allocate(t->e, bytes, &memory) == SL_OK);
  }
  t->next = memory;
  for (int k = 0; k < 3; k++) {
    t->id = 40 * k;
    add_moves(t, &g[k], w.missing);
  }
  RANK_CHECK(t->n <= MOST_BUCKETS && (size_t)(t->next - (char *)memory) <= bytes);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < t->n; i++) {
      bucket *b = &t->bucket[i];
      sl_leaves item[SL_MAX_SUBTREES] = {{0, 1}};
      for (int k = 0; k < 3; k++) {
        if (g[k].number != b->move.group) continue;
        const int leaves = k == 0 ? LEAVES : k == 1 ? ROW_LEAVES : 5, from = leaves * b->me / b->members;
        if (b->move.kind == SL_EXCHANGE_SUM)
          RANK_CHECK(sl_subtrees(leaves, (sl_leaves){from, leaves * (b->me + 1) / b->members - from}, item) ==
                     b->items);
      }
      fill(b, round, item);
    }
    const int steps[] = {1, 5, 7, 11};
    int step = steps[(rank + round) % 4];
    while (t->n % step == 0 && step > 1) step = step == 11 ? 1 : 11;
    for (int i = 0; i < t->n; i++)
      sl_exchange_post(t->e, t->bucket[(i * step + rank) % t->n].number, count_done, &done);
    RANK_CHECK(sl_exchange_wait(t->e) == SL_OK);
    RANK_CHECK(__atomic_load_n(&done, __ATOMIC_SEQ_CST) == t->n * (round + 1));
    for (int i = 0; i < t->n; i++)
      look(&t->bucket[i], round,
           t->bucket[i].move.group == 0             ? LEAVES
           : t->bucket[i].move.group == g[1].number ? ROW_LEAVES
                                                    : 5);
  }
  RANK_CHECK(sl_exchange_stalled(t->e) == 0);
  const sl_exchange_type *type = sl_exchange_type_of(t->e);
  if (ranks > 1 && (w.no_shared || w.ranks_per_node == 1)) {
    unsigned long long mine = sl_exchange_sent(t->e), sent = 0;
    MPI_Allreduce(&mine, &sent, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    RANK_CHECK((sent > 0) == type->counts_bytes && (sl_exchange_memory(t->e) > 0) == type->counts_bytes);
  }
  if (!type->shares_memory) RANK_CHECK(sl_exchange_nodes(t->e) == ranks);
  sl_exchange_destroy(t->e);
  if (!w.allocate) free(memory);
  free(t);
}

/* A long copy of one rank and a long sum for one rank are relayed, and a short copy is not: the results are right, and
 * each rank has sent as many bytes as that takes. */
static void ranks_relay(void) {
  enum { LONG = 300000, SHORT = 4000 };
  int rank, ranks, first[MOST_RANKS + 1], copy, sum, brief;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int r = 0; r <= ranks; r++) first[r] = r;
  sl_exchange *e;
  RANK_CHECK(sl_exchange_create(&(sl_exchange_options){.type = sl_exchange_find("tree"),
                                                       .comm = MPI_COMM_WORLD,
                                                       .node = MPI_COMM_NULL,
                                                       .leaves = ranks,
                                                       .first = first,
                                                       .no_shared = 1},
                                &e) == SL_OK);
  float *x = malloc(3 * LONG * sizeof *x);
  RANK_CHECK(x);
  void *copied = x, *added = x + LONG, *brief_copied = x + (ptrdiff_t)2 * LONG;
  RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.kind = SL_EXCHANGE_COPY, .rank = 1}, SL_F32,
                             &(sl_stretch){.data = &copied, .count = LONG}, 1, &copy) == SL_OK);
  RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.kind = SL_EXCHANGE_SUM, .rank = ranks - 1}, SL_F32,
                             &(sl_stretch){.data = &added, .count = LONG}, 1, &sum) == SL_OK);
  RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.kind = SL_EXCHANGE_COPY, .rank = 1}, SL_F32,
                             &(sl_stretch){.data = &brief_copied, .count = SHORT}, 1, &brief) == SL_OK);
  for (int i = 0; i < LONG; i++) {
    x[i] = rank == 1 ? (float)i : -1;
    x[LONG + i] = (float)(i % 1000 + rank);
    x[2 * LONG + i] = rank == 1 ? (float)(i + 1) : -1;
  }
  const int number[] = {copy, sum, brief};
  for (int i = 0; i < 3; i++) sl_exchange_post(e, number[i], NULL, NULL);
  RANK_CHECK(sl_exchange_wait(e) == SL_OK);
  for (int i = 0; i < LONG; i++) {
    RANK_CHECK(x[i] == (float)i);
    if (rank == ranks - 1) RANK_CHECK(x[LONG + i] == (float)(i % 1000 * ranks + ranks * (ranks - 1) / 2));
    if (i < SHORT) RANK_CHECK(x[2 * LONG + i] == (float)(i + 1));
  }
  const double others = (double)(ranks - 1) / ranks, all = LONG * sizeof(float), sent = (double)sl_exchange_sent(e),
               sums = all * others + (rank == ranks - 1 ? 0 : all / ranks),
               copies = all * others * (rank == 1 ? 2 : 1) - (rank == 1 ? 0 : all / ranks),
               briefly = rank == 1 ? SHORT * sizeof(float) * (ranks - 1) : 0;
  RANK_CHECK(fabs(sent - sums - copies - briefly) < 10000); /* parts are whole cache lines */
  sl_exchange_destroy(e);
  free(x);
}

static void ranks_move(void) {
  ranks_move_in((way){.type = "tree", .allocate = 1, .missing = 1});
  ranks_move_in((way){.type = "tree"});
  ranks_move_in((way){.type = "tree", .ranks_per_node = 2, .allocate = 1});
  ranks_move_in((way){.type = "tree", .no_shared = 1, .missing = 1});
  ranks_move_in((way){.type = "mpi", .missing = 1});
}

/* Rank `late` posts nothing for a while. The tree names it on all ranks that need its data; MPI names it for messages
 * between two ranks, and otherwise names nobody. */
static void stall(const char *type, int no_shared, sl_exchange_kind kind, int late) {
  int rank, ranks, number = -1, bucket;
  char names[MOST_RANKS];
  float x[MOST_RANKS][50] = {{0}};
  void *data[MOST_RANKS][SL_MAX_SUBTREES];
  sl_stretch stretch[MOST_RANKS];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first[MOST_RANKS + 1], member[MOST_RANKS], n = 0, group;
  for (int r = 0; r <= ranks; r++) first[r] = r;
  sl_exchange *e;
  const sl_exchange_options options = {.type = sl_exchange_find(type),
                                       .comm = MPI_COMM_WORLD,
                                       .node = MPI_COMM_NULL,
                                       .leaves = ranks,
                                       .first = first,
                                       .no_shared = no_shared};
  RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
  for (int r = 0; r < ranks; r++)
    if ((r == 0) == (rank == 0)) member[n++] = r; /* rank 0 alone; the others: */
  RANK_CHECK(sl_exchange_group(e, member, n, 0, NULL, &group) == SL_OK);
  const int with = rank != 0;
  for (int r = 0; r < n; r++) {
    data[r][0] = x[r];
    stretch[r] = (sl_stretch){.data = data[r], .count = 50, .rank = r};
  }
  sl_exchange_move move = {.kind = kind,
                           .rank = kind == SL_EXCHANGE_SUM || kind == SL_EXCHANGE_GATHER ? SL_EXCHANGE_ALL : 0,
                           .group = group};
  if (kind == SL_EXCHANGE_SEND) { /* from the group's rank 0 to its rank 1, one of which is late */
    move.rank = rank == 1;
    move.kind = rank == 1 ? SL_EXCHANGE_SEND : SL_EXCHANGE_RECEIVE;
  }
  const int takes_part = with && (kind != SL_EXCHANGE_SEND || rank <= 2);
  if (takes_part) RANK_CHECK(sl_exchange_add(e, move, SL_F32, stretch, n, &number) == SL_OK);
  if (takes_part && rank != late) {
    const int knows = sl_exchange_find(type)->tells_whom, peer = kind == SL_EXCHANGE_SEND && rank == 2;
    sl_exchange_post(e, number, NULL, NULL);
    /* On a busy machine others may be late for a moment, too. */
    const double from = sl_seconds();
    int told, others;
    do {
      usleep(10000);
      told = sl_exchange_stalled(e) < 0.3 ? 0 : sl_exchange_waits_for(e, &bucket, names), others = 0;
      for (int r = 0; told && r < ranks; r++) others += names[r] && r != late && (knows || r == rank);
    } while (sl_seconds() - from < (knows || peer ? 60 : 0.6) && (told != 1 || others || !names[late]));
    if (knows || peer) RANK_CHECK(told == 1 && bucket == number && names[late]);
    RANK_CHECK(others == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (takes_part && rank == late) sl_exchange_post(e, number, NULL, NULL);
  RANK_CHECK(sl_exchange_wait(e) == SL_OK);
  sl_exchange_destroy(e);
}

/* Rank 1 has not posted a bucket of the first group, since it waits for rank 2 in the second group. It names rank 2,
 * not itself. */
static void stall_by_another_group(int no_shared) {
  int rank, ranks, one, later, across, group, bucket;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first[MOST_RANKS + 1];
  const int pair[2] = {1, 2}, alone[1] = {rank}, in_pair = rank == 1 || rank == 2;
  char names[MOST_RANKS];
  float x[3] = {1, 2, 3};
  void *data[3] = {&x[0], &x[1], &x[2]};
  for (int r = 0; r <= ranks; r++) first[r] = r;
  sl_exchange *e;
  const sl_exchange_options options = {.type = sl_exchange_find("tree"),
                                       .comm = MPI_COMM_WORLD,
                                       .node = MPI_COMM_NULL,
                                       .leaves = ranks,
                                       .first = first,
                                       .no_shared = no_shared};
  const sl_exchange_move sum = {.kind = SL_EXCHANGE_SUM, .rank = SL_EXCHANGE_ALL};
  RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
  RANK_CHECK(sl_exchange_group(e, in_pair ? pair : alone, in_pair ? 2 : 1, 0, NULL, &group) == SL_OK);
  RANK_CHECK(sl_exchange_add(e, sum, SL_F32, &(sl_stretch){.data = &data[0], .count = 1}, 1, &one) == SL_OK);
  RANK_CHECK(sl_exchange_add(e, sum, SL_F32, &(sl_stretch){.data = &data[1], .count = 1}, 1, &later) == SL_OK);
  RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.kind = SL_EXCHANGE_COPY, .rank = in_pair, .group = group}, SL_F32,
                             &(sl_stretch){.data = &data[2], .count = 1}, 1, &across) == SL_OK);
  sl_exchange_post(e, later, NULL, NULL);
  if (rank != 1) sl_exchange_post(e, one, NULL, NULL);
  if (rank != 2) sl_exchange_post(e, across, NULL, NULL);
  int told = 0;
  for (const double from = sl_seconds(); rank == 1 && sl_seconds() - from < 60; usleep(10000)) {
    told = sl_exchange_stalled(e) < 0.3 ? 0 : sl_exchange_waits_for(e, &bucket, names);
    if (told == 1 && names[2]) break;
  }
  RANK_CHECK(rank != 1 || (told == 1 && names[2]));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) sl_exchange_post(e, one, NULL, NULL);
  if (rank == 2) sl_exchange_post(e, across, NULL, NULL);
  RANK_CHECK(sl_exchange_wait(e) == SL_OK);
  sl_exchange_destroy(e);
}

/* On the group of ranks 1, 2 and 3. Rank 1 is the origin of copies, scatters and messages. Only shared memory shows
 * that a receiver is late: a message can be sent before it is received. */
static void ranks_stall(void) {
  for (int kind = 0; kind < SL_EXCHANGE_RECEIVE; kind++) {
    stall("tree", 0, (sl_exchange_kind)kind, 1);
    stall("mpi", 0, (sl_exchange_kind)kind, 1);
    stall("tree", 1, (sl_exchange_kind)kind, 1);
  }
  stall("tree", 0, SL_EXCHANGE_SUM, 2);
  stall("tree", 0, SL_EXCHANGE_SEND, 2);
  for (int no_shared = 0; no_shared < 2; no_shared++) stall_by_another_group(no_shared);
}

static void note(void *arg) { atomic_store((atomic_int *)arg, 1); }

/* Two ranks send to each other. The message that was added first is posted only after the others have arrived: one that
 * goes the other way, and one that goes the same way on another group. */
static void ranks_cross(void) {
  const int first[3] = {0, 1, 2}, both[2] = {0, 1};
  int rank, group;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; sl_exchange_types[i]; i++)
    for (int messages = 0; messages < 2; messages++) {
      sl_exchange *e;
      int number[3];
      float data[3] = {(float)(10 + rank), (float)(20 + rank), (float)(30 + rank)};
      atomic_int arrived[3] = {0};
      const sl_exchange_options options = {.type = sl_exchange_types[i],
                                           .comm = MPI_COMM_WORLD,
                                           .node = MPI_COMM_NULL,
                                           .leaves = 2,
                                           .first = first,
                                           .no_shared = messages};
      RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
      RANK_CHECK(sl_exchange_group(e, both, 2, 0, NULL, &group) == SL_OK && group != 0);
      for (int k = 0; k < 3; k++) { /* from rank 1 to rank 0, from rank 0 to rank 1, from rank 1 to rank 0 */
        void *at = &data[k];
        const sl_exchange_move move = {
            .kind = rank == k % 2 ? SL_EXCHANGE_RECEIVE : SL_EXCHANGE_SEND, .rank = !rank, .group = k == 2 ? group : 0};
        RANK_CHECK(sl_exchange_add(e, move, SL_F32, &(sl_stretch){.data = &at, .count = 1}, 1, &number[k]) == SL_OK);
      }
      for (int round = 0; round < 3; round++) {
        if (rank == 0) sl_exchange_post(e, number[0], NULL, NULL);
        for (int k = 1; k < 3; k++) {
          atomic_store(&arrived[k], 0);
          sl_exchange_post(e, number[k], note, &arrived[k]);
        }
        for (int k = 1; k < 3; k++) {
          for (const double from = sl_seconds(); !atomic_load(&arrived[k]) && sl_seconds() - from < 120;) usleep(1000);
          RANK_CHECK(atomic_load(&arrived[k]));
        }
        if (rank == 1) sl_exchange_post(e, number[0], NULL, NULL);
        RANK_CHECK(sl_exchange_wait(e) == SL_OK);
        RANK_CHECK(data[0] == 11 && data[1] == 20 && data[2] == 31);
      }
      sl_exchange_destroy(e);
    }
}

typedef struct urgent {
  sl_exchange *e;
  int number[3], n_ended;
  struct ended {
    struct urgent *all;
    int at; /* how many had ended before */
  } ended[3];
} urgent;

static void end_one(void *arg) {
  struct ended *x = arg;
  x->at = x->all->n_ended++;
}
/* Posts the other buckets while the exchange's thread is here, so that it sees all of them at once. */
static void post_rest(void *arg) {
  urgent *u = arg;
  for (int k = 0; k < 3; k++) sl_exchange_post(u->e, u->number[k], end_one, &u->ended[k]);
}

/* Sums in three groups have the urgency of the only rank that gives one. On one rank, where no group waits for others,
 * the most urgent sum ends first although it is the longest. The group of the least urgent one had an urgent bucket
 * before. */
static void ranks_hurry(void) {
  enum { N = 100000 };
  static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  int rank, ranks, first[MOST_RANKS + 1], member[MOST_RANKS], gate = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int r = 0; r <= ranks; r++) first[r] = r;
  for (int r = 0; r < ranks; r++) member[r] = r;
  float *x = calloc(9 * (size_t)N, sizeof *x), one = 1;
  RANK_CHECK(x);
  for (int way = 0; way < 6; way++) {
    urgent u = {0};
    const sl_exchange_options options = {.type = sl_exchange_find("tree"),
                                         .comm = MPI_COMM_WORLD,
                                         .node = MPI_COMM_NULL,
                                         .leaves = ranks,
                                         .first = first,
                                         .no_shared = way % 2,
                                         .segment = 4096};
    RANK_CHECK(sl_exchange_create(&options, &u.e) == SL_OK);
    for (int k = 0; k < 3; k++) { /* as number order[way][k] */
      const int last = order[way][k] == 2;
      void *data = x + (ptrdiff_t)3 * N * k, *small = &one;
      sl_exchange_move move = {.rank = SL_EXCHANGE_ALL};
      RANK_CHECK(sl_exchange_group(u.e, member, ranks, 0, NULL, &move.group) == SL_OK);
      move.urgency = rank == ranks - 1 ? 10 : 0;
      if (last)
        RANK_CHECK(sl_exchange_add(u.e, move, SL_F32, &(sl_stretch){.data = &small, .count = 1}, 1, &gate) == SL_OK);
      move.urgency = rank == ranks - 1 ? 3 - order[way][k] : 0;
      const sl_stretch sum = {.data = &data, .count = N * (3 - order[way][k])};
      RANK_CHECK(sl_exchange_add(u.e, move, SL_F32, &sum, 1, &u.number[k]) == SL_OK);
      u.ended[k].all = &u;
    }
    sl_exchange_post(u.e, gate, post_rest, &u);
    RANK_CHECK(sl_exchange_wait(u.e) == SL_OK);
    for (int k = 0; k < 3; k++) {
      RANK_CHECK(u.e->bucket[u.number[k]]->urgency == 3 - order[way][k]);
      RANK_CHECK(ranks > 1 || u.ended[k].at == order[way][k]);
    }
    sl_exchange_destroy(u.e);
  }
  free(x);
}

/* Wrong arguments are refused on all ranks, and by every implementation. */
static void ranks_refuse(void) {
  int rank, ranks, number, group;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first[MOST_RANKS + 1], member[MOST_RANKS];
  float x[8] = {0};
  void *data[SL_MAX_SUBTREES], *none[1] = {NULL};
  for (int r = 0; r < SL_MAX_SUBTREES; r++) data[r] = x;
  for (int r = 0; r <= ranks; r++) first[r] = r;
  for (int r = 0; r < ranks; r++) member[r] = r;
  const sl_stretch one = {.data = data, .count = 1}, lost = {.data = none, .count = 1},
                   strange = {.data = data, .count = 1, .rank = ranks};
  for (int i = 0; sl_exchange_types[i]; i++) {
    sl_exchange *e;
    const sl_exchange_options options = {
        .type = sl_exchange_types[i], .comm = MPI_COMM_WORLD, .node = MPI_COMM_NULL, .leaves = ranks, .first = first};
    RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK && sl_exchange_type_of(e) == sl_exchange_types[i]);
    const sl_exchange_move refused[] = {{.kind = SL_EXCHANGE_SUM, .rank = ranks},
                                        {.kind = SL_EXCHANGE_SUM, .rank = -3},
                                        {.kind = SL_EXCHANGE_COPY, .rank = -1},
                                        {.kind = SL_EXCHANGE_GATHER, .rank = SL_EXCHANGE_PARTS},
                                        {.kind = SL_EXCHANGE_SCATTER, .rank = SL_EXCHANGE_ALL},
                                        {.kind = SL_EXCHANGE_SEND, .rank = rank},
                                        {.kind = SL_EXCHANGE_RECEIVE, .rank = ranks},
                                        {.kind = SL_EXCHANGE_KINDS},
                                        {.kind = SL_EXCHANGE_COPY, .group = 1},
                                        {.kind = SL_EXCHANGE_COPY, .group = -1}};
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
      RANK_CHECK(sl_exchange_add(e, refused[k], SL_F32, &one, 1, &number) == SL_EINVAL);
    const sl_exchange_move sum = {.rank = SL_EXCHANGE_ALL}, gather = {.kind = SL_EXCHANGE_GATHER};
    RANK_CHECK(sl_exchange_add(e, sum, SL_BF16, &one, 1, &number) == SL_EINVAL);
    RANK_CHECK(sl_exchange_add(e, sum, SL_F32, NULL, 0, &number) == SL_EINVAL);
    RANK_CHECK(sl_exchange_add(e, sum, SL_F32, rank == 0 ? &lost : &one, 1, &number) == SL_EINVAL);
    RANK_CHECK(strstr(sl_error(), "on rank 0"));
    RANK_CHECK(sl_exchange_add(e, gather, SL_F32, &strange, 1, &number) == SL_EINVAL);
    /* members that differ between ranks, are not ascending, or leave this rank out */
    const int swapped[2] = {1, 0}, others[1] = {(rank + 1) % ranks};
    if (ranks > 1) {
      RANK_CHECK(sl_exchange_group(e, swapped, 2, 0, NULL, &group) == SL_EINVAL);
      RANK_CHECK(sl_exchange_group(e, others, 1, 0, NULL, &group) == SL_EINVAL);
      RANK_CHECK(sl_exchange_group(e, rank == 0 ? member : member + rank, rank == 0 ? ranks : 1, 0, NULL, &group) ==
                 SL_EINVAL);
    }
    RANK_CHECK(sl_exchange_group(e, member, rank == 0, 0, NULL, &group) == SL_OK);
    if (rank > 0)
      RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.rank = -1, .group = group}, SL_F32, &one, 1, &number) ==
                 SL_EINVAL);
    sl_exchange_destroy(e);
  }
}

static void types(void **state) {
  (void)state;
  assert_non_null(sl_exchange_types[0]);
  assert_true(sl_exchange_types[0]->same_bits);
  for (int i = 0; sl_exchange_types[i]; i++) {
    assert_ptr_equal(sl_exchange_find(sl_exchange_types[i]->name), sl_exchange_types[i]);
    assert_string_equal(sl_exchange_names[i], sl_exchange_types[i]->name);
    assert_true(*sl_exchange_types[i]->summary != '\0');
  }
  assert_null(sl_exchange_find("pigeons"));
}

static void one_rank(void **state) { (void)state, ranks_run(1, "move"); }
static void two_ranks(void **state) { (void)state, ranks_run(2, "move"); }
static void three_ranks(void **state) { (void)state, ranks_run(3, "move"); }
static void four_ranks(void **state) { (void)state, ranks_run(4, "move"); }
static void six_ranks(void **state) { (void)state, ranks_run(6, "move"); }
static void relayed(void **state) { (void)state, ranks_run(5, "relay"); }
static void late(void **state) { (void)state, ranks_run(4, "stall"); }
static void crossed(void **state) { (void)state, ranks_run(2, "cross"); }
static void urgent_first(void **state) { (void)state, ranks_run(1, "hurry"), ranks_run(3, "hurry"); }

int main(int argc, char **argv) {
  if (argc > 1) {
    ranks_begin();
    if (strcmp(argv[1], "move") == 0) ranks_move(), ranks_refuse();
    if (strcmp(argv[1], "relay") == 0) ranks_relay();
    if (strcmp(argv[1], "stall") == 0) ranks_stall();
    if (strcmp(argv[1], "cross") == 0) ranks_cross();
    if (strcmp(argv[1], "hurry") == 0) ranks_hurry();
    MPI_Finalize();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types),        cmocka_unit_test(one_rank),   cmocka_unit_test(two_ranks),
      cmocka_unit_test(three_ranks),  cmocka_unit_test(four_ranks), cmocka_unit_test(six_ranks),
      cmocka_unit_test(relayed),      cmocka_unit_test(late),       cmocka_unit_test(crossed),
      cmocka_unit_test(urgent_first),
  };
  return cmocka_run_group_tests_name("runtime/exchange/exchange", tests, NULL, NULL);
}
