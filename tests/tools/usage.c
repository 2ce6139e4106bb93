/* tools/usage.c: shares of worker time on records whose shares are known by hand. */
#include "tools/usage.h"

#include "tests/scratch.h"

static sl_record task(int worker, int64_t ready, int64_t start, int64_t end) {
  return (sl_record){
      .step = 1, .ready = ready, .start = start, .end = end, .worker = (int16_t)worker, .kind = SL_RECORD_TASK};
}

static void known_shares(void **state) {
  (void)state;
  /* Worker 0: waits 10, StarPU 5, kernel 35, at once StarPU 10 (ready long before), kernel 40. Worker 1: one kernel of
   * 20 that was ready at its start, then nothing. */
  const sl_record records[] = {task(0, 20, 60, 100), task(1, 0, 0, 20), task(0, 10, 15, 50)};
  sl__usage u;
  assert_ok(sl__usage_of(records, 3, 2, 0, 100, &u));
  assert_near(u.kernels, (35 + 40 + 20) / 200.0, 1e-12);
  assert_near(u.starpu, (5 + 10) / 200.0, 1e-12);
  assert_near(u.waiting, (10 + 80) / 200.0, 1e-12);
  assert_near(u.seconds, 1e-7, 1e-15);
}

static void the_window_cuts(void **state) {
  (void)state;
  const sl_record records[] = {task(0, 0, 0, 50), task(0, 50, 60, 200), task(0, 300, 310, 320)};
  sl__usage u;
  assert_ok(sl__usage_of(records, 3, 1, 40, 80, &u));
  assert_near(u.kernels, (10 + 20) / 40.0, 1e-12);
  assert_near(u.starpu, 10 / 40.0, 1e-12);
  assert_near(u.waiting, 0, 1e-12);
}

static void what_is_no_task_does_not_count(void **state) {
  (void)state;
  sl_record input = task(0, 0, 0, 100);
  input.kind = SL_RECORD_INPUT;
  sl__usage u;
  assert_ok(sl__usage_of(&input, 1, 1, 0, 100, &u));
  assert_near(u.kernels, 0, 0);
  assert_near(u.waiting, 1, 0);
  assert_ok(sl__usage_of(NULL, 0, 2, 0, 100, &u));
  assert_near(u.waiting, 1, 0);
}

/* A ring that turned over: shares are those of the whole steps that are left. */
static void a_full_recorder(void **state) {
  (void)state;
  sl_recorder *recorder;
  sl__usage u;
  assert_ok(sl_recorder_create(64, &recorder));
  for (int64_t step = 0; step < 100; step++)
    for (int64_t k = 0; k < 4; k++) {
      sl_record r = task(0, 100 * step + 25 * k, 100 * step + 25 * k + 5, 100 * step + 25 * k + 25);
      r.step = step, r.submit = 100 * step;
      sl_recorder_add(recorder, &r);
    }
  assert_ok(sl__usage_since(recorder, 1, 0, 10000, &u));
  assert_near(u.kernels, 0.8, 1e-9);
  assert_near(u.starpu, 0.2, 1e-9);
  assert_true(u.seconds < 100e-9 * 16 + 1e-12);
  sl_recorder_destroy(recorder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_shares),
      cmocka_unit_test(the_window_cuts),
      cmocka_unit_test(what_is_no_task_does_not_count),
      cmocka_unit_test(a_full_recorder),
  };
  return cmocka_run_group_tests_name("usage", tests, NULL, NULL);
}
