/* The runtime's MPI communicators; apart from runtime.h, so that only those who exchange need <mpi.h>. */
#ifndef SL_COMM_H
#define SL_COMM_H

#include <mpi.h>

#include "runtime/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All ranks, and those of this node; MPI_COMM_NULL without MPI. Owned by the runtime; errors return, they do not abort.
 */
MPI_Comm sl_runtime_comm(const sl_runtime *runtime);
MPI_Comm sl_runtime_node_comm(const sl_runtime *runtime);

#ifdef __cplusplus
}
#endif
#endif
