/* Makes MPI calls that wait for other ranks visible to the watch, as activities of their threads. MPI's profiling
 * interface lets a program define MPI_X around PMPI_X, so every caller is covered. If Starling begins to use another
 * waiting call, add its line here.
 *
 * A blocking MPI call holds MPI's lock nearly all the time. On a busy machine another thread, such as the watch, may
 * not get the lock for many seconds, and then this rank seems silent. So most calls below wait with nonblocking calls,
 * and sleep now and then without the lock. WAITS marks the calls that still block. */
#include <mpi.h>
#include <time.h>

#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "tools/watch/guard.h"
#include "tools/watch/watch.h"

#define WAITS(name, arguments, call) \
  int name arguments { return (sl_activity_begin(SL_WAITS, #name), sl_activity_end_with(P##name call)); }

/* Waits until the request is complete. MPI moves the parts of a message only during calls, so at first this sleeps
 * for a tenth of the time. After LONG_S the other rank is most likely late, and this sleeps for two thirds. */
static int wait_for(MPI_Request *request, MPI_Status *status) {
  static const double SPIN_S = 1e-3, LONG_S = 0.5;
  const double began = sl_seconds();
  for (double spun = began;;) {
    int done = 0;
    const int code = PMPI_Test(request, &done, status);
    if (code != MPI_SUCCESS || done) return code;
    const double now = sl_seconds();
    if (now - spun < SPIN_S) continue;
    nanosleep(&(struct timespec){.tv_nsec = now - began < LONG_S ? 100000 : 2000000}, NULL);
    spun = sl_seconds();
  }
}

/* Waits until all ranks of the communicator have come to this call, so that the collective call after it does not wait
 * long. On MPI_COMM_WORLD it does nothing: a rank that fails early calls a barrier there, to find out whether all ranks
 * fail (sl__ranks_fail), and that barrier must not match one of this function. */
static int meet(MPI_Comm comm) {
  MPI_Request request;
  if (comm == MPI_COMM_WORLD) return MPI_SUCCESS;
  const int code = PMPI_Ibarrier(comm, &request);
  return code == MPI_SUCCESS ? wait_for(&request, MPI_STATUS_IGNORE) : code;
}
#define MEETS(name, arguments, call)                                        \
  int name arguments {                                                      \
    sl_activity_begin(SL_WAITS, #name);                                     \
    const int code = meet(comm);                                            \
    return sl_activity_end_with(code == MPI_SUCCESS ? P##name call : code); \
  }

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  sl_activity_begin(SL_WAITS, "MPI_Init_thread");
  const int code = sl_activity_end_with(PMPI_Init_thread(argc, argv, required, provided));
  if (code == MPI_SUCCESS) sl__watch_mpi_started();
  return code;
}

int MPI_Finalize(void) {
  sl_activity_begin(SL_WAITS, "MPI_Finalize");
  sl__guard_begin();
  const int code = PMPI_Finalize();
  sl__guard_end();
  return sl_activity_end_with(code);
}

WAITS(MPI_Barrier, (MPI_Comm comm), (comm))
MEETS(MPI_Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
      (buffer, count, type, root, comm))
MEETS(MPI_Allreduce, (const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
      (send, receive, count, type, op, comm))
MEETS(MPI_Allgather,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, int receives, MPI_Datatype receive_type,
       MPI_Comm comm),
      (send, sends, send_type, receive, receives, receive_type, comm))
MEETS(MPI_Allgatherv,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, const int receives[], const int at[],
       MPI_Datatype receive_type, MPI_Comm comm),
      (send, sends, send_type, receive, receives, at, receive_type, comm))
MEETS(MPI_Gather,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, int receives, MPI_Datatype receive_type,
       int root, MPI_Comm comm),
      (send, sends, send_type, receive, receives, receive_type, root, comm))
MEETS(MPI_Gatherv,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, const int receives[], const int at[],
       MPI_Datatype receive_type, int root, MPI_Comm comm),
      (send, sends, send_type, receive, receives, at, receive_type, root, comm))
static int send_to(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  MPI_Request request;
  const int code = PMPI_Isend(buffer, count, type, to, tag, comm, &request);
  return code == MPI_SUCCESS ? wait_for(&request, MPI_STATUS_IGNORE) : code;
}
int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  sl_activity_begin(SL_WAITS, "MPI_Send");
  return sl_activity_end_with(send_to(buffer, count, type, to, tag, comm));
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
  MPI_Request request;
  sl_activity_begin(SL_WAITS, "MPI_Recv");
  const int code = PMPI_Irecv(buffer, count, type, from, tag, comm, &request);
  return sl_activity_end_with(code == MPI_SUCCESS ? wait_for(&request, status) : code);
}

int MPI_Sendrecv(const void *send, int sends, MPI_Datatype send_type, int to, int send_tag, void *receive, int receives,
                 MPI_Datatype receive_type, int from, int receive_tag, MPI_Comm comm, MPI_Status *status) {
  MPI_Request request;
  sl_activity_begin(SL_WAITS, "MPI_Sendrecv");
  int code = PMPI_Irecv(receive, receives, receive_type, from, receive_tag, comm, &request);
  if (code == MPI_SUCCESS) {
    const int sent = send_to(send, sends, send_type, to, send_tag, comm);
    code = wait_for(&request, status);
    if (code == MPI_SUCCESS) code = sent;
  }
  return sl_activity_end_with(code);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
  return (sl_activity_begin(SL_WAITS, "MPI_Wait"), sl_activity_end_with(wait_for(request, status)));
}

MEETS(MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *result), (comm, result))
MEETS(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *result), (comm, color, key, result))
MEETS(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *result),
      (comm, type, key, info, result))
WAITS(MPI_Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *result), (comm, group, tag, result))
WAITS(MPI_Comm_free, (MPI_Comm * comm), (comm))
MEETS(MPI_Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),
      (size, unit, info, comm, base, window))
WAITS(MPI_Win_free, (MPI_Win * window), (window))
