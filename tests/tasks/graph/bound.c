/* Bounds of graphs with known answers; and no list schedule of random graphs is below its bound. */
#include "tasks/graph/bound.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tests/tasks/toy.h"

static void a_chain(void **state) {
  (void)state;
  /* Five tasks of 2 s one after another, on 4 workers: the path is 10 s, the work 10 / 4. */
  const int kind[5] = {0}, from[] = {0, 0, 1, 2, 3, 4}, before[] = {0, 1, 2, 3}, workers[] = {4};
  const double seconds[] = {2};
  sl_bound b;
  assert_ok(sl_bound_solve(&(sl_bound_problem){5, kind, from, before, 1, 1, workers, seconds}, &b, NULL));
  assert_near(b.critical_path, 10, 1e-9);
  assert_near(b.area, 2.5, 1e-9);
  assert_near(b.mixed, 10, 1e-9);
}

static void any_order_of_tasks(void **state) {
  (void)state;
  /* The chain 2 -> 0 -> 1, of 1, 2 and 4 s. */
  const int kind[] = {1, 2, 0}, from[] = {0, 1, 2, 2}, before[] = {2, 0}, workers[] = {2};
  const double seconds[] = {1, 2, 4};
  sl_bound b;
  assert_ok(sl_bound_solve(&(sl_bound_problem){3, kind, from, before, 3, 1, workers, seconds}, &b, NULL));
  assert_near(b.critical_path, 7, 1e-9);
  assert_near(b.mixed, 7, 1e-9);
}

static void a_fork(void **state) {
  (void)state;
  /* One task of 1 s, then 12 of 3 s, then one of 1 s, on 4 workers: path 1 + 3 + 1, work (1 + 36 + 1) / 4. */
  int kind[14] = {0}, from[15] = {0}, before[24], n = 0;
  for (int i = 1; i <= 12; i++) kind[i] = 1, before[n++] = 0, from[i + 1] = n;
  for (int i = 1; i <= 12; i++) before[n++] = i;
  from[14] = n;
  const int workers[] = {4};
  const double seconds[] = {1, 3};
  sl_bound b;
  assert_ok(sl_bound_solve(&(sl_bound_problem){14, kind, from, before, 2, 1, workers, seconds}, &b, NULL));
  assert_near(b.critical_path, 5, 1e-9);
  assert_near(b.area, 9.5, 1e-9);
  assert_near(b.mixed, 9.5, 1e-9);
}

static void two_kinds(void **state) {
  (void)state;
  /* 1 CPU, 1 GPU. Six products (kind 0): 6 s on the CPU, 1 s on the GPU; four sums (kind 1): 2 s on the CPU, 1 s on the
   * GPU; no dependencies. The tasks that gain least by the GPU move first: all sums take 8 s on the CPU, against 6 s of
   * products on the GPU. With s sums on the CPU: 2 s = 6 + (4 - s), so s = 10/3 and T = 20/3. */
  const int kind[] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1}, from[11] = {0}, workers[] = {1, 1};
  const double seconds[] = {6, 1, 2, 1};
  double share[4];
  sl_bound b;
  sl_bound_problem p = {10, kind, from, NULL, 2, 2, workers, seconds};
  assert_ok(sl_bound_solve(&p, &b, share));
  assert_near(b.critical_path, 1, 1e-9);
  assert_near(b.area, 20.0 / 3, 1e-9);
  assert_near(b.mixed, 20.0 / 3, 1e-9);
  assert_near(share[0], 0, 1e-9);
  assert_near(share[1], 1, 1e-9);
  assert_near(share[2], 5.0 / 6, 1e-9);
  /* Without a GPU's time for sums all four are on the CPU: T = 8. */
  const double no_sums[] = {6, 1, 2, INFINITY};
  p.seconds = no_sums;
  assert_ok(sl_bound_solve(&p, &b, share));
  assert_near(b.mixed, 8, 1e-9);
  assert_near(share[3], 0, 1e-9);
}

static void a_path_that_the_area_slows_down(void **state) {
  (void)state;
  /* 1 CPU, 1 GPU. A chain of four tasks of kind 0 (5 s on the CPU, 1 s on the GPU), and six loose tasks of kind 1 (INF,
   * 1 s). Fastest path: 4 s. Area: with a of the chain on the CPU, 5 a = (4 - a) + 6, so a = 5/3, T = 25/3. But then
   * the path takes 5 a + (4 - a) = 4 + 4 a = 32/3 s. With the path's constraint T >= 4 + 4 a and T >= 10 - a: a = 6/5,
   * T = 44/5. */
  const int kind[] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, from[] = {0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3}, before[] = {0, 1, 2},
            workers[] = {1, 1};
  const double seconds[] = {5, 1, INFINITY, 1};
  sl_bound b;
  assert_ok(sl_bound_solve(&(sl_bound_problem){10, kind, from, before, 2, 2, workers, seconds}, &b, NULL));
  assert_near(b.critical_path, 4, 1e-9);
  assert_near(b.area, 25.0 / 3, 1e-9);
  assert_near(b.mixed, 44.0 / 5, 1e-9);
}

static void exchanges_hold_no_worker(void **state) {
  (void)state;
  /* Task (1 s), exchange (7 s), task (1 s) and ten loose tasks: path 9 s, work 12 s on 2 workers. */
  int kind[13] = {0}, from[14] = {0, 0, 1, 2}, before[] = {0, 1};
  kind[1] = 1;
  for (int i = 3; i < 14; i++) from[i] = 2;
  const int workers[] = {2, 0};
  const double seconds[] = {1, INFINITY, INFINITY, 7};
  sl_bound b;
  assert_ok(sl_bound_solve(&(sl_bound_problem){13, kind, from, before, 2, 2, workers, seconds}, &b, NULL));
  assert_near(b.critical_path, 9, 1e-9);
  assert_near(b.area, 6, 1e-9);
  assert_near(b.mixed, 9, 1e-9);
}

static void wrong_problems(void **state) {
  (void)state;
  const int kind[] = {0, 1}, from[] = {0, 1, 2}, before[] = {1, 0}, none[] = {0, 0, 0}, workers[] = {1};
  const double seconds[] = {1, INFINITY}, negative[] = {1, -1}, fine[] = {1, 1};
  sl_bound b;
  assert_fails(SL_EINVAL, "2 of 2 tasks wait for one another",
               sl_bound_solve(&(sl_bound_problem){2, kind, from, before, 2, 1, workers, fine}, &b, NULL));
  assert_fails(SL_EINVAL, "kind 1 have no time",
               sl_bound_solve(&(sl_bound_problem){2, kind, none, NULL, 2, 1, workers, seconds}, &b, NULL));
  assert_fails(SL_EINVAL, "kind 1 take -1 s",
               sl_bound_solve(&(sl_bound_problem){2, kind, none, NULL, 2, 1, workers, negative}, &b, NULL));
  assert_fails(SL_EINVAL, "of kind 1, and there are 1",
               sl_bound_solve(&(sl_bound_problem){2, kind, none, NULL, 1, 1, workers, fine}, &b, NULL));
  assert_ok(sl_bound_solve(&(sl_bound_problem){0, NULL, none, NULL, 0, 1, workers, NULL}, &b, NULL));
  assert_near(b.mixed, 0, 0);
}

enum { MOST = 60, KINDS = 5, WORKER_KINDS = 3, MOST_WORKERS = 9 };
static double uniform(void) { return rand() / (RAND_MAX + 1.0); }

/* Earliest finish time on workers of several kinds, tasks in a random topological order; the makespan. */
static double list_schedule(const sl_bound_problem *p) {
  double free_at[MOST_WORKERS] = {0}, end[MOST], makespan = 0;
  for (int i = 0; i < p->n_tasks; i++) {
    double ready = 0, best = INFINITY;
    int where = 0, worker = 0;
    for (int k = p->from[i]; k < p->from[i + 1]; k++) ready = fmax(ready, end[p->before[k]]);
    for (int w = 0; w < p->n_worker_kinds; w++)
      for (int c = 0; c < (p->workers[w] ? p->workers[w] : 1); c++, worker++) {
        const double begin = p->workers[w] ? fmax(ready, free_at[worker]) : ready,
                     over = begin + p->seconds[p->kind[i] * p->n_worker_kinds + w];
        if (over < best) best = over, where = worker;
      }
    free_at[where] = end[i] = best;
    makespan = fmax(makespan, best);
  }
  return makespan;
}

static void never_above_a_schedule(void **state) {
  (void)state;
  srand(7);
  double closest = INFINITY;
  int tighter = 0;
  for (int round = 0; round < 300; round++) {
    int kind[MOST], from[MOST + 1], before[MOST * MOST], workers[WORKER_KINDS], edges = 0;
    double seconds[KINDS * WORKER_KINDS];
    const int n = 1 + rand() % MOST, sparse = 2 + rand() % 20, kinds = 1 + rand() % KINDS,
              worker_kinds = 1 + rand() % WORKER_KINDS;
    for (int i = 0; i < n; i++) {
      kind[i] = rand() % kinds;
      from[i] = edges;
      for (int k = 0; k < i; k++)
        if (rand() % sparse == 0) before[edges++] = k;
    }
    from[n] = edges;
    for (int w = 0; w < worker_kinds; w++) workers[w] = 1 + rand() % 3;
    for (int v = 0; v < kinds * worker_kinds; v++)
      seconds[v] = v % worker_kinds && rand() % 4 == 0 ? INFINITY : exp(6 * uniform()) * 1e-5;
    const sl_bound_problem p = {n, kind, from, before, kinds, worker_kinds, workers, seconds};
    sl_bound b;
    assert_ok(sl_bound_solve(&p, &b, NULL));
    const double makespan = list_schedule(&p);
    if (b.mixed > makespan * (1 + 1e-9))
      fail_msg("round %d: %d tasks, bound %.9g, schedule %.9g", round, n, b.mixed, makespan);
    assert_true(b.critical_path <= b.mixed && b.area <= b.mixed);
    tighter += b.mixed > fmax(b.area, b.critical_path) * (1 + 1e-6);
    closest = fmin(closest, makespan / b.mixed);
  }
  print_message("# mixed above both others in %d of 300; nearest schedule %.3f of its bound\n", tighter, closest);
  assert_true(tighter > 0 && closest < 1.001);
}

static void kinds_of_a_graph(void **state) {
  (void)state;
  sl_value loss;
  sl_graph *g = toy_training(24, &loss);
  int *of = malloc((size_t)g->n_nodes * sizeof *of), n, seen = 0;
  assert_non_null(of);
  assert_ok(sl_bound_kinds(g, of, &n));
  assert_true(n > 1 && n <= g->n_nodes);
  for (int i = 0; i < g->n_nodes; i++) {
    assert_true(of[i] <= seen);
    seen += of[i] == seen;
    for (int k = 0; k < i; k++)
      if (of[i] == of[k]) assert_ptr_equal(g->node[i]->op, g->node[k]->op);
  }
  assert_int_equal(seen, n);
  free(of);
  sl_graph_destroy(g);
}

static void from_records(void **state) {
  (void)state;
  /* Two kinds; a CPU that ran both, a GPU that ran one; an exchange. Medians: of 1, 2, 9 it is 2, of 4, 6 it is 5. */
  sl_timeline *t;
  assert_ok(sl_timeline_create(2, 3, 2, &t));
  t->n_kinds = 3;
  for (int i = 0; i < 3; i++) t->node[i].kind = i;
  t->worker[1].gpu = 1;
  t->from[2] = 1, t->from[3] = 2, t->before[0] = 0, t->before[1] = 1;
  static const struct {
    int node, worker, kind, s;
  } ran[] = {{0, 0, SL_RECORD_TASK, 9},     {0, 0, SL_RECORD_TASK, 1},    {0, 0, SL_RECORD_TASK, 2},
             {2, 0, SL_RECORD_TASK, 4},     {2, 0, SL_RECORD_TASK, 6},    {0, 1, SL_RECORD_TASK, 1},
             {1, 0, SL_RECORD_EXCHANGE, 3}, {-1, 0, SL_RECORD_INPUT, 100}};
  t->n_records = sizeof ran / sizeof *ran;
  t->record = calloc(t->n_records, sizeof *t->record);
  for (size_t i = 0; i < t->n_records; i++)
    t->record[i] = (sl_record){.node = ran[i].node,
                               .worker = (int16_t)ran[i].worker,
                               .kind = (int16_t)ran[i].kind,
                               .end = ran[i].s * INT64_C(1000000000)};
  double seconds[9];
  const int worker_kind[] = {0, 1};
  assert_ok(sl_bound_times(t, worker_kind, 3, 2, seconds));
  const double wanted[] = {2, 1, INFINITY, INFINITY, INFINITY, 3, 5, INFINITY, INFINITY};
  for (int v = 0; v < 9; v++) assert_true(seconds[v] == wanted[v]);
  sl_bound b;
  assert_ok(sl_bound_recorded(t, &b));
  assert_near(b.mixed, 1 + 3 + 5, 1e-9); /* the chain on its fastest */
  unsigned char on_path[16];
  assert_true(t->n_nodes <= (int)sizeof on_path);
  assert_ok(sl_bound_critical(t, on_path));
  for (int i = 0; i < t->n_nodes; i++) assert_int_equal(on_path[i], 1);
  sl_timeline_destroy(t);
}

static void the_critical_path(void **state) {
  (void)state;
  /* 0 -> {1, 2} -> 3, where 2 takes longer than 1. */
  sl_timeline *t;
  assert_ok(sl_timeline_create(2, 4, 4, &t));
  const int from[] = {0, 0, 1, 2, 4}, before[] = {0, 0, 1, 2}, seconds[] = {1, 2, 5, 1};
  memcpy(t->from, from, sizeof from);
  memcpy(t->before, before, sizeof before);
  t->n_kinds = 4;
  t->record = calloc(4, sizeof *t->record);
  assert_non_null(t->record);
  for (int i = 0; i < 4; i++) {
    t->node[i].kind = i;
    t->record[t->n_records++] = (sl_record){.node = i, .end = seconds[i] * (int64_t)1000000000};
  }
  unsigned char on_path[4];
  assert_ok(sl_bound_critical(t, on_path));
  const unsigned char wanted[] = {1, 0, 1, 1};
  assert_memory_equal(on_path, wanted, 4);
  t->n_records = 3; /* a task without a record */
  assert_int_equal(sl_bound_critical(t, on_path), SL_EINVAL);
  sl_timeline_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_chain),
                                     cmocka_unit_test(any_order_of_tasks),
                                     cmocka_unit_test(a_fork),
                                     cmocka_unit_test(two_kinds),
                                     cmocka_unit_test(a_path_that_the_area_slows_down),
                                     cmocka_unit_test(exchanges_hold_no_worker),
                                     cmocka_unit_test(wrong_problems),
                                     cmocka_unit_test(never_above_a_schedule),
                                     cmocka_unit_test(kinds_of_a_graph),
                                     cmocka_unit_test(from_records),
                                     cmocka_unit_test(the_critical_path)};
  return cmocka_run_group_tests_name("tasks/bound", tests, NULL, NULL);
}
