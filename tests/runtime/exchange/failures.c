/* runtime/exchange: an allocation or MPI call fails on one rank while an exchange is made. Either all ranks get an
 * error, or the exchange works on all of them (messages replace refused shared memory); no rank waits for ever. Each
 * allocation and call of each rank fails in turn. Runs itself under mpiexec. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exchange/exchange.h"
#include "tests/support/failing.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

/* ---- MPI calls that fail: they do their work, so that no other rank waits in them, and then return an error ----- */

static int calls, failing_call; /* calls since the last reset; the call that fails, 0: none */
static int fails(int code) { return ++calls == failing_call ? MPI_ERR_OTHER : code; }

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) { return fails(PMPI_Comm_dup(comm, copy)); }
int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *part) {
  return fails(PMPI_Comm_split(comm, colour, key, part));
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part) {
  return fails(PMPI_Comm_split_type(comm, type, key, info, part));
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *part) {
  return fails(PMPI_Comm_create_group(comm, group, tag, part));
}
int MPI_Allgather(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype as, MPI_Comm comm) {
  return fails(PMPI_Allgather(from, n, type, to, m, as, comm));
}
int MPI_Allgatherv(const void *from, int n, MPI_Datatype type, void *to, const int *counts, const int *begins,
                   MPI_Datatype as, MPI_Comm comm) {
  return fails(PMPI_Allgatherv(from, n, type, to, counts, begins, as, comm));
}
static int no_window; /* a window could not be had on this rank */
int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window) {
  const int code = fails(PMPI_Win_allocate_shared(bytes, unit, info, comm, base, window));
  no_window |= code != MPI_SUCCESS;
  return code;
}
int MPI_Win_shared_query(MPI_Win window, int rank, MPI_Aint *bytes, int *unit, void *base) {
  return fails(PMPI_Win_shared_query(window, rank, bytes, unit, base));
}

/* ---- making an exchange ----------------------------------------------------------------------------------------- */

/* Checks that the value is the same on all ranks, and ends them if not. */
static sl_status same(sl_status status) {
  int mine = status, least, most;
  MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  RANK_CHECK((least == SL_OK) == (most == SL_OK));
  return status;
}

/* Makes an exchange with a group, memory, and buckets of several moves; uses it if all that worked. */
static sl_status make(const sl_exchange_type *type, int ranks_per_node) {
  int rank, ranks, first[5], group, sum, pair, gather, messages;
  no_window = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int r = 0; r <= ranks; r++) first[r] = r;
  const sl_exchange_options options = {.type = type,
                                       .comm = MPI_COMM_WORLD,
                                       .node = MPI_COMM_NULL,
                                       .leaves = ranks,
                                       .first = first,
                                       .segment = 4096,
                                       .ranks_per_node = ranks_per_node};
  const int two[2] = {0, 1}, one[1] = {rank}, members = rank < 2 ? 2 : 1;
  void *memory = NULL, *data[2];
  sl_exchange *e;
  sl_status status = same(sl_exchange_create(&options, &e));
  if (status != SL_OK) return status;
  SL_TRY_OUT(same(sl_exchange_group(e, rank < 2 ? two : one, members, 0, NULL, &group)));
  PMPI_Allreduce(&no_window, &messages, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  RANK_CHECK(!messages || sl_exchange_nodes(e) == ranks); /* or callers would rely on memory that is not shared */
  SL_TRY_OUT(same(sl_exchange_allocate(e, 4 * 400, &memory)));
  float *x = memory;
  data[0] = x, data[1] = x + 100;
  for (int i = 0; i < 100; i++) x[i] = (float)rank, x[100 + i] = 1, x[200 + i] = (float)rank;
  const sl_stretch all = {.data = &data[0], .count = 100}, own = {.data = &data[1], .count = 100};
  void *parts[2] = {x + 200, x + 300};
  const sl_stretch stretch[2] = {{.data = &parts[0], .count = 50},
                                 {.data = &parts[1], .count = 50, .rank = members - 1}};
  SL_TRY_OUT(same(sl_exchange_add(e, (sl_exchange_move){.rank = SL_EXCHANGE_ALL}, SL_F32, &all, 1, &sum)));
  const sl_exchange_move gathers = {.kind = SL_EXCHANGE_GATHER, .rank = SL_EXCHANGE_ALL, .group = group};
  status = sl_exchange_add(e, gathers, SL_F32, stretch, 2, &gather);
  if (rank < 2 && status == SL_OK) {
    const sl_exchange_move sends = {
        .kind = rank == 0 ? SL_EXCHANGE_SEND : SL_EXCHANGE_RECEIVE, .rank = !rank, .group = group};
    status = sl_exchange_add(e, sends, SL_F32, &own, 1, &pair);
  }
  int codes[5]; /* only a group's ranks know of its failure */
  PMPI_Allgather(&status, 1, MPI_INT, codes, 1, MPI_INT, MPI_COMM_WORLD);
  RANK_CHECK((codes[0] == SL_OK) == (codes[1] == SL_OK));
  for (int r = 0; r < ranks; r++)
    if (codes[r] != SL_OK) status = (sl_status)codes[r];
  if (status != SL_OK) goto out;
  failing_end();
  failing_call = 0;
  if (rank == 0) x[100] = 7;
  sl_exchange_post(e, sum, NULL, NULL);
  sl_exchange_post(e, gather, NULL, NULL);
  if (rank < 2) sl_exchange_post(e, pair, NULL, NULL);
  RANK_CHECK(sl_exchange_wait(e) == SL_OK);
  RANK_CHECK(x[0] == (float)(ranks * (ranks - 1) / 2) && x[99] == x[0] && (rank != 1 || x[100] == 7));
  RANK_CHECK(rank > 1 || x[200] == 0);
out:
  sl_exchange_destroy(e);
  return status;
}

/* Lets allocation or call 1, 2, ... of each rank fail in turn, until the rank makes no more; every third time without
 * shared memory. */
static void each_in_turn(const sl_exchange_type *type, int ranks_per_node, int allocations) {
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int victim = 0; victim < ranks; victim++)
    for (int number = 1, more = 1, failed = 0; more; number += ranks_per_node ? 3 : 1) {
      calls = 0;
      failing_call = !allocations && rank == victim ? number : 0;
      if (allocations) failing_at(rank == victim ? number : 0);
      const sl_status status = make(type, ranks_per_node);
      const long counted = allocations ? failing_end() : 0;
      more = allocations ? counted >= number || status != SL_OK : calls >= number;
      MPI_Bcast(&more, 1, MPI_INT, victim, MPI_COMM_WORLD);
      failed += status != SL_OK;
      RANK_CHECK(more || (status == SL_OK && failed > 2)); /* without a failure it works */
    }
}

static void fail_on_ranks(int allocations) {
  for (int i = 0; sl_exchange_types[i]; i++) {
    each_in_turn(sl_exchange_types[i], 0, allocations);
    if (sl_exchange_types[i]->shares_memory) each_in_turn(sl_exchange_types[i], 1, allocations);
  }
}

static void no_memory(void **state) {
  (void)state;
  if (!failing_possible()) skip();
  ranks_run(2, "memory");
}
static void no_mpi(void **state) { (void)state, ranks_run(2, "mpi"); }

int main(int argc, char **argv) {
  if (argc > 1) {
    ranks_begin();
    fail_on_ranks(strcmp(argv[1], "memory") == 0);
    MPI_Finalize();
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory), cmocka_unit_test(no_mpi)};
  return cmocka_run_group_tests_name("runtime/exchange/failures", tests, NULL, NULL);
}
