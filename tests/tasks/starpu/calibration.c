/* Calibration: the rejected samples, and the times of StarPU's models, in this process and in the next. */
#include "tasks/starpu/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/tasks/toy.h"

static void what_is_accepted(void **state) {
  (void)state;
  static const struct {
    double x[8];
    int n, accepted; /* bits, first sample lowest */
    double median;
  } cases[] = {{{10, 10.2, 9.8, 50, 10.1, 9.9, 3}, 7, 0x37, 10}, /* far off on both sides */
               {{5, 5, 5, 5, 5.1, 6}, 6, 0x1f, 5},               /* MAD 0: within 5.2% of the median */
               {{7}, 1, 1, 7},
               {{0}, 0, 0, 0},
               {{1, 2, 3, 4, 5, 6, 7, 8}, 8, 0xff, 4.5}}; /* spread, and none is odd */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unsigned char accepted[8] = {0};
    int n, bits = 0;
    double median, spread;
    assert_ok(sl_calibration_accept(cases[i].x, cases[i].n, accepted, &n, &median, &spread));
    for (int k = 0; k < cases[i].n; k++) bits |= accepted[k] << k;
    assert_int_equal(bits, cases[i].accepted);
    assert_int_equal(n, __builtin_popcount((unsigned)bits));
    assert_near(median, cases[i].median, 1e-12);
  }
  /* 10.2 9.8 10.1 9.9 10: deviations 0.2 0.2 0.1 0.1 0 */
  unsigned char accepted[5];
  int n;
  double median, spread;
  assert_ok(sl_calibration_accept((double[]){10.2, 9.8, 10.1, 9.9, 10}, 5, accepted, &n, &median, &spread));
  assert_near(spread, 1.4826 * 0.1 / 10, 1e-9);
}

/* At least half of the samples are accepted, whatever their spread. */
static void half_at_least(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int trial = 0; trial < 2000; trial++) {
    double x[41], median, spread;
    unsigned char accepted[41];
    const int n = 1 + trial % 41;
    int count;
    for (int i = 0; i < n; i++) {
      seed = seed * 1664525u + 1013904223u;
      x[i] = exp((double)(seed >> 8) / (1 << 22)); /* over four e-folds */
    }
    assert_ok(sl_calibration_accept(x, n, accepted, &count, &median, &spread));
    assert_true(2 * count >= n);
  }
}

typedef struct machine {
  sl_runtime *rt;
  sl_store *store;
  sl_graph *g;
  sl_program *program;
} machine;

/* A program that has run a step, so that StarPU has read its models. */
static void start(machine *m, int64_t batch) {
  sl_runtime_options o = sl_runtime_defaults();
  sl_value loss;
  sl_plan plan = {.batch = batch, .leaves = 2, .shards = 4, .seed = 1};
  o.mpi = 0, o.sched = "lws", o.workers = 1;
  assert_ok(sl_runtime_start(&o, &m->rt));
  assert_ok(sl_plan_complete(&plan));
  m->g = toy_training(batch, &loss);
  assert_ok(sl_store_create(&m->store));
  assert_ok(
      sl_program_create(m->rt, m->store, m->g, &plan, &(sl_program_options){.keep = &loss, .n_keep = 1}, &m->program));
  assert_ok(sl_program_run(m->program, &(sl_step){.number = 1, .seed = 1, .learning_rate = 0.125}));
}

static void stop(machine *m) {
  sl_program_destroy(m->program);
  sl_store_destroy(m->store);
  sl_graph_destroy(m->g);
  sl_runtime_stop(m->rt);
}

static void assert_covered(const machine *m, int all) {
  int covered, kinds;
  assert_ok(sl_calibration_covered(m->program, &covered, &kinds));
  assert_in_range(kinds, 2, sl_program_graph(m->program)->n_nodes);
  assert_int_equal(covered, all ? kinds : 0);
}

/* Times made up for tasks of node i: i + 1 ms on a CPU worker, and half a millisecond more on a GPU. */
static double made_up(int node, sl_worker_kind worker) { return node + 1 + (worker == SL_WORKER_CUDA ? 0.5 : 0); }

/* A worker of a kind; -1: there is none. */
static int worker_of(const machine *m, sl_worker_kind kind) {
  for (int w = 0; w < sl_runtime_workers(m->rt); w++)
    if (sl_runtime_worker_kind(m->rt, w) == kind) return w;
  return -1;
}

/* Steps in which tasks took the times made up, the first and last of each kind a hundred times as long, and the second
 * 3% longer, which is no outlier. */
static void calibrate(machine *m, int steps, double scale, int least) {
  const int n = sl_program_graph(m->program)->n_nodes;
  const sl_calibration_kind *kind;
  sl_calibration *c;
  int n_kinds;
  assert_ok(sl_calibration_create(m->rt, m->program, &c));
  for (int step = 0; step < steps; step++)
    for (int i = 0; i < n; i++)
      for (int w = SL_WORKER_CPU; w <= SL_WORKER_CUDA; w++) {
        assert_ok(sl_calibration_kinds(c, &kind, &n_kinds));
        double ms = 0;
        for (int k = 0; k < n_kinds && !(ms > 0); k++)
          if (kind[k].node == i && (int)kind[k].worker == w) ms = scale * made_up(i, kind[k].worker);
        if (!(ms > 0)) continue; /* one task of each kind is enough */
        if (step == 0 || step == steps - 1) ms *= 100;
        if (step == 1) ms *= 1.03;
        const sl_record r = {.step = step,
                             .start = 5000,
                             .end = 5000 + (int64_t)(ms * 1e6),
                             .node = i,
                             .worker = (int16_t)worker_of(m, (sl_worker_kind)w),
                             .kind = SL_RECORD_TASK};
        assert_ok(sl_calibration_add(c, &r, 1));
      }
  assert_ok(sl_calibration_kinds(c, &kind, &n_kinds));
  for (int k = 0; k < n_kinds; k++) {
    assert_int_equal(kind[k].samples, steps - 2);
    assert_int_equal(kind[k].rejected, 2);
    assert_near(kind[k].median, 1e-3 * scale * made_up(kind[k].node, kind[k].worker), 1e-9);
    /* all but the first call: one is 3% longer, and one counts as three medians */
    const double mean = 1 + (0.03 + 2) / (steps - 1), squares = 1 + (1.03 * 1.03 + 9 - 2) / (steps - 1);
    assert_near(kind[k].mean / kind[k].median, mean, 1e-6);
    assert_near(kind[k].deviation, sqrt(squares - mean * mean) / mean, 1e-5);
  }
  assert_ok(sl_calibration_store(c, least));
  sl_calibration_destroy(c);
}

/* Checks that StarPU now expects the means of the times that calibrate() made up. */
static void assert_expected(const machine *m, int samples, double scale) {
  sl_calibration *c;
  const sl_calibration_kind *kind;
  int n_kinds;
  assert_ok(sl_calibration_create(m->rt, m->program, &c));
  assert_ok(sl_calibration_kinds(c, &kind, &n_kinds));
  for (int k = 0; k < n_kinds; k++) {
    assert_int_equal(sl_calibration_stored(m->program, kind[k].node, kind[k].worker), samples);
    assert_near(sl_program_expected(m->program, kind[k].node, worker_of(m, kind[k].worker)),
                1e-3 * scale * made_up(kind[k].node, kind[k].worker) * (1 + 0.03 / samples), 1e-8);
  }
  sl_calibration_destroy(c);
}

static void what_starpu_learns(void **state) {
  machine m;
  char path[1024];
  setenv("STARPU_HOME", *state, 1);
  setenv("STARPU_HOSTNAME", "made-up", 1);
  unsetenv("STARPU_CALIBRATE");
  start(&m, 24);
  assert_covered(&m, 0);
  calibrate(&m, 11, 1, 10); /* 9 samples each: too few */
  assert_covered(&m, 0);
  calibrate(&m, 16, 1, 10);
  assert_covered(&m, 1);
  assert_expected(&m, 14, 1);
  stop(&m);

  start(&m, 24); /* the next run reads them */
  sl_calibration_file(m.program, 0, path, sizeof path);
  assert_non_null(strstr(path, ".made-up"));
  assert_int_equal(access(path, R_OK), 0);
  assert_covered(&m, 1);
  assert_expected(&m, 14, 1);
  calibrate(&m, 13, 7, 10); /* and a new calibration replaces the old one */
  assert_expected(&m, 11, 7);
  stop(&m);

  start(&m, 48); /* other sizes are other kinds, and leave the first ones unchanged */
  int covered, kinds;
  assert_ok(sl_calibration_covered(m.program, &covered, &kinds));
  assert_true(covered < kinds);
  calibrate(&m, 16, 3, 10);
  assert_expected(&m, 14, 3);
  stop(&m);
  start(&m, 24);
  assert_covered(&m, 1);
  stop(&m);

  setenv("STARPU_HOSTNAME", "another", 1);
  start(&m, 24);
  assert_covered(&m, 0);
  stop(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_accepted), cmocka_unit_test(half_at_least),
      cmocka_unit_test_setup_teardown(what_starpu_learns, scratch_setup, scratch_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
