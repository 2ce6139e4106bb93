/* The start of StarPU on a rank's cores and GPUs: policy, names and folder of its performance models, environment. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/time.h"
#include "runtime/machine/policies.h"
#include "runtime/machine/runtime_state.h"
#include "runtime/numbers/hash.h"

static sl_status set_variable(sl_runtime *rt, const char *name, const char *value) {
  for (int i = 0;; i++) {
    if (i < rt->nsaved && strcmp(rt->saved[i].name, name) == 0) break;
    if (i < rt->nsaved) continue;
    const char *old = getenv(name);
    rt->saved[rt->nsaved++] = (sl__saved_variable){name, old ? strdup(old) : NULL};
    break;
  }
  if ((value ? setenv(name, value, 1) : unsetenv(name)) != 0)
    return sl_fail(SL_ENOMEM, "cannot set %s in the environment", name);
  return SL_OK;
}

void sl__restore_environment(sl_runtime *rt) {
  for (int i = 0; i < rt->nsaved; i++) {
    if (rt->saved[i].value)
      setenv(rt->saved[i].name, rt->saved[i].value, 1);
    else
      unsetenv(rt->saved[i].name);
    free(rt->saved[i].value);
  }
  rt->nsaved = 0;
}

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
    if (strpbrk(given, "/ \t\n") || snprintf(rt->model_host, sizeof rt->model_host, "%s", given) >= SL__NAME_BYTES)
      return sl_fail(
          SL_EINVAL,
          "'%.100s' cannot name a machine: the name becomes part of file names, so it must have no / or blank and "
          "be shorter than %d bytes",
          given, SL__NAME_BYTES);
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

/* StarPU makes the files of its bus measurements before it locks them; a job that starts in between finds them empty
 * and aborts. So jobs with the same folder start one after another. Returns a file descriptor that holds the lock.
 * Returns -1 if the file system has no locks, or if another job has held the lock for WAIT_S; this job then starts
 * anyway. */
static int lock_calibration(const sl_runtime *rt) {
  enum { SAY_S = 10, WAIT_S = 600, EVERY_US = 10000 };
  static const char name[] = "/starling.lock";
  char path[sizeof rt->sampling + sizeof name];
  snprintf(path, sizeof path, "%s%s", rt->sampling, name);
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  const double begin = sl_seconds();
  int said = 0;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const double waited = sl_seconds() - begin;
    if ((errno != EWOULDBLOCK && errno != EINTR) || waited > WAIT_S) {
      if (waited > WAIT_S) sl_log(SL_LOG_WARNING, "StarPU starts although another job still holds %s", path);
      close(fd);
      return -1;
    }
    if (waited > SAY_S && !said) sl_log(SL_LOG_INFO, "waits for another job that starts StarPU: it holds %s", path);
    said |= waited > SAY_S;
    usleep(EVERY_US);
  }
  return fd;
}

/* first: this rank may be the first of the job to use these measurements, so it takes the lock. */
static sl_status start_starpu(sl_runtime *rt, int first) {
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
    /* This thread pins host memory. Without this call each rank would make a context on GPU 0 for that. */
    (void)cudaSetDevice(rt->first_gpu);
  }
#endif
  const int lock = first ? lock_calibration(rt) : -1;
  const int error = starpu_init(&conf);
  if (lock >= 0) close(lock);
  if (error != 0) return sl_fail(SL_ESTARPU, "StarPU does not start: %s", strerror(-error));
  rt->starpu_up = 1;
  rt->workers = (int)starpu_worker_get_count();
  if ((int)starpu_cpu_worker_get_count() != rt->share.nworkers || (int)starpu_cuda_worker_get_count() != rt->gpus)
    return sl_fail(SL_ESTARPU, "StarPU started %u CPU and %u CUDA workers instead of %d and %d",
                   starpu_cpu_worker_get_count(), starpu_cuda_worker_get_count(), rt->share.nworkers, rt->gpus);
  return SL_OK;
}

/* The facts that decide a rank's turn to start. */
typedef struct starter {
  char name[SL__NAME_BYTES]; /* of its performance models */
  int leader;                /* of its node: the rank of local rank 0 */
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

/* StarPU's first start on a machine measures the buses and saves the result, which later starts read. So one of the
 * ranks that share the file starts before the others. The ranks of a node share it; all ranks do if the folder is on a
 * file server. If each node has a folder of its own, the first rank of the node starts before its other ranks. */
sl_status sl__start_starpu(sl_runtime *rt) {
  enum { TURNS = 3 };
  int turn;
  SL_TRY(find_turn(rt, &turn));
  sl_status status = SL_OK;
  sl_activity_begin(SL_WORKS_LONG, "the start of StarPU");
  for (int k = 0; k < TURNS; k++) {
    if (turn == k) status = start_starpu(rt, turn < TURNS - 1);
    if (rt->ranks > 1) MPI_Barrier(rt->comm);
  }
  sl_activity_end();
  return status;
}
