/* The ranks of a job: they divide the batch, agree on common decisions, and end together if one fails. On one rank
 * these functions do nothing. */
#ifndef SL_TOOLS_RANKS_H
#define SL_TOOLS_RANKS_H

#include <mpi.h>
#include <stdint.h>

#include "runtime/exchange/compress.h"
#include "runtime/machine/runtime.h"
#include "runtime/machine/store.h"
#include "tasks/graph/graph.h"
#include "tasks/graph/plan.h"
#include "tools/settings/workers.h"

typedef struct sl__ranks {
  int rank, n;
  MPI_Comm comm; /* the command's own; MPI_COMM_NULL on one rank */
  MPI_Comm last; /* used only for failing together */
  MPI_Request request;
  int mine, all;           /* flags of the reduction that is under way */
  sl__mesh mesh;           /* of training steps; in an evaluation all ranks divide the samples */
  int *first_leaf;         /* [n + 1] of an evaluation, for sl_program_options; NULL on one rank */
  int64_t first_row, rows; /* rows of the global batch that this rank computes in an evaluation */
  int *training_leaf;      /* [mesh.data + 1] of a training step; NULL on one rank */
  int64_t training_row, training_rows;
  sl_compression compression;              /* of training steps' gradients between nodes */
  const struct sl_exchange_type *exchange; /* of training steps */
} sl__ranks;

/* Collective. After sl__start. */
sl_status sl__ranks_open(sl_runtime *runtime, sl__ranks *ranks);
void sl__ranks_close(sl__ranks *ranks); /* collective; a zeroed one is allowed */
/* Gives each rank its leaves of the plan: count[ranks] of them, or evenly (NULL). With a pipeline (mesh), those of a
 * training step are divided among the ranks of a stage. SL_EINVAL: fewer leaves than ranks. */
sl_status sl__ranks_divide(sl__ranks *ranks, const sl_plan *plan, const int *count);
/* allreduce: index into sl_exchange_types (exchange.h); compress: compression of gradients between nodes (compress.h).
 * Warns if they make the bits depend on the number of ranks. On one rank nothing is exchanged. SL_EINVAL. */
sl_status sl__ranks_exchange(sl__ranks *ranks, const sl_runtime *runtime, int allreduce, const char *compress);

/* Collective: returns SL_OK if status is SL_OK on all ranks; else, on all ranks, the failure of the first rank that
 * failed, with its number. All ranks must reach this call. */
sl_status sl__ranks_agree(const sl__ranks *ranks, sl_status status);
/* Collective: checks that text, lines of "NAME: VALUE", is the same on all ranks; SL_EPLAN names the first rank and
 * line that differ. */
sl_status sl__ranks_compare(const sl__ranks *ranks, const char *text);
/* Starts to reduce the ranks' flags (their maximum) while a step runs. */
void sl__ranks_ask(sl__ranks *ranks, int flag);
int sl__ranks_answer(sl__ranks *ranks); /* collective: the result of sl__ranks_ask */
/* Collective: the sum over the ranks, on all. */
double sl__ranks_sum(const sl__ranks *ranks, double value);
/* Collective: gathers n numbers of each rank into all[ranks][n] on every rank. */
sl_status sl__ranks_gather(const sl__ranks *ranks, const double *mine, int n, double *all);
/* Collective: copies rank 0's parameters and state to all ranks, except tensors that a single rank owns. */
sl_status sl__ranks_broadcast(const sl__ranks *ranks, sl_store *store);
/* Collective: gives rank 0 copies of the tensors of a model's graph that other ranks hold alone (ZeRO 3, a pipeline),
 * for a model file; until sl__ranks_forget, the store has them like its own. Between steps. SL_ENOMEM, SL_EMPI on all
 * ranks. */
sl_status sl__ranks_collect(const sl__ranks *ranks, sl_store *store, const sl_graph *model);
void sl__ranks_forget(const sl__ranks *ranks, sl_store *store, const sl_graph *model); /* frees these copies */
/* Bytes of these copies on this rank. */
size_t sl__ranks_collected_bytes(const sl__ranks *ranks, const sl_store *store, const sl_graph *model);
/* Sends bytes of one tensor from one rank to another, in pieces that MPI can count. Called by both. */
sl_status sl__ranks_send(const sl__ranks *ranks, int from, int to, void *data, size_t bytes);

/* Ends the job after this rank has failed; other ranks may be waiting for it. Prints sl_error() once (with the rank's
 * number, unless all ranks failed alike) and leaves no process behind. Returns only if the job has one rank. */
void sl__ranks_fail(const sl__ranks *ranks, int exit_code);
/* The same for a failure before MPI has started, such as a wrong command line: starts MPI first, to meet the other
 * ranks. rank: as the launcher gives it. Also returns if MPI cannot start or has already started. */
void sl__ranks_fail_unmet(int rank, int exit_code);

#endif
