/* runtime/exchange/tree*.c on the group of all ranks: sums equal, bit for bit, those of one rank that adds along the
 * tree, for every division of leaves over ranks and of ranks over nodes, posted in any order. Also sums for one rank,
 * copies, compressed sums, and the ranks that a stalled exchange names. Runs itself under mpiexec. exchange.c tests
 * other moves and groups. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "runtime/exchange/exchange.h"
#include "runtime/numbers/statistics.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

/* An element of a leaf: magnitudes vary so much that the order of additions changes the sum's bits. */
static float value(int round, int bucket, int leaf, int64_t i) {
  uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)(leaf * 97 + bucket * 31 + round * 7) * 40503u + 1;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13, h *= 3266489917u, h ^= h >> 16;
  return ((float)(h >> 8) - 8388608.0f) * (h & 1 ? 1e-3f : h & 2 ? 1.0f : 1e3f);
}

/* The tree of the design, one element. */
static float tree32(int round, int bucket, int first, int n, int64_t i) {
  if (n == 1) return value(round, bucket, first, i);
  int half = 1;
  while (2 * half < n) half *= 2;
  const float a = tree32(round, bucket, first, half, i);
  return a + tree32(round, bucket, first + half, n - half, i);
}
static double tree64(int round, int bucket, int first, int n, int64_t i) {
  if (n == 1) return 1e-3 * (double)value(round, bucket, first, i);
  int half = 1;
  while (2 * half < n) half *= 2;
  const double a = tree64(round, bucket, first, half, i);
  return a + tree64(round, bucket, first + half, n - half, i);
}

enum { BUCKETS = 10, EMPTY = 6, GARBAGE = 50, SUMS = 3 };
static const sl_exchange_move ALL = {.rank = SL_EXCHANGE_ALL};
static const struct {
  sl_exchange_kind kind;
  int rank; /* modulo the ranks; -1: all */
  sl_dtype dtype;
  int64_t size[3];
} buckets[BUCKETS] = {
    {SL_EXCHANGE_SUM, -1, SL_F32, {5, 0, 7001}},     {SL_EXCHANGE_SUM, 1, SL_F32, {9001, 2, 333}},
    {SL_EXCHANGE_SUM, -1, SL_F64, {1, 0, 0}},        {SL_EXCHANGE_COPY, 2, SL_F64, {17, 3333, 128}},
    {SL_EXCHANGE_SUM, -1, SL_F64, {33333, 17, 128}}, {SL_EXCHANGE_SUM, 4, SL_F64, {3, 1, 5000}},
    {SL_EXCHANGE_COPY, 1, SL_F32, {0, 0, 0}},        {SL_EXCHANGE_SUM, -1, SL_F32, {70000, 3, 1}},
    {SL_EXCHANGE_COPY, 3, SL_F32, {12000, 3, 1}},    {SL_EXCHANGE_COPY, 0, SL_F32, {1, 0, 0}},
};
static int rank_of(int bucket, int ranks) { return buckets[bucket].rank < 0 ? -1 : buckets[bucket].rank % ranks; }

/* The expected element: the sum, or its origin's value. */
static double wanted(int round, int b, int s, int leaves, int64_t i) {
  const int id = 3 * b + s;
  if (buckets[b].kind == SL_EXCHANGE_COPY)
    return buckets[b].dtype == SL_F32 ? (double)value(round, id, 0, i) : 1e-3 * (double)value(round, id, 0, i);
  return buckets[b].dtype == SL_F32 ? (double)tree32(round, id, 0, leaves, i) : tree64(round, id, 0, leaves, i);
}

/* wanted() of every element of a stretch. All divisions of so many leaves want the same, so it is made once for them.
 */
static const double *all_wanted(int round, int b, int s, int leaves) {
  static double *kept[SUMS][BUCKETS][3];
  static int leaves_of[SUMS][BUCKETS][3];
  const size_t n = (size_t)buckets[b].size[s];
  double *all = kept[round][b][s];
  if (leaves_of[round][b][s] == leaves) return all;
  if (!all) all = kept[round][b][s] = malloc(n * sizeof *all);
  RANK_CHECK(all || n == 0);
  for (size_t i = 0; i < n; i++) all[i] = wanted(round, b, s, leaves, (int64_t)i);
  leaves_of[round][b][s] = leaves;
  return all;
}

/* The element before the exchange: the sum of an item's leaves; other values where nothing is copied from. */
static double before(int round, int b, int s, sl_leaves item, int has, int64_t i) {
  const int id = 3 * b + s;
  if (buckets[b].kind == SL_EXCHANGE_COPY)
    return has ? wanted(round, b, s, 0, i) : (double)value(round, id, GARBAGE, i);
  return buckets[b].dtype == SL_F32 ? (double)tree32(round, id, item.first, item.n, i)
                                    : tree64(round, id, item.first, item.n, i);
}

static void count_done(void *arg) { __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST); }

/* Where the arrays of buckets lie: in memory of the rank's own, in the exchange's, or, of every other bucket of the
 * last rank, in memory of its own. */
typedef enum place { OWN, ALLOCATED, MIXED } place;

/* One engine, three rounds of buckets of several stretches, posted in another order on each rank. */
static void sums(int leaves, const int *first, int no_shared, int ranks_per_node, size_t segment, place where) {
  int rank, ranks, done = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  sl_exchange *e;
  const sl_exchange_options options = {.type = sl_exchange_types[0],
                                       .comm = MPI_COMM_WORLD,
                                       .node = MPI_COMM_NULL,
                                       .leaves = leaves,
                                       .first = first,
                                       .no_shared = no_shared,
                                       .segment = segment,
                                       .ranks_per_node = ranks_per_node};
  RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
  sl_leaves item[SL_MAX_SUBTREES];
  const int items = sl_subtrees(leaves, (sl_leaves){first[rank], first[rank + 1] - first[rank]}, item);
  RANK_CHECK(items == sl_exchange_items(e, 0));
  void *data[BUCKETS][3][64], *memory = NULL, *outside = NULL;
  size_t bytes = 0;
  for (int b = 0; b < BUCKETS; b++)
    for (int s = 0; s < 3; s++) bytes += (size_t)items * ((size_t)buckets[b].size[s] * 8 + (size_t)(8 * (rank + 1)));
  const size_t unused = (size_t)rank << 22; /* the ranks' memories differ in size, as with ZeRO */
  if (where == OWN)
    memory = malloc(unused + bytes);
  else
    RANK_CHECK(sl_exchange_allocate(e, unused + bytes, &memory) == SL_OK);
  if (where == MIXED && rank == ranks - 1) outside = malloc(bytes);
  size_t next = 0;
  for (int b = 0; b < BUCKETS; b++) {
    sl_stretch stretch[3];
    int number;
    for (int s = 0; s < 3; s++) {
      for (int k = 0; k < items; k++, next += (size_t)buckets[b].size[s] * 8 + (size_t)(8 * (rank + 1)))
        data[b][s][k] = outside && b % 2 == 0 ? (char *)outside + next : (char *)memory + unused + next;
      stretch[s] = (sl_stretch){.data = data[b][s], .count = buckets[b].size[s]};
    }
    const sl_exchange_move move = {.kind = buckets[b].kind, .rank = rank_of(b, ranks)};
    RANK_CHECK(sl_exchange_add(e, move, buckets[b].dtype, stretch, b == EMPTY ? 0 : 3, &number) == SL_OK &&
               number == b);
  }
  for (int round = 0; round < SUMS; round++) {
    for (int b = 0; b < BUCKETS; b++)
      for (int s = 0; s < 3; s++)
        for (int k = 0; k < items; k++)
          for (int64_t i = 0; i < buckets[b].size[s]; i++) {
            const double x = before(round, b, s, item[k], rank == rank_of(b, ranks), i);
            if (buckets[b].dtype == SL_F32)
              ((float *)data[b][s][k])[i] = (float)x;
            else
              ((double *)data[b][s][k])[i] = x;
          }
    for (int b = 0; b < BUCKETS; b++) sl_exchange_post(e, (b * 3 + rank + round) % BUCKETS, count_done, &done);
    RANK_CHECK(sl_exchange_wait(e) == SL_OK);
    RANK_CHECK(__atomic_load_n(&done, __ATOMIC_SEQ_CST) == BUCKETS * (round + 1));
    for (int b = 0; b < BUCKETS; b++)
      for (int s = 0; s < 3; s++) {
        if (buckets[b].kind == SL_EXCHANGE_SUM && rank_of(b, ranks) >= 0 && rank_of(b, ranks) != rank) continue;
        const double *all = all_wanted(round, b, s, leaves);
        for (int64_t i = 0; i < buckets[b].size[s]; i++) {
          const double want = all[i];
          if (buckets[b].dtype == SL_F32) {
            const float narrow = (float)want;
            RANK_CHECK(memcmp(&((float *)data[b][s][0])[i], &narrow, sizeof narrow) == 0);
          } else {
            RANK_CHECK(memcmp(&((double *)data[b][s][0])[i], &want, sizeof want) == 0);
          }
        }
      }
  }
  RANK_CHECK(sl_exchange_stalled(e) == 0);
  sl_exchange_destroy(e);
  if (where == OWN) free(memory);
  free(outside);
}

/* Leaves divided evenly, and with most of them on the last rank. */
static void ranks_sum(void) {
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int leaves = ranks; leaves <= 13; leaves += leaves < 5 ? 1 : 4)
    for (int uneven = 0; uneven < 2; uneven++) {
      int first[9];
      for (int r = 0; r <= ranks; r++) first[r] = uneven ? r : (int)((int64_t)leaves * r / ranks);
      first[ranks] = leaves;
      sums(leaves, first, 0, 0, 0, OWN);
      sums(leaves, first, 0, 0, 1 << 16, ALLOCATED);
      sums(leaves, first, 0, 0, 1 << 16, MIXED);
      sums(leaves, first, 1, 0, 1 << 14, ALLOCATED);
      sums(leaves, first, 0, 2, 100000, OWN);
    }
}

/* Rank 1 is late, and the others name it: for a sum in shared memory, a sum by messages, and an empty bucket. */
static void ranks_wait(void) {
  int rank, ranks, number;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first[9];
  for (int r = 0; r <= ranks; r++) first[r] = r;
  for (int way = 0; way < 3; way++) {
    const int no_shared = way == 1, empty = way == 2;
    sl_exchange *e;
    const sl_exchange_options options = {.type = sl_exchange_types[0],
                                         .comm = MPI_COMM_WORLD,
                                         .node = MPI_COMM_NULL,
                                         .leaves = ranks,
                                         .first = first,
                                         .no_shared = no_shared};
    RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
    RANK_CHECK(sl_exchange_nodes(e) == (no_shared ? ranks : 1));
    float x[100] = {0};
    void *data = x;
    const sl_exchange_move move = empty ? (sl_exchange_move){.kind = SL_EXCHANGE_COPY} : ALL;
    RANK_CHECK(sl_exchange_add(e, move, SL_F32, &(sl_stretch){.data = &data, .count = 100}, !empty, &number) == SL_OK);
    char late_ranks[9];
    int bucket = -1;
    if (rank != 1) {
      sl_exchange_post(e, number, NULL, NULL);
      /* On a busy machine others may be late for a moment, too. */
      int told = 0;
      for (const double from = sl_seconds(); told != 1 && sl_seconds() - from < 60; usleep(10000))
        told = sl_exchange_stalled(e) < 0.3 ? 0 : sl_exchange_waits_for(e, &bucket, late_ranks);
      RANK_CHECK(told == 1 && bucket == 0);
      for (int r = 0; r < ranks; r++) RANK_CHECK(late_ranks[r] == (r == 1));
    } else {
      RANK_CHECK(sl_exchange_waits_for(e, &bucket, late_ranks) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) sl_exchange_post(e, number, NULL, NULL);
    RANK_CHECK(sl_exchange_wait(e) == SL_OK);
    sl_exchange_destroy(e);
  }
}

/* All ranks refuse a division that leaves a rank without leaves, and a rank that does not exist. */
static void ranks_refuse(void) {
  int ranks, number;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first[9] = {0};
  first[ranks] = 3;
  sl_exchange *e;
  const sl_exchange_options options = {
      .type = sl_exchange_types[0], .comm = MPI_COMM_WORLD, .node = MPI_COMM_NULL, .leaves = 3, .first = first};
  const sl_status status = sl_exchange_create(&options, &e);
  RANK_CHECK(ranks == 1 ? status == SL_OK : status == SL_EINVAL && strstr(sl_error(), "rank 0 of"));
  for (int kind = 0; ranks == 1 && kind < 2; kind++)
    RANK_CHECK(
        sl_exchange_add(e, (sl_exchange_move){.kind = (sl_exchange_kind)kind, .rank = kind == SL_EXCHANGE_SUM ? 1 : -1},
                        SL_F32, NULL, 0, &number) == SL_EINVAL);
  sl_exchange_destroy(e);
}

/* ---- figures: tests/figures/ranks/exchange.sh ---- */

/* Median seconds to sum so many bytes, measured in turn: in shared memory, through shared memory, by messages, by
 * MPI_Iallreduce. */
static void measure(size_t bytes) {
  enum { WAYS = 4, ENGINES = 3, ROUNDS = 7 };
  int rank, ranks, first[65], number;
  double seconds[WAYS][ROUNDS];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int r = 0; r <= ranks; r++) first[r] = r;
  const int64_t count = (int64_t)(bytes / sizeof(float));
  float *x = malloc(bytes), *sum = malloc(bytes);
  RANK_CHECK(x && sum);
  for (int64_t i = 0; i < count; i++) x[i] = value(0, 0, rank, i), sum[i] = 0;
  sl_exchange *e[ENGINES];
  for (int k = 0; k < ENGINES; k++) {
    const sl_exchange_options options = {.type = sl_exchange_types[0],
                                         .comm = MPI_COMM_WORLD,
                                         .node = MPI_COMM_NULL,
                                         .leaves = ranks,
                                         .first = first,
                                         .no_shared = k == 2};
    void *data = x;
    RANK_CHECK(sl_exchange_create(&options, &e[k]) == SL_OK);
    if (k == 0) {
      RANK_CHECK(sl_exchange_allocate(e[k], bytes, &data) == SL_OK);
      memcpy(data, x, bytes);
    }
    RANK_CHECK(sl_exchange_add(e[k], ALL, SL_F32, &(sl_stretch){.data = &data, .count = count}, 1, &number) == SL_OK);
  }
  for (int round = -1; round < ROUNDS; round++)
    for (int way = 0; way < WAYS; way++) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double from = MPI_Wtime();
      if (way < ENGINES) {
        sl_exchange_post(e[way], number, NULL, NULL);
        RANK_CHECK(sl_exchange_wait(e[way]) == SL_OK);
      } else {
        MPI_Request request;
        MPI_Iallreduce(x, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      double mine = MPI_Wtime() - from, all;
      MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (round >= 0) seconds[way][round] = all;
    }
  for (int way = 0; rank == 0 && way < WAYS; way++)
    printf("%.6f%c", sl_median(seconds[way], ROUNDS), way + 1 < WAYS ? ' ' : '\n');
  for (int k = 0; k < ENGINES; k++) sl_exchange_destroy(e[k]);
  free(x), free(sum);
}

/* The same sums repeatedly, compressed between nodes: all ranks get the same bytes, fewer bytes are sent, and the mean
 * over the rounds approaches the true sums. Sums that are not lossy stay exact. */
static void ranks_compress(void) {
  int rank, ranks, number;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  enum { COUNT = 9000, ROUNDS = 50 };
  const int leaves = ranks + 2;
  int first[9];
  for (int r = 0; r <= ranks; r++) first[r] = r == ranks ? leaves : r;
  sl_leaves item[SL_MAX_SUBTREES];
  const int items = sl_subtrees(leaves, (sl_leaves){first[rank], first[rank + 1] - first[rank]}, item);
  const struct {
    const char *text;
    int64_t warmup;
    double most; /* largest relative error of the sums */
  } ways[] = {{"none", 0, 0}, {"bf16", 0, 2e-4}, {"topk=0.25", 0, 0.1}, {"topk=0.125", 7, 0.15}};
  uint64_t plain = 0;
  float *true_sum = malloc(COUNT * sizeof *true_sum), *part[SL_MAX_SUBTREES]; /* of all leaves, and of each item's */
  RANK_CHECK(true_sum != NULL);
  for (int i = 0; i < COUNT; i++) true_sum[i] = tree32(0, 0, 0, leaves, i);
  for (int k = 0; k < items; k++) {
    RANK_CHECK((part[k] = malloc(COUNT * sizeof(float))) != NULL);
    for (int i = 0; i < COUNT; i++) part[k][i] = tree32(0, 0, item[k].first, item[k].n, i);
  }
  for (int way = 0; way < 4; way++)
    for (int ranks_per_node = 1; ranks_per_node < ranks; ranks_per_node++) {
      sl_exchange_options options = {.type = sl_exchange_types[0],
                                     .comm = MPI_COMM_WORLD,
                                     .node = MPI_COMM_NULL,
                                     .leaves = leaves,
                                     .first = first,
                                     .segment = 8192,
                                     .ranks_per_node = ranks_per_node};
      RANK_CHECK(sl_compression_parse(ways[way].text, &options.compression) == SL_OK);
      options.compression.warmup = ways[way].warmup;
      sl_exchange *e;
      RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
      float *data[3][SL_MAX_SUBTREES];
      double *sum = calloc(COUNT, sizeof *sum), off = 0, all = 0;
      const sl_exchange_move moves[3] = {{.rank = -1, .lossy = 1}, {.rank = -1}, {.rank = 1, .lossy = 1}};
      for (int b = 0; b < 3; b++) {
        for (int k = 0; k < items; k++) data[b][k] = malloc(COUNT * sizeof(float));
        RANK_CHECK(sl_exchange_add(e, moves[b], SL_F32, &(sl_stretch){.data = (void **)data[b], .count = COUNT}, 1,
                                   &number) == SL_OK);
      }
      for (int round = 0; round < ROUNDS; round++) {
        for (int b = 0; b < 3; b++)
          for (int k = 0; k < items; k++) memcpy(data[b][k], part[k], COUNT * sizeof(float));
        for (int b = 0; b < 3; b++) sl_exchange_post(e, b, NULL, NULL);
        RANK_CHECK(sl_exchange_wait(e) == SL_OK);
        for (int i = 0; i < COUNT; i++) {
          const float want = true_sum[i];
          RANK_CHECK(data[1][0][i] == want);
          if (way == 0) RANK_CHECK(data[0][0][i] == want && (rank != 1 || data[2][0][i] == want));
          sum[i] += (double)data[0][0][i];
        }
        float *theirs = malloc(COUNT * sizeof *theirs);
        memcpy(theirs, data[0][0], COUNT * sizeof *theirs);
        MPI_Bcast(theirs, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD);
        RANK_CHECK(memcmp(theirs, data[0][0], COUNT * sizeof *theirs) == 0);
        free(theirs);
      }
      for (int i = 0; i < COUNT; i++) {
        const double want = (double)true_sum[i], d = sum[i] / ROUNDS - want;
        off += d * d, all += want * want;
      }
      RANK_CHECK(sqrt(off) <= ways[way].most * sqrt(all));
      unsigned long long mine = sl_exchange_sent(e), sent;
      MPI_Allreduce(&mine, &sent, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
      if (ranks_per_node == 1 && way == 0) plain = sent;
      if (ranks_per_node == 1 && way > 0) RANK_CHECK((double)sent < 0.75 * (double)plain); /* one of three is whole */
      sl_exchange_destroy(e);
      for (int b = 0; b < 3; b++)
        for (int k = 0; k < items; k++) free(data[b][k]);
      free(sum);
    }
  for (int k = 0; k < items; k++) free(part[k]);
  free(true_sum);
}

static void one_rank(void **state) { (void)state, ranks_run(1, "sum"); }
static void two_ranks(void **state) { (void)state, ranks_run(2, "sum"); }
static void three_ranks(void **state) { (void)state, ranks_run(3, "sum"); }
static void four_ranks(void **state) { (void)state, ranks_run(4, "sum"); }
static void five_ranks(void **state) { (void)state, ranks_run(5, "sum"); }
static void late(void **state) { (void)state, ranks_run(3, "wait"); }
static void compressed(void **state) {
  (void)state;
  ranks_run(2, "compress");
  ranks_run(4, "compress");
}

int main(int argc, char **argv) {
  if (argc > 1) {
    ranks_begin();
    if (strcmp(argv[1], "sum") == 0) ranks_sum(), ranks_refuse();
    if (strcmp(argv[1], "wait") == 0) ranks_wait();
    if (strcmp(argv[1], "compress") == 0) ranks_compress();
    if (strcmp(argv[1], "measure") == 0 && argc > 2) measure((size_t)strtoull(argv[2], NULL, 10));
    MPI_Finalize();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank),   cmocka_unit_test(two_ranks),  cmocka_unit_test(three_ranks),
      cmocka_unit_test(four_ranks), cmocka_unit_test(five_ranks), cmocka_unit_test(late),
      cmocka_unit_test(compressed),
  };
  return cmocka_run_group_tests_name("runtime/exchange/tree", tests, NULL, NULL);
}
