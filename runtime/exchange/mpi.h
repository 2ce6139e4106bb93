/* The exchange by MPI's own collectives (mpi.c). Private to runtime/exchange. */
#ifndef SL_EXCHANGE_MPI_H
#define SL_EXCHANGE_MPI_H

#include "runtime/exchange/engine.h"

extern const sl_exchange_type sl__exchange_mpi;

#endif
