/* The runtime's MPI communicators, and what all that exchange have in common; apart from runtime.h, so that only those
 * who exchange need <mpi.h>. */
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

/* MPI_Init_thread with MPI_THREAD_MULTIPLE; *level: what it grants. In a job on several nodes without an RDMA network
 * UCX_RNDV_THRESH becomes 2mb unless it is set, so that MPICH sends what the exchange engine sends without asking the
 * receiver first: over TCP 94% of a link are used then, where it was 68% (docs/performance.md). */
sl_status sl_comm_start(int *level);
/* Threads of Starling besides the main one call MPI between these two; sl_comm_close waits until none is inside and
 * keeps them out for good, so that the main thread may call MPI_Finalize while they still run. */
void sl_comm_enter(void);
void sl_comm_leave(void);
void sl_comm_close(void);
/* What an MPI function returned, as a status; what: its name. */
sl_status sl_comm_status(int code, const char *what);
/* The same verdict on all ranks: the first rank's that failed, with its words. Collective. comm MPI_COMM_NULL: one
 * rank. */
sl_status sl_comm_agree(MPI_Comm comm, sl_status status);

#ifdef __cplusplus
}
#endif
#endif
