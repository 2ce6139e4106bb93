/* runtime/machine/comm.c: all ranks get one status: that of the first rank that failed, with its text. Starts itself
 * again under mpiexec. */
#include "runtime/machine/comm.h"

#include <stdlib.h>

#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

static void without_ranks(void **state) {
  (void)state;
  assert_ok(sl_comm_agree(MPI_COMM_NULL, SL_OK));
  sl_fail(SL_EIO, "mine");
  assert_fails(SL_EIO, "mine", sl_comm_agree(MPI_COMM_NULL, SL_EIO));
  assert_ok(sl_comm_status(MPI_SUCCESS, "MPI_Barrier"));
}

/* For every set of failing ranks: the lowest one's code and text. */
static void ranks_agree(void) {
  int rank, ranks;
  ranks_begin();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (unsigned failing = 0; failing < 1u << ranks; failing++) {
    int first = 0;
    while (first < ranks && !(failing >> first & 1)) first++;
    sl_status mine = SL_OK;
    sl_fail(SL_OK, "nothing of rank %d", rank);
    if (failing >> rank & 1) mine = sl_fail(rank % 2 ? SL_EIO : SL_EFORMAT, "disk of rank %d", rank);
    const sl_status all = sl_comm_agree(MPI_COMM_WORLD, mine);
    if (first == ranks) {
      RANK_CHECK(all == SL_OK);
      continue;
    }
    char wanted[64];
    snprintf(wanted, sizeof wanted, ranks > 1 ? "rank %d: disk of rank %d" : "disk of rank 0", first, first);
    RANK_CHECK(all == (first % 2 ? SL_EIO : SL_EFORMAT));
    RANK_CHECK(strcmp(sl_error(), wanted) == 0);
  }
  char text[5000]; /* longer than what is sent */
  memset(text, 'x', sizeof text), text[sizeof text - 1] = 0;
  RANK_CHECK(sl_comm_agree(MPI_COMM_WORLD, rank == ranks - 1 ? sl_fail(SL_EIO, "%s", text) : SL_OK) == SL_EIO);
  RANK_CHECK(strlen(sl_error()) > 1000);
  RANK_CHECK(sl_comm_status(MPI_ERR_COUNT, "MPI_Send") == SL_EMPI && strstr(sl_error(), "MPI_Send: "));
  MPI_Finalize();
}

static void agrees(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 3; ranks++) ranks_run(ranks, "agree");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "agree") == 0) {
    ranks_agree();
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(without_ranks), cmocka_unit_test(agrees)};
  return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
