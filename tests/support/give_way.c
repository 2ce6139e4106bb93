/* Threads of tests outnumber the cores: ranks of a job, tests side by side. Those that have nothing to do spin for
 * whole time slices, MPICH while it asks UCX for messages, StarPU's workers while they look for tasks. Loaded into an
 * unchanged program (LD_PRELOAD), this lets them give way to threads that have. With another MPI the first part has no
 * effect. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

struct starpu_conf;

unsigned ucp_worker_progress(void *worker);
int starpu_init(struct starpu_conf *conf);

static unsigned (*progress)(void *worker);
static int (*begin)(struct starpu_conf *conf);
static int (*when_idle)(unsigned (*hook)(void *arg), void *arg);

/* At the start, since memory may fail later. */
__attribute__((constructor)) static void find(void) {
  progress = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
  begin = (int (*)(struct starpu_conf *))dlsym(RTLD_NEXT, "starpu_init");
  when_idle = (int (*)(unsigned (*)(void *), void *))dlsym(RTLD_NEXT, "starpu_idle_hook_register");
}

unsigned ucp_worker_progress(void *worker) {
  if (!progress) find();
  const unsigned moved = progress(worker);
  if (moved == 0) sched_yield();
  return moved;
}

static unsigned give_way(void *arg) {
  (void)arg;
  sched_yield();
  return 0;
}

int starpu_init(struct starpu_conf *conf) {
  if (!begin) find();
  const int result = begin(conf);
  if (result == 0 && when_idle) when_idle(give_way, (void *)0);
  return result;
}
