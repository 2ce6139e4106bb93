/* Ping-pong with rank 0. */
#include "runtime/trace/ping.h"

#include "runtime/base/time.h"

sl_status sl_clock_offset(MPI_Comm comm, sl_clock *clock) {
  enum { PINGS = 32, TAG = 1 };
  int rank, ranks, code = MPI_SUCCESS;
  if ((code = MPI_Comm_rank(comm, &rank)) != MPI_SUCCESS || (code = MPI_Comm_size(comm, &ranks)) != MPI_SUCCESS)
    goto out;
  *clock = (sl_clock){.local = sl_now()};
  sl_ping pings[PINGS];
  for (int r = 1; r < ranks; r++)
    for (int i = 0; i < PINGS && (rank == 0 || rank == r); i++) {
      int64_t there = 0;
      if (rank == 0) {
        if ((code = MPI_Recv(&there, 1, MPI_INT64_T, r, TAG, comm, MPI_STATUS_IGNORE)) != MPI_SUCCESS) goto out;
        there = sl_now();
        if ((code = MPI_Send(&there, 1, MPI_INT64_T, r, TAG, comm)) != MPI_SUCCESS) goto out;
      } else {
        pings[i].sent = sl_now();
        if ((code = MPI_Send(&there, 1, MPI_INT64_T, 0, TAG, comm)) != MPI_SUCCESS ||
            (code = MPI_Recv(&pings[i].answered, 1, MPI_INT64_T, 0, TAG, comm, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
          goto out;
        pings[i].received = sl_now();
      }
    }
  if (rank > 0) *clock = sl_clock_estimate(pings, PINGS);
out:
  return code == MPI_SUCCESS ? SL_OK : sl_fail(SL_EMPI, "the ranks' clocks could not be compared (MPI error %d)", code);
}
