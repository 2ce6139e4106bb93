/* Start and stop of MPI, hwloc, StarPU and teams. */
#include "runtime/machine/runtime.h"

#include <cblas.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <starpu.h>
#include <starpu_scheduler.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/machine/comm.h"
#include "runtime/machine/policies.h"
#include "runtime/machine/transfers.h"
#include "runtime/numbers/hash.h"

#if defined(SL_HAVE_CUDA) && defined(STARPU_USE_CUDA)
#include <cuda_runtime_api.h>
#define CAN_USE_CUDA 1
#else
#define CAN_USE_CUDA 0
#endif

enum { MAX_ENVIRONMENT = 24, NAME_BYTES = 96 };

/* An environment variable as it was before the start; the stop restores it. */
typedef struct saved_variable {
  const char *name;
  char *value; /* NULL: was not set */
} saved_variable;

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
  char sched[NAME_BYTES], model_host[NAME_BYTES], sampling[PATH_MAX];
  int nsaved;
  saved_variable saved[MAX_ENVIRONMENT];
};

static _Atomic(sl_runtime *) running;
static atomic_int starting; /* set from start to stop */
static atomic_int abandoned;
static int mpi_is_ours;     /* MPI_Init was called here */
static int world_ranks = 1; /* of the job; kept after MPI has ended */

/* ---- environment ---- */

static sl_status set_variable(sl_runtime *rt, const char *name, const char *value) {
  for (int i = 0;; i++) {
    if (i < rt->nsaved && strcmp(rt->saved[i].name, name) == 0) break;
    if (i < rt->nsaved) continue;
    const char *old = getenv(name);
    rt->saved[rt->nsaved++] = (saved_variable){name, old ? strdup(old) : NULL};
    break;
  }
  if ((value ? setenv(name, value, 1) : unsetenv(name)) != 0)
    return sl_fail(SL_ENOMEM, "cannot set %s in the environment", name);
  return SL_OK;
}

static void restore_environment(sl_runtime *rt) {
  for (int i = 0; i < rt->nsaved; i++) {
    if (rt->saved[i].value)
      setenv(rt->saved[i].name, rt->saved[i].value, 1);
    else
      unsetenv(rt->saved[i].name);
    free(rt->saved[i].value);
  }
  rt->nsaved = 0;
}

static int number_in(const char *name, int otherwise) {
  const char *text = getenv(name);
  if (!text || !*text) return otherwise;
  char *end;
  const long value = strtol(text, &end, 10);
  return *end || value < 0 || value > INT_MAX ? otherwise : (int)value;
}

/* ---- MPI ---- */

#define MPI_TRY_OUT(call) SL_TRY_OUT(sl_comm_status((call), #call))

/* Number of ranks announced by the launcher, and the variable that announces it; 1: no launcher. */
static int promised_ranks(const char **variable) {
  static const char *const sizes[] = {"PMI_SIZE",  "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
                                      "PALS_SIZE", "FLUX_JOB_SIZE",        "JSM_NAMESPACE_SIZE"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int n = number_in(*variable = sizes[i], -1);
    if (n > 0) return n;
  }
  if (getenv("SLURM_PROCID") && number_in(*variable = "SLURM_STEP_NUM_TASKS", -1) > 0)
    return number_in("SLURM_STEP_NUM_TASKS", 1);
  static const char *const ranks[] = {"PMI_RANK", "PMIX_RANK", "PALS_RANKID", "ALPS_APP_PE"};
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks;
       i++) { /* no number of ranks, but a rank above 0: there are others */
    const int rank = number_in(*variable = ranks[i], -1);
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

static sl_status start_mpi(sl_runtime *rt) {
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

static void leave_mpi(sl_runtime *rt) {
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

/* ---- cores and GPUs of this rank ---- */

/* Gathers the texts of all ranks of the node, n bytes each, in one block that the caller frees. */
static sl_status gather_texts(sl_runtime *rt, const char *mine, size_t n, char **all) {
  char *block = calloc((size_t)rt->local_ranks + 1, n);
  if (!block) return sl_no_memory("for the reports of %d ranks of the node", rt->local_ranks);
  char *own = block + (size_t)rt->local_ranks * n;
  snprintf(own, n, "%s", mine);
  sl_status status = SL_OK;
  if (rt->local_ranks == 1)
    memcpy(block, own, n);
  else
    MPI_TRY_OUT(MPI_Allgather(own, (int)n, MPI_CHAR, block, (int)n, MPI_CHAR, rt->node_comm));
  *all = block;
  return SL_OK;
out:
  free(block);
  return status;
}

/* Counts the node's ranks with the same set of PUs, which share it, and finds this rank's number among them. Collective
 * over the node. */
static sl_status find_group(sl_runtime *rt, hwloc_const_cpuset_t allowed, int *ranks, int *rank) {
  enum { SET_BYTES = 4096 };
  char mine[SET_BYTES], *all = NULL;
  sl_status status = SL_OK;
  *ranks = 1;
  *rank = 0;
  if (rt->local_ranks == 1) return SL_OK;
  const int fits = hwloc_bitmap_list_snprintf(mine, sizeof mine, allowed) < (int)sizeof mine;
  SL_TRY(gather_texts(rt, fits ? mine : "", sizeof mine, &all));
  hwloc_bitmap_t *set = calloc((size_t)rt->local_ranks, sizeof *set);
  if (!set) SL_TRY_OUT(sl_no_memory("for the CPU sets of %d ranks", rt->local_ranks));
  for (int r = 0; r < rt->local_ranks; r++) {
    set[r] = hwloc_bitmap_alloc();
    if (!set[r] || hwloc_bitmap_list_sscanf(set[r], all + (size_t)r * sizeof mine) != 0)
      SL_TRY_OUT(sl_no_memory("for the CPU set of rank %d of the node", r));
  }
  SL_TRY_OUT(sl_topology_group((const hwloc_const_cpuset_t *)set, rt->local_ranks, rt->local_rank, ranks, rank));
out:
  for (int r = 0; set && r < rt->local_ranks; r++) hwloc_bitmap_free(set[r]);
  free(set);
  free(all);
  return status;
}

#if CAN_USE_CUDA
/* The NUMA node of a GPU; -1 if the system does not report it. */
static int domain_of(int device) {
  char address[32] = "";
  if (cudaDeviceGetPCIBusId(address, sizeof address, device) != cudaSuccess) return -1;
  char path[128], line[32] = "";
  int at = snprintf(path, sizeof path, "/sys/bus/pci/devices/");
  for (const char *c = address; *c; c++) path[at++] = (char)tolower((unsigned char)*c);
  snprintf(path + at, sizeof path - (size_t)at, "/numa_node");
  FILE *file = fopen(path, "re");
  if (file && !fgets(line, sizeof line, file)) line[0] = 0;
  if (file) fclose(file);
  return line[0] ? atoi(line) : -1;
}
#else
static int domain_of(int device) { return (void)device, -1; }
#endif

/* The memory that StarPU may use of each GPU: an equal part where several ranks share it. StarPU's limit is kept where
 * the environment sets one. */
static void share_gpu_memory(sl_runtime *rt, int sharers) {
  rt->gpu_memory = rt->options.gpu_memory / (size_t)sharers;
#if CAN_USE_CUDA
  struct cudaDeviceProp p;
  if (rt->gpu_memory || sharers == 1 || getenv("STARPU_LIMIT_CUDA_MEM")) return;
  if (cudaGetDeviceProperties(&p, rt->first_gpu) == cudaSuccess)
    rt->gpu_memory = p.totalGlobalMem / 10 * 9 / (size_t)sharers; /* StarPU leaves as much for others */
#endif
}

/* Finds this rank's GPUs: ranks that see the same ones (CUDA_VISIBLE_DEVICES) divide them into equal runs. Collective
 * over the node. */
static sl_status find_gpus(sl_runtime *rt) {
  int visible = 0, ranks = 0, rank = 0, sharers = 0, wanted = rt->options.gpus;
  char *all = NULL;
  sl_status status = SL_OK;
#if CAN_USE_CUDA
  if (wanted != 0 && cudaGetDeviceCount(&visible) != cudaSuccess) visible = 0;
#endif
  const char *devices = getenv("CUDA_VISIBLE_DEVICES");
  SL_TRY(gather_texts(rt, devices ? devices : "", 512, &all));
  for (int r = 0; r < rt->local_ranks; r++)
    if (strncmp(all + (size_t)r * 512, all + (size_t)rt->local_rank * 512, 512) == 0) {
      rank += r < rt->local_rank;
      ranks++;
    }
  rt->first_gpu = (int)((int64_t)rank * visible / ranks);
  rt->gpus = (int)((int64_t)(rank + 1) * visible / ranks) - rt->first_gpu;
  if (visible && rt->gpus == 0) rt->gpus = 1; /* more ranks than GPUs: several share one */
  if (wanted < 0) wanted = number_in("STARPU_NCUDA", -1);
  if (wanted > 0 && !CAN_USE_CUDA)
    SL_TRY_OUT(
        sl_fail(SL_EUNSUPPORTED,
                "%d GPUs were asked for but this build drives none: build StarPU by tools/build-starpu --cuda, then "
                "configure with it",
                wanted));
  if (wanted > rt->gpus)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%d GPUs were asked for but rank %d has %d of the %d visible ones", wanted,
                       rt->rank, rt->gpus, visible));
  if (wanted >= 0 && wanted < rt->gpus) rt->gpus = wanted;
#ifdef STARPU_MAXCUDADEVS
  if (rt->gpus > STARPU_MAXCUDADEVS) rt->gpus = STARPU_MAXCUDADEVS;
#endif
  for (int r = 0; r < ranks; r++) sharers += (int)((int64_t)r * visible / ranks) == rt->first_gpu;
  if (rt->gpus) share_gpu_memory(rt, ranks > visible ? sharers : 1);
out:
  free(all);
  return status;
}

/* Finds the PUs that this process may use; the caller frees the set. */
static sl_status allowed_pus(hwloc_topology_t topology, hwloc_bitmap_t *set) {
  *set = hwloc_bitmap_alloc();
  if (!*set) return sl_no_memory("for a CPU set");
  if (hwloc_get_cpubind(topology, *set, HWLOC_CPUBIND_THREAD) != 0)
    hwloc_bitmap_copy(*set, hwloc_topology_get_allowed_cpuset(topology));
  hwloc_bitmap_and(*set, *set, hwloc_topology_get_allowed_cpuset(topology));
  return SL_OK;
}

static sl_status load_topology(sl_runtime *rt) {
  if (hwloc_topology_init(&rt->topology) != 0 || hwloc_topology_load(rt->topology) != 0)
    return sl_fail(SL_ETOPOLOGY, "hwloc cannot read this machine's topology: %s", strerror(errno));
  return SL_OK;
}

/* Collective over the node. */
static sl_status divide(sl_runtime *rt) {
  sl_status status = SL_OK;
  hwloc_bitmap_t allowed = NULL;
  int ranks, rank;
  SL_TRY_OUT(allowed_pus(rt->topology, &allowed));
  SL_TRY_OUT(find_gpus(rt));
  if (rt->options.gpus_alone && rt->gpus && rt->options.workers == 0) rt->options.workers = -1;
  if (rt->options.workers < 0 && rt->gpus == 0)
    SL_TRY_OUT(sl_blame(sl_fail(SL_EUNSUPPORTED, "no CPU workers were asked for, but rank %d has no GPU", rt->rank),
                        "workers, gpus"));
  if (rt->options.fast && rt->gpus == 0)
    SL_TRY_OUT(sl_blame(sl_fail(SL_EUNSUPPORTED, "fast GPU kernels were asked for, but rank %d has no GPU", rt->rank),
                        "gpu_kernels, gpus"));
  SL_TRY_OUT(find_group(rt, allowed, &ranks, &rank));
  rt->quota = sl_cgroup_cpu_quota("");
  int domain[STARPU_NMAXWORKERS];
  for (int i = 0; i < rt->gpus; i++) domain[i] = domain_of(rt->first_gpu + i);
  const sl_topology_request request = {
      .topology = rt->topology,
      .allowed = allowed,
      .quota = rt->quota * ranks / rt->local_ranks,
      .ranks = ranks,
      .rank = rank,
      .threads_per_worker = rt->options.threads_per_worker,
      .workers = rt->options.workers != 0 ? rt->options.workers : number_in("STARPU_NCPU", 0),
      .max_workers = STARPU_MAXCPUS,
      .drivers = rt->gpus,
      .gpu_domain = domain,
  };
  SL_TRY_OUT(sl_topology_divide(&request, &rt->share));
  char text[1024];
  if (*sl_share_warning(&rt->share, text, sizeof text)) sl_log(SL_LOG_WARNING, "rank %d: %s", rt->rank, text);
  const char *omp = getenv("OMP_PROC_BIND");
  if (omp && strcmp(omp, "false") != 0 && rt->share.node_cores == 1 &&
      hwloc_get_nbobjs_by_type(rt->topology, HWLOC_OBJ_CORE) > 1)
    sl_log(SL_LOG_WARNING, "OMP_PROC_BIND=%s bound this process to one core before it began: unset it", omp);
out:
  hwloc_bitmap_free(allowed);
  return status;
}

/* ---- StarPU ---- */

static sl_status choose_policy(sl_runtime *rt, struct starpu_sched_policy **policy, int *own) {
  const char *name = rt->options.sched && *rt->options.sched ? rt->options.sched : getenv("STARPU_SCHED");
  const char *library = rt->options.sched_lib ? rt->options.sched_lib : getenv("STARPU_SCHED_LIB");
  SL_TRY(sl_policies_find(library, name, policy, own));
  if (snprintf(rt->sched, sizeof rt->sched, "%s", (*policy)->policy_name) >= (int)sizeof rt->sched)
    return sl_fail(SL_EINVAL, "the scheduling policy's name is too long");
  if (rt->options.fast && !*own && strcmp(rt->sched, "heteroprio") == 0)
    return sl_blame(sl_fail(SL_EUNSUPPORTED,
                            "the scheduling policy heteroprio gives tasks to any kind of worker, but fast GPU kernels "
                            "run on GPUs only"),
                    "gpu_kernels, sched");
  return SL_OK;
}

/* Ends each text with a zero byte, so that "ab", "c" and "a", "bc" differ. */
static uint64_t mix(uint64_t hash, const char *text) {
  for (; text && *text; text++) hash = sl_hash64_byte(hash, (unsigned char)*text);
  return sl_hash64_byte(hash, 0);
}

/* Names the machine by the facts that decide task times: CPUs, GPUs, instruction set, threads per worker. StarPU
 * files its performance models under this name. Its default, the host's name, changes with every start of a container,
 * differs between equal nodes, and hides the threads per worker. */
static sl_status name_model_host(sl_runtime *rt) {
  const char *given = rt->options.machine ? rt->options.machine : getenv("STARPU_HOSTNAME");
  if (given && *given) {
    if (strpbrk(given, "/ \t\n") || snprintf(rt->model_host, sizeof rt->model_host, "%s", given) >= NAME_BYTES)
      return sl_fail(
          SL_EINVAL,
          "'%.100s' cannot name a machine: the name becomes part of file names, so it must have no / or blank and "
          "be shorter than %d bytes",
          given, NAME_BYTES);
    return SL_OK;
  }
  hwloc_topology_t t = rt->topology;
  hwloc_obj_t package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
  char text[256];
  uint64_t hash = SL_HASH64_START;
  hash = mix(hash, package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL);
  snprintf(text, sizeof text, "%d packages %d cores %d numa %d gpus", hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE),
           hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE), hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE), rt->gpus);
  hash = mix(hash, text);
#if CAN_USE_CUDA
  for (int i = 0; i < rt->gpus; i++) {
    struct cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, rt->first_gpu + i) == cudaSuccess) hash = mix(hash, properties.name);
  }
#endif
  snprintf(rt->model_host, sizeof rt->model_host, "starling-%08x-%s-k%d", (unsigned)(hash ^ hash >> 32),
           sl_isa_name(sl_isa_current()), rt->share.threads_per_worker);
  return SL_OK;
}

/* Makes the folder and its parents. Returns whether files can be written there; if not, errno says why. */
static int make_folder(const char *path) {
  return *path && sl_folder_make_all(path, 0700, NULL) == SL_OK && access(path, R_OK | W_OK | X_OK) == 0;
}

/* Chooses a writable folder for StarPU's calibration, if necessary a temporary one: StarPU aborts if it cannot
 * write. */
static sl_status choose_home(sl_runtime *rt) {
  const char *models = getenv("STARPU_PERF_MODEL_DIR");
  if (models && !make_folder(models))
    return sl_fail(SL_ESTARPU, "StarPU cannot keep its calibration in STARPU_PERF_MODEL_DIR=%s: %s", models,
                   strerror(errno));
  const char *home = getenv("STARPU_HOME"), *cache = getenv("XDG_CACHE_HOME"), *tmp = getenv("TMPDIR");
  if (home && cache) SL_TRY(set_variable(rt, "XDG_CACHE_HOME", NULL)); /* StarPU would prefer it to HOME */
  if (!home) home = cache ? cache : getenv("HOME");
  static const char below[] = ".starpu/sampling";
  char place[PATH_MAX - sizeof below];
  struct stat info;
  if (home && snprintf(rt->sampling, sizeof rt->sampling, "%s/%s", home, below) < (int)sizeof rt->sampling &&
      make_folder(rt->sampling))
    return SL_OK;
  const char *shown = home && *home ? home : "the home folder";
  snprintf(place, sizeof place, "%s/starling-%ld", tmp && *tmp ? tmp : "/tmp", (long)getuid());
  if (!make_folder(place) || lstat(place, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid())
    return sl_fail(SL_ESTARPU,
                   "StarPU has no folder for its calibration: neither %s nor %s can be written; set STARPU_HOME", shown,
                   place);
  sl_log(SL_LOG_WARNING, "%s cannot be written: StarPU's calibration goes to %s and may be lost; set STARPU_HOME",
         shown, place);
  if (cache) SL_TRY(set_variable(rt, "XDG_CACHE_HOME", NULL));
  snprintf(rt->sampling, sizeof rt->sampling, "%s/%s", place, below);
  return set_variable(rt, "STARPU_HOME", place);
}

static sl_status prepare_environment(sl_runtime *rt, const char *sched) {
  SL_TRY(choose_home(rt));
  const char *models = getenv("STARPU_PERF_MODEL_DIR"); /* StarPU prefers it */
  if (models) snprintf(rt->sampling, sizeof rt->sampling, "%s", models);
  SL_TRY(name_model_host(rt));
  SL_TRY(set_variable(rt, "STARPU_HOSTNAME", rt->model_host));
  /* StarPU 1.4.10's automatic priorities of heteroprio count each task as a kind of its own, and abort at the 100th. */
  if (!getenv("STARPU_HETEROPRIO_USE_AUTO_CALIBRATION"))
    SL_TRY(set_variable(rt, "STARPU_HETEROPRIO_USE_AUTO_CALIBRATION", "0"));
  if (!getenv("STARPU_SILENT")) SL_TRY(set_variable(rt, "STARPU_SILENT", "1"));
  SL_TRY(set_variable(rt, "STARPU_SCHED", sched)); /* overrides starpu_conf */
  /* These override it, too, but Starling pins the workers. StarPU 1.4 renumbers the PUs of a bound process by
   * default. */
  SL_TRY(set_variable(rt, "STARPU_WORKERS_CPUID", NULL));
  SL_TRY(set_variable(rt, "STARPU_WORKERS_COREID", NULL));
  SL_TRY(set_variable(rt, "STARPU_WORKERS_CUDAID", NULL));
  SL_TRY(set_variable(rt, "STARPU_WORKERS_NOBIND", NULL));
  SL_TRY(set_variable(rt, "STARPU_WORKERS_GETBIND", "0"));
  /* By default StarPU keeps copying modified data back to the host in case memory runs out: 5 MB in each step of a
   * small network whose data fit. Starling plans these copies instead (tasks/starpu/residence.c). */
  if (rt->gpus && !getenv("STARPU_MINIMUM_CLEAN_BUFFERS") && !getenv("STARPU_TARGET_CLEAN_BUFFERS")) {
    SL_TRY(set_variable(rt, "STARPU_MINIMUM_CLEAN_BUFFERS", "0"));
    SL_TRY(set_variable(rt, "STARPU_TARGET_CLEAN_BUFFERS", "0"));
  }
  if (rt->gpus && rt->gpu_memory > 0) {
    char megabytes[32]; /* StarPU's, of 2^20 bytes */
    snprintf(megabytes, sizeof megabytes, "%lld", (long long)((rt->gpu_memory + (1 << 20) - 1) >> 20));
    SL_TRY(set_variable(rt, "STARPU_LIMIT_CUDA_MEM", megabytes));
    /* StarPU's suballocator takes 32 MB at a time. */
    if (rt->gpu_memory < (size_t)1 << 30 && !getenv("STARPU_SUBALLOCATOR"))
      SL_TRY(set_variable(rt, "STARPU_SUBALLOCATOR", "0"));
  }
  /* Only GPUs need hwloc's discovery of buses, which takes as long as all the rest. */
  if (rt->gpus == 0 && !getenv("HWLOC_COMPONENTS")) SL_TRY(set_variable(rt, "HWLOC_COMPONENTS", "-gl,-opencl,-pci"));
  return SL_OK;
}

/* StarPU names PUs by their logical numbers. */
static unsigned logical_pu(const sl_runtime *rt, unsigned pu) {
  hwloc_obj_t object = hwloc_get_pu_obj_by_os_index(rt->topology, pu);
  return object ? object->logical_index : pu;
}

static sl_status start_starpu(sl_runtime *rt) {
  struct starpu_conf conf;
  struct starpu_sched_policy *policy;
  int own;
  SL_TRY(choose_policy(rt, &policy, &own));
  SL_TRY(prepare_environment(rt, own ? NULL : rt->sched));
  if (starpu_conf_init(&conf) != 0) return sl_fail(SL_ESTARPU, "StarPU cannot make its configuration");
  conf.precedence_over_environment_variables = 1;
  conf.sched_policy_name = own ? NULL : rt->sched;
  conf.sched_policy = own ? policy : NULL;
  conf.ncpus = rt->share.nworkers;
  conf.reserve_ncpus = 0;
  conf.ncuda = rt->gpus;
  conf.nopencl = 0;
  if (rt->options.calibrate) conf.calibrate = 1;
  conf.catch_signals = 0; /* the program handles signals */
  /* GPU drivers take their entries first. */
  conf.use_explicit_workers_bindid = 1;
  for (int i = 0; i < STARPU_NMAXWORKERS; i++) {
    const int w = i - rt->share.ndrivers;
    const unsigned pu = w < 0                     ? rt->share.driver_pu[i]
                        : rt->share.nworkers == 0 ? rt->share.driver_pu[0]
                                                  : rt->share.worker[w % rt->share.nworkers].pu[0];
    conf.workers_bindid[i] = logical_pu(rt, pu);
  }
#if CAN_USE_CUDA
  if (rt->gpus) {
    conf.use_explicit_workers_cuda_gpuid = 1;
    for (int i = 0; i < STARPU_NMAXWORKERS; i++) conf.workers_cuda_gpuid[i] = (unsigned)(rt->first_gpu + i % rt->gpus);
  }
#endif
  const int error = starpu_init(&conf);
  if (error != 0) return sl_fail(SL_ESTARPU, "StarPU does not start: %s", strerror(-error));
  rt->starpu_up = 1;
  rt->workers = (int)starpu_worker_get_count();
  if ((int)starpu_cpu_worker_get_count() != rt->share.nworkers || (int)starpu_cuda_worker_get_count() != rt->gpus)
    return sl_fail(SL_ESTARPU, "StarPU started %u CPU and %u CUDA workers instead of %d and %d",
                   starpu_cpu_worker_get_count(), starpu_cuda_worker_get_count(), rt->share.nworkers, rt->gpus);
  return SL_OK;
}

/* What decides a rank's turn to start. */
typedef struct starter {
  char name[NAME_BYTES]; /* of its performance models */
  int leader;            /* of its node: the rank of local rank 0 */
} starter;

/* This rank's turn: 0 for the first of the job with these performance models, 1 for the first of its node with them, 2
 * for the others. */
static sl_status find_turn(sl_runtime *rt, int *turn) {
  *turn = 0;
  if (rt->ranks == 1) return SL_OK;
  sl_status status = name_model_host(rt);
  starter mine = {.leader = rt->rank}, *all = calloc((size_t)rt->ranks, sizeof *all);
  if (!all && status == SL_OK) status = sl_no_memory("for the names of %d ranks", rt->ranks);
  int fine = status == SL_OK;
  MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, rt->comm);
  if (fine) {
    snprintf(mine.name, sizeof mine.name, "%s", rt->model_host);
    MPI_Bcast(&mine.leader, 1, MPI_INT, 0, rt->node_comm);
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, rt->comm);
  }
  for (int r = 0; r < rt->rank && fine; r++)
    if (strcmp(all[r].name, mine.name) == 0) *turn = *turn == 2 || all[r].leader == mine.leader ? 2 : 1;
  free(all);
  if (!fine && status == SL_OK) status = sl_fail(SL_ESTARPU, "StarPU does not start on another rank");
  return status;
}

/* StarPU's first start on a machine measures the buses and saves the result, which later starts read. So of the ranks
 * that share the file one starts first. The ranks of a node share it; nodes do if their folder is on a file server.
 * Where each node has a folder of its own, its first rank starts before its others. */
static sl_status start_starpu_in_turn(sl_runtime *rt) {
  enum { TURNS = 3 };
  int turn;
  SL_TRY(find_turn(rt, &turn));
  sl_status status = SL_OK;
  sl_activity_begin(SL_WORKS_LONG, "the start of StarPU");
  for (int k = 0; k < TURNS; k++) {
    if (turn == k) status = start_starpu(rt);
    if (rt->ranks > 1) MPI_Barrier(rt->comm);
  }
  sl_activity_end();
  return status;
}

/* ---- teams ---- */

typedef struct errand {
  sl_runtime *rt;
  sl_worker_function function;
  void *arg;
} errand;

static void run_errand(void *arg) {
  const errand *e = arg;
  const int worker = starpu_worker_get_id();
  e->function(e->arg, worker, e->rt->team[worker]);
}

sl_status sl_runtime_each_worker(sl_runtime *rt, sl_worker_function function, void *arg) {
  errand e = {rt, function, arg};
  starpu_execute_on_each_worker(run_errand, &e, STARPU_CPU);
  return SL_OK;
}

static void start_team(void *arg, int worker, sl_team *team) {
  (void)arg, (void)worker;
  sl_team_start(team);
}

#if CAN_USE_CUDA
static void bind_driver(void *arg) {
  sl_runtime *rt = arg;
  const unsigned device = (unsigned)starpu_worker_get_devid(starpu_worker_get_id()) - (unsigned)rt->first_gpu;
  if ((int)device >= rt->share.ndrivers) return;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (set && hwloc_bitmap_only(set, rt->share.driver_pu[device]) == 0)
    hwloc_set_cpubind(rt->topology, set, HWLOC_CPUBIND_THREAD);
  hwloc_bitmap_free(set);
}
#endif

/* Makes CPU worker i lead the team of place i. Leaders and GPU drivers bind themselves again, because StarPU may put a
 * driver on a leader's core: it takes any listed core near the GPU. */
static sl_status start_teams(sl_runtime *rt) {
  int ids[STARPU_NMAXWORKERS];
  const int n = (int)starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, ids, STARPU_NMAXWORKERS);
  for (int i = 0; i < n; i++)
    SL_TRY(sl_team_create(rt->topology, rt->share.worker[i].threads, rt->share.worker[i].pu, &rt->team[ids[i]]));
  SL_TRY(sl_runtime_each_worker(rt, start_team, NULL));
#if CAN_USE_CUDA
  if (rt->gpus) starpu_execute_on_each_worker(bind_driver, rt, STARPU_CUDA);
#endif
  return SL_OK;
}

typedef struct reservation {
  size_t bytes;
  atomic_int failures;
} reservation;

static void reserve(void *arg, int worker, sl_team *team) {
  reservation *r = arg;
  (void)worker;
  if (sl_team_reserve(team, r->bytes) != SL_OK) atomic_fetch_add(&r->failures, 1);
}

sl_status sl_runtime_reserve_scratch(sl_runtime *rt, size_t bytes) {
  reservation r = {.bytes = bytes};
  SL_TRY(sl_runtime_each_worker(rt, reserve, &r));
  if (atomic_load(&r.failures))
    return sl_no_memory("for %zu bytes of scratch for each thread of %d workers", bytes, rt->share.nworkers);
  return SL_OK;
}

/* ---- start and stop ---- */

sl_runtime_options sl_runtime_defaults(void) { return (sl_runtime_options){.mpi = 1, .gpus = -1}; }

/* Undoes those steps of the start that succeeded. */
static void take_down(sl_runtime *rt) {
  if (sl_runtime_abandoned()) {
    leave_mpi(rt);
    return;
  }
  if (rt->starpu_up) {
    starpu_task_wait_for_all();
    starpu_shutdown();
  }
  for (int i = 0; rt->team && i < STARPU_NMAXWORKERS; i++) sl_team_destroy(rt->team[i]);
  free(rt->team);
  sl_share_free(&rt->share);
  if (rt->topology) hwloc_topology_destroy(rt->topology);
  restore_environment(rt);
  leave_mpi(rt);
  free(rt);
}

sl_status sl_runtime_start(const sl_runtime_options *options, sl_runtime **result) {
  *result = NULL;
  if (atomic_exchange(&starting, 1))
    return sl_fail(SL_EINVAL, "a runtime is already running in this process: stop it first");
  sl_status status = SL_OK;
  sl_isa isa = sl_isa_best();
  sl_runtime *rt = calloc(1, sizeof *rt);
  if (!rt) {
    atomic_store(&starting, 0);
    return sl_no_memory("for a runtime");
  }
  rt->options = *options;
  SL_TRY_OUT(start_mpi(rt));
  /* From here on the ranks act together: before each collective step they agree whether one has failed. */
  if (options->kernels && *options->kernels) status = sl_isa_parse(options->kernels, &isa);
  if (status == SL_OK) status = sl_isa_use(isa);
  if (status == SL_OK) status = load_topology(rt);
  SL_TRY_OUT(sl_comm_agree(rt->comm, status));
  SL_TRY_OUT(sl_comm_agree(rt->comm, divide(rt)));
  SL_TRY_OUT(sl_comm_agree(rt->comm, start_starpu_in_turn(rt)));
  rt->team = calloc(STARPU_NMAXWORKERS, sizeof *rt->team);
  if (!rt->team)
    status = sl_no_memory("for %d teams", STARPU_NMAXWORKERS);
  else
    status = start_teams(rt);
  SL_TRY_OUT(sl_comm_agree(rt->comm, status));
  atomic_store(&running, rt);
  *result = rt;
out:
  if (status != SL_OK) {
    take_down(rt);
    atomic_store(&starting, 0);
  }
  return status;
}

void sl_runtime_stop(sl_runtime *rt) {
  if (!rt) return;
  take_down(rt);
  atomic_store(&running, NULL);
  atomic_store(&starting, 0);
}

/* ---- queries ---- */

sl_runtime *sl_runtime_current(void) { return atomic_load(&running); }
void sl_runtime_abandon(sl_runtime *rt) { (void)rt, atomic_store(&abandoned, 1); }
int sl_runtime_abandoned(void) { return atomic_load(&abandoned); }
int sl_runtime_rank(const sl_runtime *rt) { return rt->rank; }
int sl_runtime_ranks(const sl_runtime *rt) { return rt->ranks; }
int sl_runtime_local_rank(const sl_runtime *rt) { return rt->local_rank; }
int sl_runtime_local_ranks(const sl_runtime *rt) { return rt->local_ranks; }
int sl_runtime_nodes(const sl_runtime *rt) { return rt->nodes; }
int sl_runtime_workers(const sl_runtime *rt) { return rt->workers; }
int sl_runtime_cpu_workers(const sl_runtime *rt) { return rt->share.nworkers; }
unsigned sl_runtime_next_order(sl_runtime *rt, int worker) { return ++rt->ordered[worker]; }
/* StarPU's memory node of this rank's GPU number i; -1: it has none. */
static int gpu_node(int i) {
  int worker[STARPU_NMAXWORKERS];
  const int n = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, worker, STARPU_NMAXWORKERS);
  return i < n ? (int)starpu_worker_get_memory_node((unsigned)worker[i]) : -1;
}
size_t sl_runtime_gpu_peak(const sl_runtime *rt, int i) {
  const int node = gpu_node(i);
  (void)rt;
  return node < 0 ? 0 : sl_transfers_peak(node);
}
int sl_runtime_fast(const sl_runtime *rt) { return rt->options.fast; }
size_t sl_runtime_gpu_memory(const sl_runtime *rt) { return rt->gpu_memory > 0 ? rt->gpu_memory : SIZE_MAX; }
int sl_runtime_gpus(const sl_runtime *rt) { return rt->gpus; }

sl_worker_kind sl_runtime_worker_kind(const sl_runtime *rt, int worker) {
  return rt->team[worker] ? SL_WORKER_CPU : SL_WORKER_CUDA;
}

char *sl_runtime_worker_text(const sl_runtime *rt, int worker, char *text, size_t n) {
  const int device = starpu_worker_get_devid(worker);
  if (sl_runtime_worker_kind(rt, worker) == SL_WORKER_CUDA) {
    snprintf(text, n, "CUDA %d", device);
    return text;
  }
  int index = 0;
  for (int w = 0; w < worker; w++) index += rt->team[w] != NULL;
  char place[512];
  sl_place_text(&rt->share.worker[index], index, place, sizeof place);
  snprintf(text, n, "CPU %d, %s", index, strchr(place, ':') + 2);
  return text;
}

void sl_runtime_gpu(const sl_runtime *rt, int i, sl_gpu *gpu) {
  *gpu = (sl_gpu){.numa = -1};
#if CAN_USE_CUDA
  struct cudaDeviceProp p;
  const int device = rt->first_gpu + i;
  if (cudaGetDeviceProperties(&p, device) != cudaSuccess) return;
  snprintf(gpu->name, sizeof gpu->name, "%s", p.name);
  gpu->memory = p.totalGlobalMem;
  gpu->multiprocessors = p.multiProcessorCount, gpu->major = p.major, gpu->minor = p.minor;
  if (cudaDeviceGetPCIBusId(gpu->address, sizeof gpu->address, device) != cudaSuccess) gpu->address[0] = 0;
  if (cudaDriverGetVersion(&gpu->driver) != cudaSuccess) gpu->driver = 0;
  gpu->numa = domain_of(device);
  for (int w = 0; w < rt->workers; w++) {
    if (rt->team[w] || starpu_worker_get_devid(w) != device) continue;
    const unsigned node = starpu_worker_get_memory_node((unsigned)w);
    gpu->to_gpu = 1e6 * starpu_transfer_bandwidth(STARPU_MAIN_RAM, node);
    gpu->from_gpu = 1e6 * starpu_transfer_bandwidth(node, STARPU_MAIN_RAM);
  }
#else
  (void)rt, (void)i;
#endif
}

sl_team *sl_runtime_team(const sl_runtime *rt, int worker) {
  return worker >= 0 && worker < rt->workers ? rt->team[worker] : NULL;
}

const sl_share *sl_runtime_share(const sl_runtime *rt) { return &rt->share; }
hwloc_topology_t sl_runtime_topology(const sl_runtime *rt) { return rt->topology; }
double sl_runtime_quota(const sl_runtime *rt) { return rt->quota; }
const char *sl_runtime_sched(const sl_runtime *rt) { return rt->sched; }
double sl_runtime_patience(const sl_runtime *rt) { return rt->options.patience >= 10 ? rt->options.patience : 10; }
sl_isa sl_runtime_isa(const sl_runtime *rt) { return (void)rt, sl_isa_current(); }
const char *sl_runtime_model_host(const sl_runtime *rt) { return rt->model_host; }
const char *sl_runtime_sampling(const sl_runtime *rt) { return rt->sampling; }
MPI_Comm sl_runtime_comm(const sl_runtime *rt) { return rt->comm; }
MPI_Comm sl_runtime_node_comm(const sl_runtime *rt) { return rt->node_comm; }
