/* A test program under mpiexec. */
#include "tests/support/ranks.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/machine/comm.h"
#include "tests/support/scratch.h"

void ranks_run(int ranks, const char *what) {
  const char *mpiexec = getenv("MPIEXEC");
  char program[PATH_MAX] = "", command[2 * PATH_MAX];
  if (!mpiexec || !*mpiexec) skip();
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  snprintf(command, sizeof command, "timeout 1800 %s -n %d %s %s", mpiexec, ranks, program, what);
  const int result = system(command);
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), 0);
}

void ranks_begin(void) {
  int level = MPI_THREAD_SINGLE;
  RANK_CHECK(sl_comm_start(&level) == SL_OK && level == MPI_THREAD_MULTIPLE);
}
