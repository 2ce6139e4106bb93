/* tools/run/meter.c: its text, when it prints, and the time left. */
#include "tools/run/meter.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static char *printed;
static size_t bytes;

/* Starts a meter that began so many seconds ago and prints into memory. */
static sl__meter started(int terminal, double ago, double done) {
  sl__meter m;
  sl__meter_start(&m, 0, done);
  m.to = open_memstream(&printed, &bytes);
  assert_non_null(m.to);
  m.terminal = terminal;
  m.began -= (int64_t)(1e9 * ago);
  m.next = terminal ? m.began : m.began + 30000000000;
  return m;
}

static void ended(sl__meter *m, const char *expected) {
  assert_int_equal(fclose(m->to), 0);
  assert_string_equal(printed, expected);
  free(printed);
}

static void durations(void **state) {
  char text[32];
  (void)state;
  assert_string_equal(sl__meter_duration(0.2, text), "1 s");
  assert_string_equal(sl__meter_duration(59.5, text), "1 min 00 s");
  assert_string_equal(sl__meter_duration(125, text), "2 min 05 s");
  assert_string_equal(sl__meter_duration(7260, text), "2 h 01 min");
  assert_string_equal(sl__meter_duration(INFINITY, text), "277777 h 46 min");
}

static void on_a_terminal(void **state) {
  (void)state;
  sl__meter m = started(1, 99.01, 0);
  const int64_t now = m.began + 99000000000;
  sl__meter_show(&m, 1, 2, "image %d", 1);
  assert_true(m.next >= now + 200000000); /* five times a second at most */
  m.next = INT64_MAX;
  sl__meter_show(&m, 2, 2, "too soon");
  sl__meter_clear(&m);
  sl__meter_clear(&m); /* nothing is shown any more */
  sl__meter_show(&m, 0, 5, "nothing done yet");
  sl__meter_clear(&m);
  sl__meter_show(&m, 2, 0, "of how many is unknown");
  ended(&m, "\r\033[Kimage 1  1 min 40 s left\r\033[K\r\033[Knothing done yet\r\033[K\r\033[Kof how many is unknown");
}

/* Work done before the start did not take any time since. */
static void from_the_middle(void **state) {
  (void)state;
  sl__meter m = started(1, 9.01, 90);
  sl__meter_show(&m, 95, 100, "step 95");
  ended(&m, "\r\033[Kstep 95  10 s left");
}

/* Not on a terminal: after 30 s, and then after twice the time. */
static void into_a_log(void **state) {
  (void)state;
  sl__meter m = started(0, 29, 0);
  sl__meter_show(&m, 1, 4, "too soon");
  m.began -= 2010000000, m.next -= 2010000000;
  sl__meter_show(&m, 1, 2, "first");
  sl__meter_show(&m, 1, 2, "again");
  m.began -= 25000000000, m.next -= 25000000000;
  sl__meter_show(&m, 1, 2, "not yet twice");
  m.began -= 10000000000, m.next -= 10000000000;
  sl__meter_show(&m, 2, 2, "second");
  sl__meter_clear(&m);
  ended(&m, "first  32 s left\nsecond  0 s left\n");
}

static void quiet(void **state) {
  (void)state;
  sl__meter m;
  sl__meter_start(&m, 1, 0);
  assert_null(m.to);
  sl__meter_show(&m, 1, 2, "nothing");
  sl__meter_clear(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(durations), cmocka_unit_test(on_a_terminal),
                                     cmocka_unit_test(from_the_middle), cmocka_unit_test(into_a_log),
                                     cmocka_unit_test(quiet)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
