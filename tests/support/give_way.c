/* Tests have more threads than there are cores: the ranks of a job, tests side by side. Idle threads spin for whole
 * time slices: MPICH polls UCX for messages, StarPU's workers poll for tasks. Loaded into an unchanged program
 * (LD_PRELOAD), this library lets idle threads give way to busy ones. With another MPI than MPICH only StarPU's workers
 * do.
 *
 * Idle threads sleep; sched_yield is not enough. mpiexec starts each rank in a session of its own. On Linux 6.18 the
 * threads of some ranks, if they call sched_yield all the time, may keep the cores for a minute and longer while all
 * threads of another rank are ready to run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <time.h>

enum {
  POLLS = 16,           /* polls between two rests: MPICH releases its lock between polls, but not during a rest */
  POLLING_NS = 30000,   /* a thread that used more since its last rest has computed, so its wait begins anew */
  SHARE = 8,            /* each rest is this part of the time waited so far: what waits is late by an eighth at most */
  LONGEST_NS = 4000000, /* of a rest; the system adds some 50 us */
  LONGEST_WORKER_NS = 500000 /* of a StarPU worker's, which may have run a task shorter than POLLING_NS */
};

struct starpu_conf;

unsigned ucp_worker_progress(void *worker);
int starpu_init(struct starpu_conf *conf);

static int simulates; /* The process holds SimGrid, which runs all workers in turn: a rest would stop them all. */
static unsigned (*progress)(void *worker);
static int (*begin)(struct starpu_conf *conf);
static int (*when_idle)(unsigned (*hook)(void *arg), void *arg), (*at_progress)(unsigned (*hook)(void *arg), void *arg);

/* At the start, because allocations may fail later. */
__attribute__((constructor)) static void find(void) {
  simulates = dlsym(RTLD_DEFAULT, "simgrid_get_clock") != NULL;
  progress = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
  begin = (int (*)(struct starpu_conf *))dlsym(RTLD_NEXT, "starpu_init");
  when_idle = (int (*)(unsigned (*)(void *), void *))dlsym(RTLD_NEXT, "starpu_idle_hook_register");
  at_progress = (int (*)(unsigned (*)(void *), void *))dlsym(RTLD_NEXT, "starpu_progression_hook_register");
}

static void nap(long ns) {
  const struct timespec pause = {.tv_nsec = ns};
  const int error = errno;
  nanosleep(&pause, NULL);
  errno = error;
}

static int64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static _Thread_local int64_t since_ns; /* when the calling thread began to wait; 0: it does not */

/* Waking costs several microseconds, which dozens of waiting threads would take from those that compute: a thread rests
 * the longer the longer it has waited. */
static void rest(int64_t longest_ns) {
  static _Thread_local int64_t used_ns; /* at the last rest */
  if (simulates) return;
  const int64_t now = now_ns(CLOCK_MONOTONIC), used = now_ns(CLOCK_THREAD_CPUTIME_ID);
  if (since_ns == 0 || used - used_ns > POLLING_NS) since_ns = now;
  used_ns = used;
  const int64_t ns = (now - since_ns) / SHARE;
  nap(ns < 1 ? 1 : ns > longest_ns ? longest_ns : ns);
}

/* Called by code that waits in a loop of its own: Starling's exchange, OpenBLAS, OpenMP. */
int sched_yield(void) {
  rest(LONGEST_NS);
  return 0;
}

unsigned ucp_worker_progress(void *worker) {
  static _Thread_local unsigned idle; /* polls in a row that moved nothing */
  if (!progress) find();
  const unsigned moved = progress(worker);
  if (moved)
    idle = 0, since_ns = 0;
  else if (++idle % POLLS == 0)
    rest(LONGEST_NS);
  return moved;
}

static unsigned give_way(void *arg) {
  (void)arg;
  rest(LONGEST_WORKER_NS);
  return 0;
}

/* Only workers of CPUs have hooks for when they are idle. All workers call those of progress: once before each task,
 * and all the time while they have none or wait for a copy or an event of a GPU. */
static unsigned give_way_at_times(void *arg) {
  static _Thread_local unsigned calls;
  (void)arg;
  if (++calls % POLLS == 0) rest(LONGEST_WORKER_NS);
  return 0;
}

/* StarPU keeps its hooks when it ends. So a process that starts it again must not register them again, or they fill
 * StarPU's tables of 16 entries. */
int starpu_init(struct starpu_conf *conf) {
  static int hooked;
  if (!begin) find();
  const int result = begin(conf);
  if (result != 0 || hooked) return result;
  if (when_idle) when_idle(give_way, NULL);
  if (at_progress) at_progress(give_way_at_times, NULL);
  hooked = 1;
  return result;
}
