/* MPI's start, its errors as statuses, and agreement between ranks. */
#include "runtime/machine/comm.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/activity.h"

sl_status sl_comm_status(int code, const char *what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n;
  if (code == MPI_SUCCESS) return SL_OK;
  MPI_Error_string(code, text, &n);
  return sl_fail(SL_EMPI, "%s: %s", what, text);
}

/* Whether this machine has an RDMA network. */
static int rdma(void) {
  DIR *devices = opendir("/sys/class/infiniband");
  int found = 0;
  for (struct dirent *d; devices && (d = readdir(devices));) found |= d->d_name[0] != '.';
  if (devices) closedir(devices);
  return found;
}

/* Whether the launcher (MPICH's mpiexec, Slurm) reports all ranks to be on this node. */
static int one_node(void) {
  const char *here = getenv("MPI_LOCALNRANKS"), *all = getenv("PMI_SIZE"), *nodes = getenv("SLURM_STEP_NUM_NODES");
  return (here && all && strcmp(here, all) == 0) || (nodes && strcmp(nodes, "1") == 0);
}

sl_status sl_comm_start(int *level) {
  if (!one_node() && !rdma()) setenv("UCX_RNDV_THRESH", "2mb", 0);
  return sl_comm_status(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level), "MPI_Init_thread");
}

static pthread_rwlock_t inside = PTHREAD_RWLOCK_INITIALIZER; /* once closed, never unlocked again */
static atomic_int closed;

void sl_comm_enter(void) {
  while (atomic_load(&closed)) pause(); /* readers that lock again at once would starve sl_comm_close */
  pthread_rwlock_rdlock(&inside);
}

void sl_comm_leave(void) { pthread_rwlock_unlock(&inside); }

void sl_comm_close(void) {
  atomic_store(&closed, 1);
  pthread_rwlock_wrlock(&inside);
}

sl_status sl_comm_agree(MPI_Comm comm, sl_status status) {
  sl_failure failure = sl_failure_keep(status);
  int rank, ranks;
  if (comm == MPI_COMM_NULL) return status;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &ranks);
  int mine = status == SL_OK ? ranks : rank, first;
  sl_activity_begin(SL_WAITS, "an agreement among the ranks");
  const int code = MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm);
  sl_activity_end();
  SL_TRY(sl_comm_status(code, "MPI_Allreduce"));
  if (first == ranks) return SL_OK;
  SL_TRY(sl_comm_status(MPI_Bcast(&failure, sizeof failure, MPI_BYTE, first, comm), "MPI_Bcast"));
  sl_failure_again(&failure);
  return ranks > 1 ? sl_context(failure.code, "rank %d", first) : failure.code;
}
