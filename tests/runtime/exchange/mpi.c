/* runtime/exchange/mpi.c on the group of all ranks: sums (to rounding) for all ranks or for one, and copies, posted in
 * any order; the message of a stalled exchange. Runs itself under mpiexec. exchange.c tests other moves and groups. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/exchange/exchange.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

static double value(int round, int bucket, int leaf, int64_t i) {
  return sin((double)i + 10 * leaf + 100 * bucket + 1000 * round);
}

enum { BUCKETS = 8, LEAVES = 11, EMPTY = 5, GARBAGE = 50 };
static const sl_exchange_move ALL = {.rank = SL_EXCHANGE_ALL};
static const struct {
  sl_exchange_kind kind;
  int rank; /* modulo the ranks; -1: all */
  sl_dtype dtype;
  int64_t size[3];
} buckets[BUCKETS] = {
    {SL_EXCHANGE_SUM, -1, SL_F32, {5, 0, 7001}},    {SL_EXCHANGE_SUM, 1, SL_F64, {400, 1, 3}},
    {SL_EXCHANGE_SUM, -1, SL_F64, {1, 0, 0}},       {SL_EXCHANGE_COPY, 2, SL_F64, {17, 3333, 128}},
    {SL_EXCHANGE_SUM, -1, SL_F64, {3333, 17, 128}}, {SL_EXCHANGE_COPY, 1, SL_F32, {0, 0, 0}},
    {SL_EXCHANGE_SUM, -1, SL_F32, {70000, 3, 1}},   {SL_EXCHANGE_SUM, 2, SL_F32, {9000, 0, 0}},
};
static int rank_of(int bucket, int ranks) { return buckets[bucket].rank < 0 ? -1 : buckets[bucket].rank % ranks; }

static void put(void *array, sl_dtype dtype, int64_t i, double x) {
  if (dtype == SL_F32)
    ((float *)array)[i] = (float)x;
  else
    ((double *)array)[i] = x;
}
static double get(const void *array, sl_dtype dtype, int64_t i) {
  return dtype == SL_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static void count_done(void *arg) { __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST); }

static sl_exchange_options options_of(int leaves, int *first) {
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int r = 0; r <= ranks; r++) first[r] = leaves * r / ranks;
  return (sl_exchange_options){
      .type = sl_exchange_find("mpi"), .comm = MPI_COMM_WORLD, .node = MPI_COMM_NULL, .leaves = leaves, .first = first};
}

static void ranks_sum(void) {
  int rank, ranks, first[9], done = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const sl_exchange_options options = options_of(LEAVES, first);
  sl_exchange *e;
  RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
  sl_leaves item[SL_MAX_SUBTREES];
  const int items = sl_subtrees(LEAVES, (sl_leaves){first[rank], first[rank + 1] - first[rank]}, item);
  size_t bytes = 0;
  for (int b = 0; b < BUCKETS; b++)
    for (int s = 0; s < 3; s++) bytes += (size_t)items * 8 * (size_t)buckets[b].size[s];
  void *data[BUCKETS][3][SL_MAX_SUBTREES], *memory;
  RANK_CHECK(sl_exchange_allocate(e, bytes, &memory) == SL_OK);
  char *next = memory;
  for (int b = 0; b < BUCKETS; b++) {
    sl_stretch stretch[3];
    int number;
    for (int s = 0; s < 3; s++) {
      for (int k = 0; k < items; k++, next += 8 * buckets[b].size[s]) data[b][s][k] = next;
      stretch[s] = (sl_stretch){.data = data[b][s], .count = buckets[b].size[s]};
    }
    const sl_exchange_move move = {.kind = buckets[b].kind, .rank = rank_of(b, ranks)};
    RANK_CHECK(sl_exchange_add(e, move, buckets[b].dtype, stretch, b == EMPTY ? 0 : 3, &number) == SL_OK &&
               number == b);
  }
  for (int round = 0; round < 3; round++) {
    for (int b = 0; b < BUCKETS; b++)
      for (int s = 0; s < 3; s++)
        for (int k = 0; k < items; k++)
          for (int64_t i = 0; i < buckets[b].size[s]; i++) {
            double x = 0;
            for (int leaf = item[k].first; leaf < item[k].first + item[k].n; leaf++)
              x += value(round, 3 * b + s, leaf, i);
            if (buckets[b].kind == SL_EXCHANGE_COPY)
              x = value(round, 3 * b + s, rank == rank_of(b, ranks) ? 0 : GARBAGE, i);
            put(data[b][s][k], buckets[b].dtype, i, x);
          }
    for (int b = 0; b < BUCKETS; b++) sl_exchange_post(e, (b * 3 + rank + round) % BUCKETS, count_done, &done);
    RANK_CHECK(sl_exchange_wait(e) == SL_OK);
    RANK_CHECK(__atomic_load_n(&done, __ATOMIC_SEQ_CST) == BUCKETS * (round + 1));
    for (int b = 0; b < BUCKETS; b++)
      for (int s = 0; s < 3; s++)
        for (int64_t i = 0; i < buckets[b].size[s]; i++) {
          const int copied = buckets[b].kind == SL_EXCHANGE_COPY;
          if (!copied && rank_of(b, ranks) >= 0 && rank_of(b, ranks) != rank) continue;
          double want = 0;
          for (int leaf = 0; leaf < (copied ? 1 : LEAVES); leaf++) want += value(round, 3 * b + s, leaf, i);
          RANK_CHECK(fabs(get(data[b][s][0], buckets[b].dtype, i) - want) <=
                     (buckets[b].dtype == SL_F32 ? 1e-5 : 1e-12));
        }
  }
  RANK_CHECK(sl_exchange_stalled(e) == 0);
  sl_exchange_destroy(e);
}

/* Rank 1 is late: the others wait, and know only that they are not late themselves. Then the first bucket is posted
 * last. */
static void ranks_wait(void) {
  int rank, ranks, first[9], number, bucket = 7;
  char late[9];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const sl_exchange_options options = options_of(ranks, first);
  sl_exchange *e;
  RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
  float x[2][100] = {{0}};
  void *data[2] = {x[0], x[1]};
  for (int b = 0; b < 2; b++)
    RANK_CHECK(sl_exchange_add(e, ALL, SL_F32, &(sl_stretch){.data = &data[b], .count = 100}, 1, &number) == SL_OK &&
               number == b);
  RANK_CHECK(sl_exchange_waits_for(e, &bucket, late) == 0 && bucket == -1);
  if (rank != 1) {
    sl_exchange_post(e, 0, NULL, NULL);
    while (sl_exchange_stalled(e) < 0.3) usleep(10000);
    RANK_CHECK(sl_exchange_waits_for(e, &bucket, late) == 0 && bucket == 0 && !memchr(late, 1, (size_t)ranks));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  sl_exchange_post(e, rank == 1 ? 0 : 1, NULL, NULL);
  if (rank == 1) sl_exchange_post(e, 1, NULL, NULL);
  RANK_CHECK(sl_exchange_wait(e) == SL_OK);
  sl_exchange_post(e, 1, NULL, NULL);
  usleep(20000);
  RANK_CHECK(sl_exchange_waits_for(e, &bucket, late) == 1 && bucket == 0 && late[rank]);
  sl_exchange_post(e, 0, NULL, NULL);
  RANK_CHECK(sl_exchange_wait(e) == SL_OK);
  sl_exchange_destroy(e);
}

/* Types that cannot be summed are refused on all ranks. */
static void ranks_refuse(void) {
  int first[9], number;
  const sl_exchange_options options = options_of(LEAVES, first);
  sl_exchange *e;
  char bytes[8];
  void *data[SL_MAX_SUBTREES];
  for (int k = 0; k < SL_MAX_SUBTREES; k++) data[k] = bytes;
  RANK_CHECK(sl_exchange_create(&options, &e) == SL_OK);
  RANK_CHECK(sl_exchange_add(e, ALL, SL_I32, &(sl_stretch){.data = data, .count = 1}, 1, &number) == SL_EINVAL);
  RANK_CHECK(sl_exchange_add(e, ALL, SL_F32, &(sl_stretch){.data = data, .count = 0}, 1, &number) == SL_EINVAL);
  RANK_CHECK(sl_exchange_add(e, ALL, SL_F32, &(sl_stretch){.data = data, .count = (int64_t)1 << 31}, 1, &number) ==
             SL_EINVAL);
  RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.rank = 9}, SL_F32, &(sl_stretch){.data = data, .count = 1}, 1,
                             &number) == SL_EINVAL);
  RANK_CHECK(sl_exchange_add(e, (sl_exchange_move){.kind = SL_EXCHANGE_COPY, .rank = -1}, SL_F32, NULL, 0, &number) ==
             SL_EINVAL);
  sl_exchange_destroy(e);
}

static void one_rank(void **state) { (void)state, ranks_run(1, "sum"); }
static void two_ranks(void **state) { (void)state, ranks_run(2, "sum"); }
static void three_ranks(void **state) { (void)state, ranks_run(3, "sum"); }
static void late(void **state) { (void)state, ranks_run(3, "wait"); }

int main(int argc, char **argv) {
  if (argc > 1) {
    ranks_begin();
    if (strcmp(argv[1], "sum") == 0) ranks_sum(), ranks_refuse();
    if (strcmp(argv[1], "wait") == 0) ranks_wait();
    MPI_Finalize();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank),
      cmocka_unit_test(two_ranks),
      cmocka_unit_test(three_ranks),
      cmocka_unit_test(late),
  };
  return cmocka_run_group_tests_name("runtime/exchange/mpi", tests, NULL, NULL);
}
