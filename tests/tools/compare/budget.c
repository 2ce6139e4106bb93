/* tools/compare/budget.c: steps and repetitions for the time there is. */
#include <math.h>

#include "tests/support/scratch.h"
#include "tools/compare/parts.h"

static const sl__budget usual = {
    .seconds = 170, .process = 1, .step = 0.02, .variants = 5, .workers = 2, .steps = -1, .repetitions = -1};

/* A small model: all of the time is used, and most of it for steps. */
static void fills_the_time(void **state) {
  (void)state;
  const sl__amount a = sl__compare_fit(&usual);
  assert_in_range(a.repetitions, 7, 9);
  assert_true(a.seconds > 140 && a.seconds <= 171);
  assert_true((double)a.steps * usual.step > 2);
  assert_near(a.seconds, a.repetitions * 5 * (1 + 0.02 * (double)a.steps) + 3 * (1 + 2 * 0.02 * (double)a.steps), 1e-9);
}

/* A process measures at most five seconds, and there are at most thirty repetitions. */
static void no_more_than_is_of_use(void **state) {
  (void)state;
  sl__budget b = usual;
  b.seconds = 36000;
  const sl__amount a = sl__compare_fit(&b);
  assert_int_equal(a.steps, 250);
  assert_int_equal(a.repetitions, 30);
}

/* Long steps: five of them, three repetitions, longer than asked. */
static void no_less_than_tells(void **state) {
  (void)state;
  sl__budget b = usual;
  b.step = 3;
  const sl__amount a = sl__compare_fit(&b);
  assert_int_equal(a.steps, 5);
  assert_int_equal(a.repetitions, 3);
  assert_true(a.seconds > b.seconds);
}

/* Many policies: fewer repetitions, and half a second of steps in each process. */
static void many_policies(void **state) {
  (void)state;
  sl__budget b = usual;
  b.variants = 20;
  const sl__amount a = sl__compare_fit(&b);
  assert_int_equal(a.steps, 25);
  assert_int_equal(a.repetitions, 5);
  assert_true(a.seconds <= b.seconds);
}

static void what_options_say(void **state) {
  (void)state;
  sl__budget b = usual;
  b.steps = 10;
  sl__amount a = sl__compare_fit(&b);
  assert_int_equal(a.steps, 10);
  assert_int_equal(a.repetitions, 27); /* of 6 s each, beside 3 x 1.4 s */
  b.repetitions = 4;
  a = sl__compare_fit(&b);
  assert_int_equal(a.steps, 10);
  assert_int_equal(a.repetitions, 4);
  b.steps = -1, b.seconds = INFINITY; /* no limit: five seconds of steps */
  a = sl__compare_fit(&b);
  assert_int_equal(a.steps, 250);
  assert_int_equal(a.repetitions, 4);
  assert_near(a.seconds, 4 * 5 * 6.0 + 3 * 11.0, 1e-9);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fills_the_time), cmocka_unit_test(no_more_than_is_of_use),
                                     cmocka_unit_test(no_less_than_tells), cmocka_unit_test(many_policies),
                                     cmocka_unit_test(what_options_say)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
