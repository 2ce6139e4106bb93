/* The other exchange engine: sums arrays over all ranks by MPI_Iallreduce, or for one rank by MPI_Ireduce, and copies
 * by MPI_Ibcast. What a rank has of its own is added up in the order of leaves, but the order over ranks is the MPI
 * library's, so the bits of a sum depend on it and on the number of ranks. It is what the fixed tree (exchange.h) is
 * compared with. The calls are those of exchange.h and mean the same. */
#ifndef SL_EXCHANGE_MPI_H
#define SL_EXCHANGE_MPI_H

#include "runtime/exchange/exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_exchange_mpi sl_exchange_mpi;

/* Collective. Of the options comm, leaves, first, cpus and ncpus count. SL_EMPI, SL_ENOMEM, SL_EIO; the same status on
 * all ranks. */
sl_status sl_exchange_mpi_create(const sl_exchange_options *options, sl_exchange_mpi **exchange);
void sl_exchange_mpi_destroy(sl_exchange_mpi *exchange); /* collective; waits; NULL is allowed */
sl_status sl_exchange_mpi_allocate(sl_exchange_mpi *exchange, size_t bytes, void **memory);
sl_status sl_exchange_mpi_add(sl_exchange_mpi *exchange, sl_exchange_move move, sl_dtype dtype,
                              const sl_stretch *stretch, int n, int *bucket);
void sl_exchange_mpi_post(sl_exchange_mpi *exchange, int bucket, void (*done)(void *arg), void *arg);
sl_status sl_exchange_mpi_wait(sl_exchange_mpi *exchange);
double sl_exchange_mpi_stalled(sl_exchange_mpi *exchange);
/* The bucket that has not ended, -1: none. *self: 1 when it has not been posted here; else others are late, and MPI
 * does not tell who. */
int sl_exchange_mpi_waits_for(sl_exchange_mpi *exchange, int *self);

#ifdef __cplusplus
}
#endif
#endif
