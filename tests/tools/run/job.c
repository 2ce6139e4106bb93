/* tools/run/job.c: steps on synthetic data, programs made again over the same store, and closing at any stage. */
#include "tools/run/job.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static const sl__command bench = {.name = "bench", .bit = SL__BENCH, .arguments = "MODEL ", .least = 1, .most = 1};

static void options_of(sl__options *o, const char *model) {
  const char *words[] = {"bench",      model,      "--workers=1", "--threads-per-worker=1", "--gpus=0", "--batch=16",
                         "--leaves=2", "--seed=3", NULL};
  assert_ok(sl__options_parse(&bench, 8, words, o));
}

/* Runs the first `stages` stages; the first failure ends it. */
static sl_status open_job(sl__job *j, const sl__options *o, int stages) {
  if (stages > 0) SL_TRY(sl__job_name(j, o));
  if (stages > 1) SL_TRY(sl__job_start(j, "bench", 1));
  if (stages > 2) SL_TRY(sl__job_plan(j));
  if (stages > 3) SL_TRY(sl__job_data(j, 1));
  if (stages > 4) SL_TRY(sl__job_build(j));
  if (stages > 5) SL_TRY(sl__job_load(j));
  return SL_OK;
}
enum { ALL = 6 };

static void run_steps(const char *model, int trains, int rebuild, double loss[4]) {
  sl__options o;
  sl__job j = {.trains = trains, .records = 1};
  options_of(&o, model);
  assert_ok(open_job(&j, &o, ALL));
  for (int i = 0; i < 4; i++) {
    sl__job_scores s;
    assert_ok(sl__job_step(&j, 0.01, &s));
    assert_int_equal(j.step, i + 1);
    assert_true(isfinite(s.loss) && s.loss > 0);
    assert_near(s.count, trains ? 16 : 0, 0);
    loss[i] = s.loss;
    if (rebuild && i == 1) assert_ok(sl__job_rebuild(&j));
  }
  assert_true(j.flops > 0 && j.predicted > 0);
  assert_true((j.evaluator.program != NULL) == trains);
  sl__job_close(&j);
  sl__options_free(&o);
}

static void steps_go_on_after_a_rebuild(void **state) {
  (void)state;
  double loss[4], again[4];
  run_steps("mlp", 0, 0, loss);
  run_steps("mlp", 1, 1, again);
  for (int i = 0; i < 4; i++) assert_near(again[i], loss[i], 0);
  assert_true(loss[3] != loss[0]);
}

static void what_is_not_finite_fails_where_it_trains(void **state) {
  (void)state;
  sl__options o;
  options_of(&o, "mlp");
  for (int trains = 0; trains < 2; trains++) {
    sl__job j = {.trains = trains};
    sl_status status = SL_OK;
    assert_ok(open_job(&j, &o, ALL));
    for (int i = 0; i < 8 && status == SL_OK; i++) status = sl__job_step(&j, 1e30, NULL);
    assert_int_equal(status, trains ? SL_ENONFINITE : SL_OK);
    assert_true(trains ? j.step < 8 : j.step == 8); /* the step that failed does not count */
    sl__job_close(&j);
  }
  sl__options_free(&o);
}

static void closed_at_any_stage(void **state) {
  (void)state;
  sl__options o;
  options_of(&o, "mlp");
  for (int stages = 0; stages <= ALL; stages++) {
    sl__job j = {.trains = 1, .records = 1};
    assert_ok(open_job(&j, &o, stages));
    sl__job_close(&j);
    assert_null(j.runtime);
  }
  sl__options_free(&o);
  sl__job j = {0};
  options_of(&o, "mpl");
  assert_fails(SL_EINVAL, "did you mean 'mlp'", open_job(&j, &o, ALL));
  sl__job_close(&j);
  sl__options_free(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps_go_on_after_a_rebuild),
                                     cmocka_unit_test(what_is_not_finite_fails_where_it_trains),
                                     cmocka_unit_test(closed_at_any_stage)};
  return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
