/* Makes MPI calls that wait for other ranks visible to the watch, as activities of their threads. MPI's profiling
 * interface lets a program define MPI_X around PMPI_X, so every caller is covered. If Starling begins to use another
 * waiting call, add its line here. */
#include <mpi.h>

#include "runtime/base/activity.h"
#include "tools/watch/guard.h"
#include "tools/watch/watch.h"

#define WAITS(name, arguments, call) \
  int name arguments { return (sl_activity_begin(SL_WAITS, #name), sl_activity_end_with(P##name call)); }

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
WAITS(MPI_Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
      (buffer, count, type, root, comm))
WAITS(MPI_Allreduce, (const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
      (send, receive, count, type, op, comm))
WAITS(MPI_Allgather,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, int receives, MPI_Datatype receive_type,
       MPI_Comm comm),
      (send, sends, send_type, receive, receives, receive_type, comm))
WAITS(MPI_Allgatherv,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, const int receives[], const int at[],
       MPI_Datatype receive_type, MPI_Comm comm),
      (send, sends, send_type, receive, receives, at, receive_type, comm))
WAITS(MPI_Gather,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, int receives, MPI_Datatype receive_type,
       int root, MPI_Comm comm),
      (send, sends, send_type, receive, receives, receive_type, root, comm))
WAITS(MPI_Gatherv,
      (const void *send, int sends, MPI_Datatype send_type, void *receive, const int receives[], const int at[],
       MPI_Datatype receive_type, int root, MPI_Comm comm),
      (send, sends, send_type, receive, receives, at, receive_type, root, comm))
WAITS(MPI_Send, (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
      (buffer, count, type, to, tag, comm))
WAITS(MPI_Recv, (void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status),
      (buffer, count, type, from, tag, comm, status))
WAITS(MPI_Sendrecv,
      (const void *send, int sends, MPI_Datatype send_type, int to, int send_tag, void *receive, int receives,
       MPI_Datatype receive_type, int from, int receive_tag, MPI_Comm comm, MPI_Status *status),
      (send, sends, send_type, to, send_tag, receive, receives, receive_type, from, receive_tag, comm, status))
WAITS(MPI_Wait, (MPI_Request * request, MPI_Status *status), (request, status))
WAITS(MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *result), (comm, result))
WAITS(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *result), (comm, color, key, result))
WAITS(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *result),
      (comm, type, key, info, result))
WAITS(MPI_Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *result), (comm, group, tag, result))
WAITS(MPI_Comm_free, (MPI_Comm * comm), (comm))
WAITS(MPI_Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),
      (size, unit, info, comm, base, window))
WAITS(MPI_Win_free, (MPI_Win * window), (window))
