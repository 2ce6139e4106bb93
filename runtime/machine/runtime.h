/* Starts and stops MPI, hwloc, StarPU and the workers' teams, in this order: the ranks of a node share its cores,
 * StarPU's workers are bound to a rank's share, and each worker leads a team. A process has one runtime at a time. */
#ifndef SL_RUNTIME_H
#define SL_RUNTIME_H

#include <stddef.h>

#include "runtime/base/status.h"
#include "runtime/processors/isa.h"
#include "runtime/processors/team.h"
#include "runtime/processors/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_runtime sl_runtime;

/* Zeroed options mean: no MPI, the default policy, all cores, no GPU. Programs normally start from
 * sl_runtime_defaults(). */
typedef struct sl_runtime_options {
  int mpi;                /* 1: starts MPI (unless the program did), and its ranks work together */
  int keep_mpi;           /* 1: sl_runtime_stop leaves MPI running for a later start; end it by sl_runtime_end_mpi */
  const char *sched;      /* the scheduling policy; NULL: $STARPU_SCHED, else the library's first, else "lws" */
  const char *sched_lib;  /* a shared library with the user's policies (policies.h); NULL: $STARPU_SCHED_LIB */
  int workers;            /* CPU workers of this rank; 0: all its cores but one for each GPU; -1: none */
  int threads_per_worker; /* K; 0: the least that lets StarPU drive all cores */
  int gpus;               /* GPUs of this rank; -1: $STARPU_NCUDA, else its part of those visible to the node's ranks */
  int gpus_alone;         /* 1, with workers 0: no CPU workers if this rank has a GPU */
  int fast;               /* sl_gpu_kernels (cuda_context.h); FAST, TF32: operations that have a fast kernel run on
                             GPUs only */
  size_t gpu_memory;      /* bytes of each GPU's memory to use, by all ranks that share it; 0: all that is free */
  const char *kernels;    /* "base", "avx2", "avx512", "neon"; NULL: the best that runs here */
  const char *machine;    /* name of the performance models; NULL: $STARPU_HOSTNAME, else made from CPUs, GPUs and K */
  int calibrate;          /* 1: StarPU refines its performance models in this run (dm* policies need them) */
  double patience;        /* seconds that ready tasks may wait while no worker runs any, at least 10; on a busy machine
                             six times that */
} sl_runtime_options;

sl_runtime_options sl_runtime_defaults(void); /* MPI on, all processors, K automatic */

/* Starts the runtime; collective over the ranks if options->mpi. Errors: SL_EINVAL (a runtime is already running;
 * unknown policy, lists the known ones; no worker at all), SL_EMPI (fewer ranks than the launcher announced; thread
 * level), SL_ETOPOLOGY, SL_ESTARPU, SL_EUNSUPPORTED (kernels; more GPUs than the
 * rank has, or GPUs asked of a StarPU without CUDA). */
sl_status sl_runtime_start(const sl_runtime_options *options, sl_runtime **runtime);
/* Waits for all tasks, then ends the teams, StarPU, and MPI if this runtime started it and keep_mpi is 0. NULL is
 * allowed. MPI cannot start twice in a process: after MPI has ended, a job of one rank can start again without MPI; a
 * job of several ranks cannot. */
void sl_runtime_stop(sl_runtime *runtime);
/* Number of ranks announced by the launcher; usable before MPI_Init. 1: no launcher. */
int sl_runtime_promised_ranks(void);
/* Ends MPI if an earlier sl_runtime_start began it. */
void sl_runtime_end_mpi(void);

sl_runtime *sl_runtime_current(void); /* the running one, or NULL */

/* Abandons StarPU, which holds tasks that will never run and so can neither shut down nor release their data. After
 * this call StarPU is not used, destroy functions free no memory, and the process should end. */
void sl_runtime_abandon(sl_runtime *runtime);
int sl_runtime_abandoned(void);

int sl_runtime_rank(const sl_runtime *runtime);       /* 0 without MPI */
int sl_runtime_ranks(const sl_runtime *runtime);      /* 1 without MPI */
int sl_runtime_local_rank(const sl_runtime *runtime); /* among the ranks of this node */
int sl_runtime_local_ranks(const sl_runtime *runtime);
int sl_runtime_nodes(const sl_runtime *runtime); /* machines in the job */

typedef enum sl_worker_kind { SL_WORKER_CPU, SL_WORKER_CUDA } sl_worker_kind;
int sl_runtime_workers(const sl_runtime *runtime); /* CPU and CUDA together; ids are StarPU's, 0 .. workers - 1 */
int sl_runtime_cpu_workers(const sl_runtime *runtime);
int sl_runtime_gpus(const sl_runtime *runtime);
sl_worker_kind sl_runtime_worker_kind(const sl_runtime *runtime, int worker);
/* "CPU 0, cores 0-3 (NUMA 0)" */
char *sl_runtime_worker_text(const sl_runtime *runtime, int worker, char *text, size_t n);

typedef struct sl_gpu {
  char name[256], address[32];       /* PCI address, "0000:17:00.0"; "" if unknown */
  size_t memory;                     /* bytes */
  int multiprocessors, major, minor; /* major.minor: compute capability */
  int driver;                        /* newest CUDA version that the driver supports: 12080 for 12.8 */
  int numa;                          /* its NUMA node; -1: unknown */
  double to_gpu, from_gpu;           /* bytes/s to and from host memory, measured by StarPU; 0: unknown */
  double peer;                       /* bytes/s to the slowest of this rank's other GPUs; 0: unknown, or none */
} sl_gpu;
/* StarPU's workerorder for the worker's next task that must run in the order of submission; counts from 1. */
unsigned sl_runtime_next_order(sl_runtime *runtime, int worker);
/* The most bytes of data in the memory of this rank's GPU number i since sl_transfers_peak_restart, as StarPU counts
 * them. */
size_t sl_runtime_gpu_peak(const sl_runtime *runtime, int i);
int sl_runtime_fast(const sl_runtime *runtime); /* options->fast */
/* Bytes of each GPU's memory that this rank may use: ranks that share a GPU divide its memory, or what
 * options->gpu_memory allows of it, evenly. SIZE_MAX: all that is free. */
size_t sl_runtime_gpu_memory(const sl_runtime *runtime);
/* Describes this rank's GPU i; unknown facts are 0. */
void sl_runtime_gpu(const sl_runtime *runtime, int i, sl_gpu *gpu);
sl_team *sl_runtime_team(const sl_runtime *runtime, int worker); /* NULL for a GPU */

/* Runs function(arg, worker, team) on the threads of all CPU workers at once and returns when all have ended. Call it
 * outside of steps. */
typedef void (*sl_worker_function)(void *arg, int worker, sl_team *team);
sl_status sl_runtime_each_worker(sl_runtime *runtime, sl_worker_function function, void *arg);
/* Gives each thread of each team at least `bytes` of scratch memory (sl_team_reserve). */
sl_status sl_runtime_reserve_scratch(sl_runtime *runtime, size_t bytes);

const sl_share *sl_runtime_share(const sl_runtime *runtime);     /* cores of this rank */
hwloc_topology_t sl_runtime_topology(const sl_runtime *runtime); /* borrowed */
double sl_runtime_quota(const sl_runtime *runtime);              /* the cgroup's, in cores; 0: none */
const char *sl_runtime_sched(const sl_runtime *runtime);         /* the policy in use */
double sl_runtime_patience(const sl_runtime *runtime);           /* options->patience, at least 10; NaN: 10 */
sl_isa sl_runtime_isa(const sl_runtime *runtime);
const char *sl_runtime_model_host(const sl_runtime *runtime); /* the machine name of StarPU's performance models */
const char *sl_runtime_sampling(const sl_runtime *runtime);   /* the folder of StarPU's calibration */

/* Facts about the installation; they need no runtime. */
const char *sl_runtime_starpu(void); /* "1.3.10" */
int sl_runtime_starpu_max_cpus(void);
int sl_runtime_starpu_max_buffers(void);
int sl_runtime_starpu_has_cuda(void);
const char *sl_runtime_blas(void);     /* OpenBLAS's kernels, "Zen"; they measure the sgemm peak */
const char *sl_runtime_products(void); /* for plans whose products are OpenBLAS's: "openblas 0.3.21 Zen" */
/* OpenBLAS chooses its kernels when it is loaded. On a CPU newer than the library it chooses kernels without AVX2,
 * though the CPU runs faster ones. sl_runtime_blas_core returns the name of the kernels that a CPU with this
 * instruction set should run in place of `core`; NULL: keep `core`. If the loaded kernels should be replaced,
 * sl_runtime_blas_renew starts the program again with the others; else it returns. It does not overrule
 * $OPENBLAS_CORETYPE. Call it before anything is opened or printed. */
const char *sl_runtime_blas_core(const char *core, sl_isa isa);
void sl_runtime_blas_renew(char *const argv[]);
const char *sl_runtime_mpi(void); /* the MPI library's version, one line */
/* Whether the MPI library reads and writes CUDA's device memory (MPIX_Query_cuda_support). Call it while MPI runs. */
int sl_runtime_mpi_takes_gpu_memory(void);

#ifdef __cplusplus
}
#endif
#endif
