/* The runtime's MPI: its start and end, and the number of ranks that the launcher announced. */
#include <stdlib.h>

#include "runtime/machine/runtime_state.h"

static int mpi_is_ours;     /* MPI_Init was called here */
static int world_ranks = 1; /* of the job; kept after MPI has ended */

int sl__number_in(const char *name, int otherwise) {
  const char *text = getenv(name);
  if (!text || !*text) return otherwise;
  char *end;
  const long value = strtol(text, &end, 10);
  return *end || value < 0 || value > INT_MAX ? otherwise : (int)value;
}

/* Number of ranks announced by the launcher, and the variable that announces it; 1: no launcher. */
static int promised_ranks(const char **variable) {
  static const char *const sizes[] = {"PMI_SIZE",  "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
                                      "PALS_SIZE", "FLUX_JOB_SIZE",        "JSM_NAMESPACE_SIZE"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int n = sl__number_in(*variable = sizes[i], -1);
    if (n > 0) return n;
  }
  if (getenv("SLURM_PROCID") && sl__number_in(*variable = "SLURM_STEP_NUM_TASKS", -1) > 0)
    return sl__number_in("SLURM_STEP_NUM_TASKS", 1);
  static const char *const ranks[] = {"PMI_RANK", "PMIX_RANK", "PALS_RANKID", "ALPS_APP_PE"};
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks;
       i++) { /* no number of ranks, but a rank above 0: there are others */
    const int rank = sl__number_in(*variable = ranks[i], -1);
    if (rank > 0) return rank + 1;
  }
  return 1;
}

int sl_runtime_promised_ranks(void) {
  const char *variable;
  return promised_ranks(&variable);
}

static sl_status check_launcher(int ranks) {
  const char *variable = NULL;
  if (ranks > 1) return SL_OK;
  const int promised = promised_ranks(&variable);
  if (promised <= 1) return SL_OK;
  return sl_fail(
      SL_EMPI,
      "the launcher started %d ranks (%s) but MPI sees only this one: launcher and MPI library speak different "
      "PMI. Use the launcher that belongs to the library (mpiexec.mpich for %.40s), or srun --mpi=pmi2",
      promised, variable, sl_runtime_mpi());
}

sl_status sl__start_mpi(sl_runtime *rt) {
  sl_status status = SL_OK;
  int up = 0, down = 0, level = MPI_THREAD_SINGLE;
  rt->rank = rt->local_rank = 0;
  rt->ranks = rt->local_ranks = rt->nodes = 1;
  rt->comm = rt->node_comm = MPI_COMM_NULL;
  if (!rt->options.mpi) return SL_OK;
  MPI_TRY_OUT(MPI_Finalized(&down));
  if (down) {
    if (world_ranks == 1) return SL_OK;
    return sl_fail(SL_EMPI,
                   "MPI has ended and cannot start again in this process: start the earlier runtime with keep_mpi");
  }
  MPI_TRY_OUT(MPI_Initialized(&up));
  if (up) {
    MPI_TRY_OUT(MPI_Query_thread(&level));
  } else {
    SL_TRY_OUT(sl_comm_start(&level));
    mpi_is_ours = 1;
  }
  MPI_TRY_OUT(MPI_Comm_dup(MPI_COMM_WORLD, &rt->comm));
  MPI_TRY_OUT(MPI_Comm_set_errhandler(rt->comm, MPI_ERRORS_RETURN));
  MPI_TRY_OUT(MPI_Comm_rank(rt->comm, &rt->rank));
  MPI_TRY_OUT(MPI_Comm_size(rt->comm, &rt->ranks));
  world_ranks = rt->ranks;
  SL_TRY_OUT(check_launcher(rt->ranks));
  if (level < MPI_THREAD_MULTIPLE && rt->ranks > 1)
    SL_TRY_OUT(sl_fail(
        SL_EMPI,
        "MPI grants thread level %d, but exchanges beside the workers need MPI_THREAD_MULTIPLE (%d): use an MPI "
        "built with it; a program that calls MPI_Init_thread itself must ask for it",
        level, MPI_THREAD_MULTIPLE));
  MPI_TRY_OUT(MPI_Comm_split_type(rt->comm, MPI_COMM_TYPE_SHARED, rt->rank, MPI_INFO_NULL, &rt->node_comm));
  MPI_TRY_OUT(MPI_Comm_set_errhandler(rt->node_comm, MPI_ERRORS_RETURN));
  MPI_TRY_OUT(MPI_Comm_rank(rt->node_comm, &rt->local_rank));
  MPI_TRY_OUT(MPI_Comm_size(rt->node_comm, &rt->local_ranks));
  const int first = rt->local_rank == 0;
  MPI_TRY_OUT(MPI_Allreduce(&first, &rt->nodes, 1, MPI_INT, MPI_SUM, rt->comm));
out:
  return status;
}

void sl__leave_mpi(sl_runtime *rt) {
  if (rt->node_comm != MPI_COMM_NULL) MPI_Comm_free(&rt->node_comm);
  if (rt->comm != MPI_COMM_NULL) MPI_Comm_free(&rt->comm);
  if (!rt->options.keep_mpi) sl_runtime_end_mpi();
}

void sl_runtime_end_mpi(void) {
  int down = 0;
  if (!mpi_is_ours || MPI_Finalized(&down) != MPI_SUCCESS || down) return;
  mpi_is_ours = 0;
  /* MPICH 4.0 over UCX's TCP can hang in MPI_Finalize: a rank that arrives early blocks and no longer answers ranks
   * that flush or set up connections for the last messages. The barriers make all ranks arrive together with complete
   * connections. */
  enum { BARRIERS = 10 };
  for (int i = 0; i < BARRIERS; i++) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
