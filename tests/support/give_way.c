/* Ranks of tests outnumber the cores, and MPICH waits for messages by asking UCX again and again, for whole time slices. Loaded
 * into an unchanged program (LD_PRELOAD), this gives the core to another rank where there was nothing to do. With another MPI
 * it has no effect. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker);

static unsigned (*real)(void *worker);

/* At the start, since memory may fail later. */
__attribute__((constructor)) static void find(void) {
  real = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
}

unsigned ucp_worker_progress(void *worker) {
  if (!real) find();
  const unsigned moved = real(worker);
  if (moved == 0) sched_yield();
  return moved;
}
