/* See yield.h. While StarPU's table of hooks is not empty, each poll of an idle worker locks each of its 16 entries. So
 * the hook is registered only while workers are to yield. */
#include "runtime/machine/yield.h"

#include <pthread.h>
#include <sched.h>
#include <starpu.h>

static unsigned yield_core(void *arg) {
  (void)arg;
  sched_yield();
  return 1; /* StarPU may also put the worker to sleep */
}

void sl_workers_yield(int yields) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static int entry = -1; /* of the table; -1: none */
  pthread_mutex_lock(&mutex);
  if (yields && entry < 0) entry = starpu_idle_hook_register(yield_core, NULL);
  if (!yields && entry >= 0) {
    starpu_idle_hook_deregister(entry);
    entry = -1;
  }
  pthread_mutex_unlock(&mutex);
}
