/* tasks/starpu/program.c: StarPU gives the bits of sequential execution, step after step; failures name the layer;
 * values that are not finite are found. On CPU workers and the GPUs that there are. */
#include "tasks/starpu/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/activity.h"
#include "tasks/spread/spread.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

static sl_runtime *start_with(const char *sched, int workers, int gpus) {
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  o.mpi = 0;
  o.sched = sched;
  o.workers = workers;
  o.gpus = gpus;
  assert_ok(sl_runtime_start(&o, &rt));
  return rt;
}

static sl_runtime *start(const char *sched, int workers) {
  return start_with(sched, workers, sl_runtime_defaults().gpus);
}

/* The records of the last step: a task is ready when it has been submitted and what it depends on has ended. */
static void check_records(const sl_program *program, const sl_recorder *recorder, int64_t step) {
  const sl_dependencies d = sl_program_dependencies(program);
  sl_record *all;
  size_t n;
  int64_t *end = calloc((size_t)d.n + 1, sizeof *end);
  assert_non_null(end);
  assert_ok(sl_recorder_snapshot(recorder, &all, &n));
  for (size_t i = 0; i < n; i++)
    if (all[i].step == step) end[all[i].node] = all[i].end;
  for (size_t i = 0; i < n; i++) {
    const sl_record *r = &all[i];
    if (r->step != step) continue;
    int64_t ready = r->submit;
    for (int k = d.from[r->node]; k < d.from[r->node + 1]; k++)
      if (end[d.before[k]] > ready) ready = end[d.before[k]];
    assert_int_equal(r->ready, ready);
    assert_true(r->ready <= r->taken && r->start <= r->end);
    /* On a GPU two clocks meet: that of the host and that of the device's events. */
    if (sl_runtime_worker_kind(sl_runtime_current(), r->worker) == SL_WORKER_CPU) assert_true(r->taken <= r->start);
  }
  free(all), free(end);
}

static void gives_sequential_bits(void **state) {
  (void)state;
  const char *const policies[] = {"eager", "lws", "dmda", "dmdas", "prio"};
  for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
    for (int workers = 1; workers <= 2; workers++) {
      sl_runtime *rt = start(policies[p], workers);
      for (int blocks = 1; blocks <= 2; blocks++) {
        sl_plan plan = {.batch = 24, .leaves = 3, .shards = 6, .row_blocks = blocks, .seed = 1};
        assert_ok(sl_plan_complete(&plan));
        sl_value loss;
        sl_graph *g = toy_training(24, &loss);
        sl_store *store;
        sl_program *program;
        sl_recorder *recorder;
        assert_ok(sl_store_create(&store));
        assert_ok(sl_recorder_create(0, &recorder));
        assert_ok(sl_program_create(rt, store, g, &plan,
                                    &(sl_program_options){.keep = &loss, .n_keep = 1, .recorder = recorder}, &program));
        execution *e = execution_create(sl_program_graph(program), NULL);
        for (int step = 1; step <= 30; step++) {
          double got, expected;
          assert_ok(sl_program_run(program, &(sl_step){.number = step, .seed = 1, .learning_rate = 0.125}));
          assert_ok(sl_program_read(program, loss, &got));
          execution_run(e, NULL, 0);
          expected = *(double *)e->data[sl_spread_whole(sl_program_graph(program), loss)];
          if (memcmp(&got, &expected, 8) != 0)
            fail_msg("%s, %d workers, step %d: loss %.17g, not %.17g", policies[p], workers, step, got, expected);
        }
        assert_int_equal(sl_recorder_added(recorder), 30 * sl_program_graph(program)->n_nodes);
        check_records(program, recorder, 30);
        execution_destroy(e);
        sl_program_destroy(program);
        sl_recorder_destroy(recorder);
        sl_store_destroy(store);
        sl_graph_destroy(g);
      }
      sl_runtime_stop(rt);
    }
}

static sl_program *faulty(sl_runtime *rt, sl_store *store, const toy_fault *fault, sl_value *loss, sl_graph **g) {
  *g = toy_graph(24);
  sl_value x = toy_input(*g, 5);
  x = sl_graph_add1(*g, &toy_faulty, "weak", fault, &x, 1);
  *loss = toy_loss(*g, toy_layer(*g, "fc", x, 3));
  sl_plan plan = {.batch = 24, .shards = 4, .seed = 1};
  assert_ok(sl_plan_complete(&plan));
  sl_program *program;
  assert_ok(sl_program_create(rt, store, *g, &plan, &(sl_program_options){.keep = loss, .n_keep = 1}, &program));
  return program;
}

static void names_what_failed(void **state) {
  (void)state;
  sl_runtime *rt = start("eager", 2);
  sl_store *store;
  sl_graph *g;
  sl_value loss;
  assert_ok(sl_store_create(&store));
  sl_program *program = faulty(rt, store, &(toy_fault){.row = 13}, &loss, &g);
  for (int step = 1; step <= 3; step++)
    assert_fails(SL_EINVAL, "layer 'weak' (toy_faulty): sample 13 is broken",
                 sl_program_run(program, &(sl_step){.number = step}));
  sl_program_destroy(program);
  sl_graph_destroy(g);
  program = faulty(rt, store, &(toy_fault){.row = -1}, &loss, &g);
  assert_ok(sl_program_run(program, &(sl_step){.number = 1}));
  assert_ok(sl_program_find_nonfinite(program, &(sl_step){.number = 1}));
  sl_program_destroy(program);
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

/* Of two tasks that fail while both run, the first one is named. On CPU workers: one of the kernels waits for the
 * other, and a GPU's worker may have taken both. */
static void names_the_first_failure(void **state) {
  (void)state;
  sl_runtime *rt = start_with("eager", 2, 0);
  sl_store *store;
  sl_graph *g;
  sl_value loss;
  assert_ok(sl_store_create(&store));
  sl_program *program = faulty(rt, store, &(toy_fault){.row = 13, .also = 3}, &loss, &g);
  assert_fails(SL_EINVAL, "sample 13 is broken", sl_program_run(program, &(sl_step){.number = 1}));
  assert_null(strstr(sl_error(), "too"));
  sl_program_destroy(program);
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

/* After a failure no kernel runs. One CPU worker, and a fault in the first shard: another worker may compute the losses
 * of other shards before the faulty task fails. */
static void stops_at_a_failure(void **state) {
  (void)state;
  sl_runtime *rt = start_with("eager", 1, 0);
  for (int row = -1; row <= 0; row++) {
    sl_store *store;
    sl_graph *g;
    sl_value loss;
    double sum;
    assert_ok(sl_store_create(&store));
    sl_program *program = faulty(rt, store, &(toy_fault){.row = row}, &loss, &g);
    if (row < 0)
      assert_ok(sl_program_run(program, &(sl_step){.number = 1}));
    else
      assert_fails(SL_EINVAL, "sample 0 is broken", sl_program_run(program, &(sl_step){.number = 1}));
    assert_ok(sl_program_read(program, loss, &sum));
    assert_true((sum == 0) == (row == 0));
    sl_program_destroy(program);
    sl_graph_destroy(g);
    sl_store_destroy(store);
  }
  sl_runtime_stop(rt);
}

static void finds_the_first_nonfinite(void **state) {
  (void)state;
  sl_runtime *rt = start("lws", 2);
  sl_store *store;
  sl_graph *g;
  sl_value loss;
  assert_ok(sl_store_create(&store));
  sl_program *program = faulty(rt, store, &(toy_fault){.row = 13, .nan = 1}, &loss, &g);
  sl_step step = {.number = 7};
  double got;
  assert_ok(sl_program_run(program, &step));
  assert_ok(sl_program_read(program, loss, &got));
  assert_true(isnan(got));
  assert_fails(SL_ENONFINITE,
               "step 7: the first value that is not finite comes from operation toy_faulty of layer 'weak', "
               "samples 12 to 17",
               sl_program_find_nonfinite(program, &step));
  assert_ok(sl_store_acquire(store, 1));
  ((float *)sl_store_find(store, "fc.weight")->data)[2] = INFINITY;
  sl_store_release(store);
  assert_fails(SL_ENONFINITE, "tensor 'fc.weight'", sl_program_find_nonfinite(program, &step));
  sl_program_destroy(program);
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

static void one_step_at_a_time(void **state) {
  (void)state;
  sl_runtime *rt = start("eager", 1);
  sl_store *store;
  sl_graph *g;
  sl_value loss;
  assert_ok(sl_store_create(&store));
  sl_program *program = faulty(rt, store, &(toy_fault){.row = -1}, &loss, &g);
  assert_ok(sl_program_submit(program, &(sl_step){.number = 1}));
  assert_int_equal(sl_program_running(program), 1);
  assert_fails(SL_EINVAL, "a step is in flight", sl_program_submit(program, &(sl_step){.number = 2}));
  assert_ok(sl_program_wait(program));
  assert_int_equal(sl_program_running(program), 0);
  assert_ok(sl_program_run(program, &(sl_step){.number = 2}));
  sl_program_destroy(program);
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

/* A value that several tasks compute in parts, beside another; one that was not kept is refused. */
static void reads_what_is_kept(void **state) {
  (void)state;
  enum { B = 24, K = 5 };
  sl_runtime *rt = start("eager", 2);
  sl_store *store;
  sl_program *program;
  sl_plan plan = {.batch = B, .shards = 4, .seed = 1};
  assert_ok(sl_store_create(&store));
  assert_ok(sl_plan_complete(&plan));
  sl_graph *g = toy_graph(B);
  const sl_value x = toy_input(g, K), y = toy_layer(g, "fc", x, 3), loss = toy_loss(g, y), keep[] = {loss, x};
  assert_ok(sl_program_create(rt, store, g, &plan, &(sl_program_options){.keep = keep, .n_keep = 2}, &program));
  assert_ok(sl_program_run(program, &(sl_step){.number = 1}));
  float got[B * K], other[B * 3];
  double sum;
  assert_ok(sl_program_read(program, x, got));
  for (int i = 0; i < B * K; i++) assert_true(got[i] == (float)toy_element(i / K, i % K));
  assert_ok(sl_program_read(program, loss, &sum));
  assert_true(sum > 0);
  assert_fails(SL_EINVAL, "was not kept", sl_program_read(program, y, other));
  sl_program_destroy(program);
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

/* Ranks wait for the one that initialises what they share: its watch counts each tensor as progress. */
static void moves_with_each_initial_tensor(void **state) {
  (void)state;
  enum { B = 24 };
  sl_runtime *rt = start("eager", 1);
  sl_store *store;
  sl_value loss;
  sl_graph *g = toy_training(B, &loss);
  sl_plan plan = {.batch = B, .seed = 1};
  unsigned long moves[2];
  assert_ok(sl_store_create(&store));
  assert_ok(sl_plan_complete(&plan));
  for (int k = 0; k < 2; k++) { /* the second program finds the tensors in the store */
    sl_program *program;
    const unsigned long before = sl_activity_read(NULL, 0).moves;
    assert_ok(sl_program_create(rt, store, g, &plan, NULL, &program));
    moves[k] = sl_activity_read(NULL, 0).moves - before;
    sl_program_destroy(program);
  }
  assert_true(sl_store_count(store) > 0);
  assert_true(moves[0] >= moves[1] + 2 * (unsigned long)sl_store_count(store));
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

static void refuses_other_tensors(void **state) {
  (void)state;
  sl_runtime *rt = start("eager", 1);
  sl_store *store;
  sl_tensor *t;
  assert_ok(sl_store_create(&store));
  sl_shape shape = SL_SHAPE(4, 4);
  assert_ok(sl_store_add(store, "fc1.weight", SL_F32, &shape, 1, &t));
  sl_value loss;
  sl_graph *g = toy_training(24, &loss);
  sl_plan plan = {.batch = 24};
  assert_ok(sl_plan_complete(&plan));
  sl_program *program;
  assert_fails(SL_ESHAPE, "'fc1.weight' is F32 [4, 4], but the model needs F32 [64, 5]",
               sl_program_create(rt, store, g, &plan, NULL, &program));
  sl_graph_destroy(g);
  sl_store_destroy(store);
  sl_runtime_stop(rt);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_sequential_bits),
      cmocka_unit_test(names_what_failed),
      cmocka_unit_test(names_the_first_failure),
      cmocka_unit_test(stops_at_a_failure),
      cmocka_unit_test(finds_the_first_nonfinite),
      cmocka_unit_test(one_step_at_a_time),
      cmocka_unit_test(reads_what_is_kept),
      cmocka_unit_test(refuses_other_tensors),
      cmocka_unit_test(moves_with_each_initial_tensor),
  };
  return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
