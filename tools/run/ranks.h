/* The ranks of a job: how they divide the batch, agree on what all must do alike, and end together when one cannot go
 * on. On one rank all of this does nothing. */
#ifndef SL_TOOLS_RANKS_H
#define SL_TOOLS_RANKS_H

#include <mpi.h>
#include <stdint.h>

#include "runtime/exchange/compress.h"
#include "runtime/machine/runtime.h"
#include "runtime/machine/store.h"
#include "tasks/graph/plan.h"

typedef struct sl__ranks {
  int rank, n;
  MPI_Comm comm; /* the command's own; MPI_COMM_NULL on one rank */
  MPI_Comm last; /* for failing: nothing else is said on it */
  MPI_Request request;
  int mine, all;                           /* of the agreement under way */
  int *first_leaf;                         /* [n + 1], for sl_program_options; NULL on one rank */
  int64_t first_row, rows;                 /* of the global batch that are computed here */
  sl_compression compression;              /* of training steps' gradients between nodes */
  const struct sl_exchange_type *exchange; /* of training steps */
} sl__ranks;

/* Collective. After sl__start. */
sl_status sl__ranks_open(sl_runtime *runtime, sl__ranks *ranks);
void sl__ranks_close(sl__ranks *ranks); /* collective; a zeroed one is allowed */
/* Gives each rank its leaves of the plan: count[ranks] of them, or evenly (NULL). SL_EINVAL: fewer leaves than ranks.
 */
sl_status sl__ranks_divide(sl__ranks *ranks, const sl_plan *plan, const int *count);
/* allreduce: the name of an exchange (exchange.h); compress: how gradients are compressed between nodes (compress.h).
 * Warns where they give up the same bits on any number of ranks. On one rank nothing is exchanged. SL_EINVAL. */
sl_status sl__ranks_exchange(sl__ranks *ranks, const sl_runtime *runtime, const char *allreduce, const char *compress);

/* Collective: SL_OK where it is so on all ranks; else the failure of the first rank that has one, with its name, on
 * all. Only for statuses that no rank keeps the others waiting with. */
sl_status sl__ranks_agree(const sl__ranks *ranks, sl_status status);
/* Collective: text, lines of "NAME: VALUE", is the same on all ranks; SL_EPLAN names the first rank and line where it
 * is not. */
sl_status sl__ranks_compare(const sl__ranks *ranks, const char *text);
/* Begins to find out whether any rank's flag is set; it goes on while a step runs. */
void sl__ranks_ask(sl__ranks *ranks, int flag);
int sl__ranks_answer(sl__ranks *ranks); /* collective: ends what sl__ranks_ask began */
/* Collective: the sum over the ranks, on all. */
double sl__ranks_sum(const sl__ranks *ranks, double value);
/* Collective: the n numbers of each rank, all[ranks][n], on all. */
sl_status sl__ranks_gather(const sl__ranks *ranks, const double *mine, int n, double *all);
/* Collective: rank 0's parameters and state to all, but for what one rank alone has. */
sl_status sl__ranks_broadcast(const sl__ranks *ranks, sl_store *store);

double sl__ranks_waiting(void); /* seconds that the call under way has waited for the others; 0: none is. Any thread */

/* Ends the job at once. Waits a moment first: mpiexec may drop what a rank printed just before MPI_Abort. */
void sl__ranks_abort(int exit_code);
/* Ends a job in which this rank failed with the text of sl_error(), while others may wait for it: the cause is printed
 * once, with the rank's name where it is not that of all, and no process stays. Returns on one rank only. */
void sl__ranks_fail(const sl__ranks *ranks, int exit_code);

#endif
