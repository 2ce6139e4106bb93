/* Idle workers call sched_yield exactly while they are told to. It holds for each of many runtimes in turn, although
 * StarPU's table of hooks has 16 entries. */
#include "runtime/machine/yield.h"

#include <sched.h>
#include <starpu.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime/machine/runtime.h"
#include "tests/support/scratch.h"

static atomic_int yields; /* calls by StarPU's workers */

/* In place of the C library's. */
int sched_yield(void) {
  if (starpu_worker_get_id() >= 0) atomic_fetch_add(&yields, 1);
  return 0;
}

static void wait_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static int more_yields(int than) { /* waits up to half a minute */
  for (int i = 0; i < 30000 && atomic_load(&yields) <= than; i++) wait_ms(1);
  return atomic_load(&yields) > than;
}

static void nothing(void *arg, int worker, sl_team *team) { (void)arg, (void)worker, (void)team; }

static void only_while_told(void **state) {
  (void)state;
  sl_runtime_options options = sl_runtime_defaults();
  options.mpi = 0;
  options.gpus = 0;
  sl_workers_yield(0); /* without a runtime */
  for (int i = 0; i < 20; i++) {
    sl_runtime *rt;
    assert_ok(sl_runtime_start(&options, &rt));
    int before = atomic_load(&yields);
    wait_ms(5);
    assert_int_equal(atomic_load(&yields), before);
    for (int again = 0; again < 2; again++) {
      sl_workers_yield(1);
      sl_workers_yield(1);
      assert_true(more_yields(before));
      sl_workers_yield(0);
      assert_ok(sl_runtime_each_worker(rt, nothing, NULL)); /* ends a call that has begun */
      before = atomic_load(&yields);
      wait_ms(5);
      assert_int_equal(atomic_load(&yields), before);
    }
    if (i % 2) sl_workers_yield(1); /* the stop ends it */
    sl_runtime_stop(rt);
    sl_workers_yield(0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(only_while_told)};
  return cmocka_run_group_tests_name("runtime/yield", tests, NULL, NULL);
}
