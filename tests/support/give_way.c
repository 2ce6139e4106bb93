/* Threads of tests outnumber the cores: ranks of a job, tests side by side. Those that have nothing to do spin for
 * whole time slices, MPICH while it asks UCX for messages, StarPU's workers while they look for tasks. Loaded into an
 * unchanged program (LD_PRELOAD), this lets them give way to threads that have. With another MPI the first part has no
 * effect.
 *
 * They sleep; sched_yield is not enough. On Linux 6.18 threads that call it all the time, each rank's in a session of
 * its own as mpiexec starts them, may keep the cores while all threads of another rank, ready to run, wait for a minute
 * and longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <time.h>

enum {
  POLLS = 16,          /* MPICH lets go of its lock between them, which it keeps while this sleeps */
  POLLING_NS = 30000,  /* a worker that used less processor time since its last rest had no task */
  SHORTEST_NS = 30000, /* doubled for each rest in a row; the system adds some 50 us */
  DOUBLINGS = 4        /* at most: half a millisecond */
};

struct starpu_conf;

unsigned ucp_worker_progress(void *worker);
int starpu_init(struct starpu_conf *conf);

static unsigned (*progress)(void *worker);
static int (*begin)(struct starpu_conf *conf);
static int (*when_idle)(unsigned (*hook)(void *arg), void *arg), (*at_progress)(unsigned (*hook)(void *arg), void *arg);

/* At the start, since memory may fail later. */
__attribute__((constructor)) static void find(void) {
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

/* For as short as the system can: some 50 us. */
static void rest(void) { nap(1); }

static int64_t used_ns(void) { /* processor time of the calling thread */
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* A worker without a task rests twice as long each time, up to half a millisecond: waking costs several microseconds,
 * which dozens of idle workers would take from threads that compute. One that has computed since begins anew. (Threads
 * that wait for messages do not: an exchange over TCP would take three times as long.) */
static void rest_longer(void) {
  static _Thread_local int64_t woke_ns;
  static _Thread_local int rests;
  rests = used_ns() - woke_ns < POLLING_NS ? rests + 1 : 0;
  nap(rests == 0 ? 1 : SHORTEST_NS << (rests < DOUBLINGS ? rests : DOUBLINGS));
  woke_ns = used_ns();
}

/* Whatever waits in a loop of its own: Starling's exchange, OpenBLAS, OpenMP. */
int sched_yield(void) {
  rest();
  return 0;
}

unsigned ucp_worker_progress(void *worker) {
  static _Thread_local unsigned idle; /* polls in a row that moved nothing */
  if (!progress) find();
  const unsigned moved = progress(worker);
  idle = moved ? 0 : idle + 1;
  if (idle > 0 && idle % POLLS == 0) rest();
  return moved;
}

static unsigned give_way(void *arg) {
  (void)arg;
  rest_longer();
  return 0;
}

/* Only workers of CPUs have hooks for when they are idle. All workers call those of progress: once before each task,
 * and all the time while they have none or wait for a copy or an event of a GPU. */
static unsigned give_way_at_times(void *arg) {
  static _Thread_local unsigned calls;
  (void)arg;
  if (++calls % POLLS == 0) rest_longer();
  return 0;
}

int starpu_init(struct starpu_conf *conf) {
  if (!begin) find();
  const int result = begin(conf);
  if (result == 0 && when_idle) when_idle(give_way, NULL);
  if (result == 0 && at_progress) at_progress(give_way_at_times, NULL);
  return result;
}
