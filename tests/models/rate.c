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

static void all_but_the_peak_is_read_back(void **state) {
  (void)state;
  for (int kind = 0; kind < SL_RATE_COUNT; kind++) {
    const sl_rate r = {
        .kind = (sl_rate_kind)kind, .peak = 2, .warmup = 3, .steps = 50, .every = 7, .gamma = 0.3, .floor = 0.1};
    sl_rate again = {.peak = 2};
    json_t *json = sl_rate_to_json(&r);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "kind")), sl_rate_names[kind]);
    assert_int_equal(sl_rate_from_json(json, &again), SL_OK);
    json_t *twice = sl_rate_to_json(&again);
    assert_true(json_equal(json, twice));
    assert_near(again.floor, 0.1, 0);
    json_decref(twice);
    json_object_set_new(json, "kind", json_string("cosin"));
    assert_int_equal(sl_rate_from_json(json, &again), SL_EFORMAT);
    json_object_del(json, "kind");
    assert_int_equal(sl_rate_from_json(json, &again), SL_EFORMAT);
    json_decref(json);
  }
  assert_null(sl_rate_names[SL_RATE_COUNT]);
}

static const char *changed(sl_rate_kind kind, sl_rate to) {
  const sl_rate r = {.kind = kind, .warmup = 3, .steps = 50, .every = 7, .gamma = 0.3, .floor = 0.1};
  to.kind = kind;
  const sl_setting *s = sl_rate_differs(&r, &to);
  return s ? s->field : "";
}

static void what_the_kind_reads_is_compared(void **state) {
  (void)state;
  const sl_rate same = {.warmup = 3, .steps = 50, .every = 7, .gamma = 0.3, .floor = 0.1};
  for (int i = 0; i < SL_RATE_COUNT; i++) {
    const sl_rate_kind kind = (sl_rate_kind)i;
    const int falls = kind == SL_RATE_LINEAR || kind == SL_RATE_COSINE, by_step = kind == SL_RATE_STEP;
    sl_rate r = same;
    assert_string_equal(changed(kind, r), "");
    r = same, r.warmup = 4;
    assert_string_equal(changed(kind, r), "warmup");
    r = same, r.steps = 51;
    assert_string_equal(changed(kind, r), falls ? "steps" : "");
    r = same, r.floor = 0.2;
    assert_string_equal(changed(kind, r), falls ? "floor" : "");
    r = same, r.every = 8;
    assert_string_equal(changed(kind, r), by_step ? "every" : "");
    r = same, r.gamma = 0.5;
    assert_string_equal(changed(kind, r), by_step ? "gamma" : "");
  }
  sl_rate a = same, b = same;
  a.kind = SL_RATE_LINEAR, b.kind = SL_RATE_COSINE;
  assert_string_equal(sl_rate_differs(&a, &b)->option, "rate-schedule");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constant),
      cmocka_unit_test(warm_up_rises_to_the_peak),
      cmocka_unit_test(falls),
      cmocka_unit_test(falls_to_a_floor),
      cmocka_unit_test(falls_by_steps),
      cmocka_unit_test(all_but_the_peak_is_read_back),
      cmocka_unit_test(what_the_kind_reads_is_compared),
  };
  return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
