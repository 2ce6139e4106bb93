/* Tests of several ranks in C: the program starts itself over under mpiexec, with a word that says what the ranks are
 * to do. There a check that fails ends all ranks. */
#ifndef SL_TESTS_RANKS_H
#define SL_TESTS_RANKS_H

#include <mpi.h>
#include <stdio.h>

#include "runtime/base/status.h"

/* Runs this program with the argument `what` on so many ranks, half an hour at most; all must end with 0. Skips the
 * test where MPIEXEC names no mpiexec. */
void ranks_run(int ranks, const char *what);
/* Starts MPI as the runtime does. Of a rank. */
void ranks_begin(void);

#define RANK_CHECK(condition)                                                          \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, sl_error()); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
    }                                                                                  \
  } while (0)

#endif
