/* tools/run/prediction.c: a step's predicted time follows from speeds and measured times that are given, and jobs that
 * the schedule does not describe have none. */
#include "tools/run/prediction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tools/run/times.h"

static const sl__command bench = {.name = "bench", .bit = SL__BENCH, .arguments = "MODEL ", .least = 1, .most = 1};

typedef struct opened {
  sl__options o;
  sl__job j;
} opened;

static void open_job(opened *p, int workers) {
  const char *words[] = {"bench",
                         "mlp",
                         workers == 2 ? "--workers=2" : "--workers=1",
                         "--threads-per-worker=1",
                         "--gpus=0",
                         "--batch=16",
                         "--leaves=2",
                         NULL};
  memset(p, 0, sizeof *p);
  assert_ok(sl__options_parse(&bench, 7, words, &p->o));
  assert_ok(sl__job_name(&p->j, &p->o));
  assert_ok(sl__job_start(&p->j, "bench", 1));
  assert_ok(sl__job_plan(&p->j));
  assert_ok(sl__job_data(&p->j, 1));
  assert_ok(sl__job_build(&p->j));
}

static void close_job(opened *p) {
  sl__job_close(&p->j);
  sl__options_free(&p->o);
}

/* Of a worker that is so slow that nothing but the operations counts. */
static double seconds_at(const opened *p, double gflops) {
  const sl__machine speeds = {.gflops = gflops, .gigabytes = 1e9};
  sl__prediction found;
  assert_ok(sl__predict_step(&p->j, &speeds, &found));
  assert_int_equal(found.model_ranks, 1);
  return found.seconds;
}

static void follows_the_speed_of_a_worker(void **state) {
  setenv("STARPU_HOME", *state, 1);
  opened p;
  open_job(&p, 1);
  assert_near(seconds_at(&p, 1e-4), p.j.flops / 1e5, 0.01 * p.j.flops / 1e5);
  assert_near(seconds_at(&p, 2e-4), p.j.flops / 2e5, 0.01 * p.j.flops / 2e5);
  close_job(&p);
}

/* Keeps `seconds` as the time of every kind of task, or of those of the first operation alone. Returns their number. */
static int keep_times(const opened *p, double seconds, int all) {
  const sl_graph *g = sl_program_graph(p->j.program);
  char path[PATH_MAX];
  sl_times *times;
  int n = 0;
  assert_ok(sl_times_create(&times));
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    sl_time t = {.footprint = sl_node_footprint(g, node), .seconds = {[SL_KIND_CPU] = seconds}};
    if (node->bucket || (!all && node->op != g->node[0]->op)) continue;
    snprintf(t.operation, sizeof t.operation, "%s", node->op->name);
    assert_ok(sl_times_put(times, &t));
    n++;
  }
  const sl__times_of of = sl__times_of_run(p->j.runtime);
  assert_ok(sl__times_keep(sl__times_path(p->j.runtime, 0, path, sizeof path), &of, times));
  sl_times_destroy(times);
  return n;
}

static void takes_measured_times(void **state) {
  setenv("STARPU_HOME", *state, 1);
  const sl__machine speeds = {.gflops = 1e-4, .gigabytes = 1e9};
  sl__prediction all, part;
  char path[PATH_MAX];
  opened p;
  open_job(&p, 1);
  const double without = seconds_at(&p, 1e-4);
  const int some = keep_times(&p, 0.5, 0);
  const sl__machine unknown = {0};
  assert_ok(sl__predict_step(&p.j, &unknown, &part));
  assert_near(part.seconds, 0, 0);
  assert_ok(sl__predict_step(&p.j, &speeds, &part));
  assert_true(some > 0 && part.measured > 0 && part.measured < 1 && part.seconds != without);
  const int n = keep_times(&p, 0.5, 1);
  assert_ok(sl__predict_step(&p.j, &speeds, &all));
  assert_near(all.seconds, 0.5 * n, 0.001 * n);
  assert_near(all.measured, 1, 1e-12);
  assert_near(all.kernels, 1, 1e-9);
  assert_ok(sl__predict_step(&p.j, &unknown, &part)); /* all tasks are measured, so no speed is needed */
  assert_near(part.seconds, all.seconds, 0.001 * n);
  scratch_write(sl__times_path(p.j.runtime, 0, path, sizeof path), "[", 1);
  assert_fails(SL_EFORMAT, "times", sl__predict_step(&p.j, &speeds, &all));
  assert_int_equal(remove(path), 0);
  close_job(&p);
}

static void workers_wait_for_one_another(void **state) {
  setenv("STARPU_HOME", *state, 1);
  const sl__machine unknown = {0};
  sl__prediction found;
  opened p;
  open_job(&p, 2);
  const int n = keep_times(&p, 0.5, 1);
  assert_ok(sl__predict_step(&p.j, &unknown, &found));
  assert_true(found.kernels < 0.99 && found.seconds < 0.5 * n);
  assert_near(2 * found.kernels * found.seconds, 0.5 * n, 0.001 * n);
  close_job(&p);
}

static double seconds_of(const opened *p) {
  const sl__machine speeds = {.gflops = 1, .gigabytes = 1};
  sl__prediction found;
  assert_ok(sl__predict_step(&p->j, &speeds, &found));
  return found.seconds;
}

static void is_absent_where_it_would_be_wrong(void **state) {
  setenv("STARPU_HOME", *state, 1);
  const sl__machine unknown = {0};
  sl__prediction none;
  opened p;
  open_job(&p, 1);
  assert_ok(sl__predict_step(&p.j, &unknown, &none));
  assert_true(none.seconds == 0 && seconds_of(&p) > 0);
  char automatic[] = "auto", disk[] = "disk:/tmp", *const balance = p.o.balance;
  p.o.balance = automatic;
  assert_true(seconds_of(&p) == 0);
  p.o.balance = balance, p.o.offload = disk;
  assert_true(seconds_of(&p) == 0);
  p.o.offload = NULL, p.j.ranks.compression.kind = SL_COMPRESSION_BF16;
  assert_true(seconds_of(&p) == 0);
  p.j.ranks.compression.kind = SL_COMPRESSION_NONE, p.j.sync.every = 4;
  assert_true(seconds_of(&p) == 0);
  p.j.sync.every = 0;
  assert_true(seconds_of(&p) > 0);
  close_job(&p);
}

static void is_told(void **state) {
  (void)state;
  const sl__prediction none = {0}, alone = {.seconds = 0.25, .measured = 0.5, .kernels = 0.975, .model_ranks = 1},
                       shared = {.seconds = 1,
                                 .measured = 1,
                                 .kernels = 0.75,
                                 .model_ranks = 2,
                                 .bubble = 0.125,
                                 .exposed = 0.25};
  char text[SL__PREDICTION_TEXT];
  json_t *object = json_object();
  assert_string_equal(sl__prediction_text(&alone, text, sizeof text),
                      "97.5 % in kernels; calibration gave 50 % of the kernels' time");
  assert_string_equal(sl__prediction_text(&shared, text, sizeof text),
                      "75.0 % in kernels; calibration gave 100 % of the kernels' time; bubble 12.5 %, exposed "
                      "messages and sums 25.0 %");
  sl__prediction_add(&none, object);
  assert_int_equal(json_object_size(object), 0);
  sl__prediction_add(&alone, object);
  assert_int_equal(json_object_size(object), 3);
  sl__prediction_add(&shared, object);
  assert_near(json_real_value(json_object_get(object, "predicted_step_s")), 1, 0);
  assert_near(json_real_value(json_object_get(object, "predicted_bubble_percent")), 12.5, 0);
  assert_near(json_real_value(json_object_get(object, "predicted_exposed_percent")), 25, 0);
  json_decref(object);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(follows_the_speed_of_a_worker, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(takes_measured_times, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(workers_wait_for_one_another, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(is_absent_where_it_would_be_wrong, scratch_setup, scratch_teardown),
      cmocka_unit_test(is_told)};
  return cmocka_run_group_tests_name("prediction", tests, NULL, NULL);
}
