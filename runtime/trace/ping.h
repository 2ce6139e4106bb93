/* Measures how far a rank's clock is from rank 0's, by ping-pong over MPI. */
#ifndef SL_PING_H
#define SL_PING_H

#include <mpi.h>

#include "runtime/base/status.h"
#include "runtime/trace/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective: one estimate, exact on rank 0 and in a communicator of one rank. Takes some 50 microseconds a rank.
 * SL_EMPI. */
sl_status sl_clock_offset(MPI_Comm comm, sl_clock *clock);

#ifdef __cplusplus
}
#endif
#endif
