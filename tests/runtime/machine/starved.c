/* The time that threads wait for a processor: one that shares its processor with a busy one, and hardly ever has it. */
#include "runtime/machine/starved.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/time.h"
#include "tests/support/scratch.h"

static atomic_int stop, ready;
static cpu_set_t one;

static void *run(void *policy) {
  const struct sched_param none = {0};
  sched_setaffinity(0, sizeof one, &one);
  if (policy) sched_setscheduler(0, *(int *)policy, &none);
  atomic_fetch_add(&ready, 1);
  while (!atomic_load(&stop)) continue;
  return NULL;
}

static double starved_for(sl_starved *s, int ms) {
  sl_seconds_starved(s);
  usleep((useconds_t)ms * 1000);
  return sl_seconds_starved(s);
}

static void waits_for_a_processor(void **state) {
  (void)state;
  static sl_starved s;
  int idle = SCHED_IDLE, least = 0;
  cpu_set_t all;
  pthread_t busy, starving;
  if (access("/proc/self/schedstat", R_OK) != 0) skip();
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  while (!CPU_ISSET(least, &all)) least++;
  CPU_ZERO(&one);
  CPU_SET(least, &one);
  assert_true(sl_seconds_starved(&s) == 0); /* the first call */
  assert_int_equal(pthread_create(&starving, NULL, run, &idle), 0);
  while (atomic_load(&ready) < 1) usleep(1000);
  assert_int_equal(pthread_create(&busy, NULL, run, NULL), 0);
  while (atomic_load(&ready) < 2) usleep(1000);
  /* It waits for longer than a call's interval, during which the kernel counts nothing. */
  for (int k = 0; k < 5; k++) assert_true(starved_for(&s, 200) > 0.1);
  atomic_store(&stop, 1);
  pthread_join(busy, NULL), pthread_join(starving, NULL);
}

static void sleeps(void **state) {
  (void)state;
  static sl_starved s;
  double least = 1;
  for (int k = 0; k < 50 && least > 0.05; k++) { /* a busy machine also keeps this thread waiting */
    const double waited = starved_for(&s, 100);
    if (waited < least) least = waited;
  }
  assert_true(least <= 0.05);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(waits_for_a_processor), cmocka_unit_test(sleeps)};
  return cmocka_run_group_tests_name("runtime/machine/starved", tests, NULL, NULL);
}
