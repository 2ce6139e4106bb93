/* tools/learning_rate.c: the ends and the middle of each schedule. */
#include "tools/learning_rate.h"

#include "tests/scratch.h"

static void constant(void **state) {
  (void)state;
  const sl__rate r = {.kind = sl__rate_parse("constant"), .peak = 0.1, .steps = 100};
  for (int64_t step = 1; step <= 100; step++) assert_near(sl__rate_at(&r, step), 0.1, 0);
}

static void warm_up_rises_to_the_peak(void **state) {
  (void)state;
  const sl__rate r = {.kind = SL__RATE_CONSTANT, .peak = 1, .warmup = 4, .steps = 100};
  for (int64_t step = 1; step <= 4; step++) assert_near(sl__rate_at(&r, step), 0.25 * (double)step, 1e-15);
  assert_near(sl__rate_at(&r, 5), 1, 0);
}

static void falls(void **state) {
  (void)state;
  sl__rate r = {.kind = sl__rate_parse("linear"), .peak = 2, .warmup = 10, .steps = 110};
  assert_near(sl__rate_at(&r, 11), 2, 1e-15);
  assert_near(sl__rate_at(&r, 61), 1, 1e-15);
  assert_near(sl__rate_at(&r, 110), 0.02, 1e-12);
  assert_near(sl__rate_at(&r, 111), 0, 1e-15);
  r.kind = sl__rate_parse("cosine");
  assert_near(sl__rate_at(&r, 11), 2, 1e-15);
  assert_near(sl__rate_at(&r, 61), 1, 1e-12);
  assert_near(sl__rate_at(&r, 36), 2 * 0.5 * (1 + 0.70710678118654752), 1e-12);
  for (int64_t step = 12; step <= 110; step++) assert_true(sl__rate_at(&r, step) < sl__rate_at(&r, step - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constant),
      cmocka_unit_test(warm_up_rises_to_the_peak),
      cmocka_unit_test(falls),
  };
  return cmocka_run_group_tests_name("learning_rate", tests, NULL, NULL);
}
