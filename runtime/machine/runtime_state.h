/* What the files of the runtime share: its state, and the steps of its start and stop. */
#ifndef SL_RUNTIME_STATE_H
#define SL_RUNTIME_STATE_H

#include <limits.h>
#include <starpu.h>

#include "runtime/machine/comm.h"
#include "runtime/machine/runtime.h"

#if defined(SL_HAVE_CUDA) && defined(STARPU_USE_CUDA)
#include <cuda_runtime_api.h>
#define CAN_USE_CUDA 1
#else
#define CAN_USE_CUDA 0
#endif

#define MPI_TRY_OUT(call) SL_TRY_OUT(sl_comm_status((call), #call))

enum { SL__MAX_ENVIRONMENT = 24, SL__NAME_BYTES = 96 };

/* An environment variable as it was before the start; the stop restores it. */
typedef struct sl__saved_variable {
  const char *name;
  char *value; /* NULL: was not set */
} sl__saved_variable;

struct sl_runtime {
  sl_runtime_options options;
  MPI_Comm comm, node_comm;
  int rank, ranks, local_rank, local_ranks, nodes;
  hwloc_topology_t topology;
  double quota;
  sl_share share;
  int first_gpu, gpus;
  size_t gpu_memory; /* bytes of each GPU's memory that StarPU may use here; 0: what is free */
  int starpu_up;
  int workers;
  unsigned ordered[STARPU_NMAXWORKERS];
  sl_team **team; /* [STARPU_NMAXWORKERS], NULL for GPUs */
  char sched[SL__NAME_BYTES], model_host[SL__NAME_BYTES], sampling[PATH_MAX];
  int nsaved;
  sl__saved_variable saved[SL__MAX_ENVIRONMENT];
};

/* The number in an environment variable; `otherwise` if it is absent or no number from 0 on. */
int sl__number_in(const char *variable, int otherwise);

/* launch.c: MPI's ranks. Without options.mpi there is one rank. */
sl_status sl__start_mpi(sl_runtime *rt);
void sl__leave_mpi(sl_runtime *rt);

/* share.c: the cores and GPUs of this rank. The second is collective over the ranks of the node. */
sl_status sl__load_topology(sl_runtime *rt);
sl_status sl__divide_node(sl_runtime *rt);
/* The NUMA node of a CUDA device; -1 if the system does not report it. */
int sl__domain_of_gpu(int device);

/* start_starpu.c: starts StarPU on this rank's share; collective. Sets variables of the environment, which the second
 * restores. */
sl_status sl__start_starpu(sl_runtime *rt);
void sl__restore_environment(sl_runtime *rt);

#endif
