/* tasks/schedule/times.c: kinds of tasks are told apart by operation and footprint while the table grows; predictions
 * take measured times. */
#include "tasks/schedule/times.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"

enum { MANY = 5000 };

static sl_time time_of(const char *operation, uint32_t footprint, double cpu, double gpu) {
  sl_time t = {.footprint = footprint, .seconds = {[SL_KIND_CPU] = cpu, [SL_KIND_GPU] = gpu}};
  snprintf(t.operation, sizeof t.operation, "%s", operation);
  return t;
}

static void kinds(void **state) {
  (void)state;
  sl_times *times;
  assert_ok(sl_times_create(&times));
  assert_true(sl_times_find(times, "linear", 7, SL_KIND_CPU) == 0);
  assert_true(sl_times_find(NULL, "linear", 7, SL_KIND_CPU) == 0);
  for (uint32_t i = 0; i < MANY; i++) {
    const sl_time a = time_of("linear", i, 1 + i, 0), b = time_of("linear_dw", i, 0, 2 + i);
    assert_ok(sl_times_put(times, &a));
    assert_ok(sl_times_put(times, &b));
  }
  assert_int_equal(sl_times_count(times), 2 * MANY);
  for (uint32_t i = 0; i < MANY; i++) {
    assert_true(sl_times_find(times, "linear", i, SL_KIND_CPU) == 1 + i);
    assert_true(sl_times_find(times, "linear", i, SL_KIND_GPU) == 0);
    assert_true(sl_times_find(times, "linear_dw", i, SL_KIND_GPU) == 2 + i);
    assert_true(sl_times_find(times, "linear_dx", i, SL_KIND_GPU) == 0);
  }
  /* A later measurement replaces what it has measured, and nothing else. */
  sl_time again = time_of("linear", 3, 0, 9);
  again.deviation[SL_KIND_CPU] = 0.25, again.deviation[SL_KIND_GPU] = 0.5;
  assert_ok(sl_times_put(times, &again));
  assert_int_equal(sl_times_count(times), 2 * MANY);
  assert_true(sl_times_find(times, "linear", 3, SL_KIND_CPU) == 4);
  assert_true(sl_times_find(times, "linear", 3, SL_KIND_GPU) == 9);
  assert_true(sl_times_deviation(times, "linear", 3, SL_KIND_CPU) == 0);
  assert_true(sl_times_deviation(times, "linear", 3, SL_KIND_GPU) == 0.5);
  assert_true(sl_times_deviation(times, "linear_dx", 3, SL_KIND_GPU) == 0);
  assert_true(sl_times_deviation(NULL, "linear", 3, SL_KIND_GPU) == 0);
  assert_string_equal(sl_times_at(times, 1)->operation, "linear_dw");
  sl_times_destroy(times);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(kinds)};
  return cmocka_run_group_tests_name("times", tests, NULL, NULL);
}
