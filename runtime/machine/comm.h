/* The runtime's MPI communicators, and MPI errors as statuses. This header is separate from runtime.h, so that only
 * files that communicate need <mpi.h>. */
#ifndef SL_COMM_H
#define SL_COMM_H

#include <mpi.h>

#include "runtime/machine/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All ranks, and those of this node; MPI_COMM_NULL without MPI. Owned by the runtime; errors return, they do not abort.
 */
MPI_Comm sl_runtime_comm(const sl_runtime *runtime);
MPI_Comm sl_runtime_node_comm(const sl_runtime *runtime);

/* Calls MPI_Init_thread with MPI_THREAD_MULTIPLE; *level: the level granted. In a job on several nodes without an RDMA
 * network, sets UCX_RNDV_THRESH to 2mb unless it is set. MPICH then sends the exchange's messages without asking the
 * receiver first: over TCP they use 94% of a link instead of 68% (docs/performance.md). */
sl_status sl_comm_start(int *level);
/* Threads other than the main thread call MPI only between sl_comm_enter and sl_comm_leave. sl_comm_close waits until
 * no thread is between the two and then blocks them for ever, so that the main thread can call MPI_Finalize while they
 * still run. */
void sl_comm_enter(void);
void sl_comm_leave(void);
void sl_comm_close(void);
/* The return code of the MPI function named `what` as a status. */
sl_status sl_comm_status(int code, const char *what);
/* Gives all ranks the same status: that of the first rank that failed, with its error text. Collective. comm
 * MPI_COMM_NULL: one rank. */
sl_status sl_comm_agree(MPI_Comm comm, sl_status status);

#ifdef __cplusplus
}
#endif
#endif
