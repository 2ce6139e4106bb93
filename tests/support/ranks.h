/* Tests in C that need several ranks: the program starts itself again under mpiexec, with an argument that names the
 * ranks' task. There, a failing check ends all ranks. */
#ifndef SL_TESTS_RANKS_H
#define SL_TESTS_RANKS_H

#include <mpi.h>
#include <stdio.h>

#include "runtime/base/status.h"

/* Runs this program with the argument `what` on this number of ranks, for at most half an hour; all must end with 0.
 * Skips the test if MPIEXEC names no mpiexec. */
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
