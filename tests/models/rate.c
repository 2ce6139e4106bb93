/* models/rate.c: the ends and the middle of each schedule. */
#include "models/rate.h"

#include "tests/support/scratch.h"

static void constant(void **state) {
  (void)state;
  const sl_rate r = {.kind = SL_RATE_CONSTANT, .peak = 0.1, .steps = 100};
  for (int64_t step = 1; step <= 100; step++) assert_near(sl_rate_at(&r, step), 0.1, 0);
}

static void warm_up_rises_to_the_peak(void **state) {
  (void)state;
  const sl_rate r = {.kind = SL_RATE_CONSTANT, .peak = 1, .warmup = 4, .steps = 100};
  for (int64_t step = 1; step <= 4; step++) assert_near(sl_rate_at(&r, step), 0.25 * (double)step, 1e-15);
  assert_near(sl_rate_at(&r, 5), 1, 0);
}

static void falls(void **state) {
  (void)state;
  sl_rate r = {.kind = SL_RATE_LINEAR, .peak = 2, .warmup = 10, .steps = 110};
  assert_near(sl_rate_at(&r, 11), 2, 1e-15);
  assert_near(sl_rate_at(&r, 61), 1, 1e-15);
  assert_near(sl_rate_at(&r, 110), 0.02, 1e-12);
  assert_near(sl_rate_at(&r, 111), 0, 1e-15);
  r.kind = SL_RATE_COSINE;
  assert_near(sl_rate_at(&r, 11), 2, 1e-15);
  assert_near(sl_rate_at(&r, 61), 1, 1e-12);
  assert_near(sl_rate_at(&r, 36), 2 * 0.5 * (1 + 0.70710678118654752), 1e-12);
  for (int64_t step = 12; step <= 110; step++) assert_true(sl_rate_at(&r, step) < sl_rate_at(&r, step - 1));
}

static void falls_to_a_floor(void **state) {
  (void)state;
  sl_rate r = {.kind = SL_RATE_LINEAR, .peak = 2, .steps = 100, .floor = 0.1};
  for (int i = 0; i < 2; i++, r.kind = SL_RATE_COSINE) {
    assert_near(sl_rate_at(&r, 1), 2, 1e-15);
    assert_near(sl_rate_at(&r, 51), 1.1, 1e-12);
    assert_near(sl_rate_at(&r, 101), 0.2, 1e-12);
    assert_near(sl_rate_at(&r, 1000), 0.2, 1e-12);
  }
}

static void falls_by_steps(void **state) {
  (void)state;
  const sl_rate r = {.kind = SL_RATE_STEP, .peak = 1, .warmup = 5, .steps = 100, .every = 30, .gamma = 0.1};
  assert_near(sl_rate_at(&r, 5), 1, 0);
  assert_near(sl_rate_at(&r, 35), 1, 0);
  assert_near(sl_rate_at(&r, 36), 0.1, 1e-15);
  assert_near(sl_rate_at(&r, 65), 0.1, 1e-15);
  assert_near(sl_rate_at(&r, 66), 0.01, 1e-15);
}

static void names_are_read_back(void **state) {
  (void)state;
  for (int i = 0; i < SL_RATE_COUNT; i++) {
    sl_rate_kind kind;
    assert_int_equal(sl_rate_parse(sl_rate_name((sl_rate_kind)i), &kind), SL_OK);
    assert_int_equal(kind, i);
  }
  sl_rate_kind kind;
  assert_int_equal(sl_rate_parse("cosin", &kind), SL_EINVAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constant),       cmocka_unit_test(warm_up_rises_to_the_peak),
      cmocka_unit_test(falls),          cmocka_unit_test(falls_to_a_floor),
      cmocka_unit_test(falls_by_steps), cmocka_unit_test(names_are_read_back),
  };
  return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
