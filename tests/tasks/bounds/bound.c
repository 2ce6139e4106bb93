/* Bounds of graphs with known answers, with copies between memories and without; those with copies against a linear
 * program of single tasks, too; and no list schedule of random graphs is below its bound. */
#include "tasks/bounds/bound.h"

#include <glpk.h>
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
  assert_ok(sl_bound_solve(&(sl_bound_problem){5, kind, from, before, 1, 1, workers, seconds, NULL}, &b, NULL));
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
  assert_ok(sl_bound_solve(&(sl_bound_problem){3, kind, from, before, 3, 1, workers, seconds, NULL}, &b, NULL));
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
  assert_ok(sl_bound_solve(&(sl_bound_problem){14, kind, from, before, 2, 1, workers, seconds, NULL}, &b, NULL));
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
  sl_bound_problem p = {10, kind, from, NULL, 2, 2, workers, seconds, NULL};
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
  assert_ok(sl_bound_solve(&(sl_bound_problem){10, kind, from, before, 2, 2, workers, seconds, NULL}, &b, NULL));
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
  assert_ok(sl_bound_solve(&(sl_bound_problem){13, kind, from, before, 2, 2, workers, seconds, NULL}, &b, NULL));
  assert_near(b.critical_path, 9, 1e-9);
  assert_near(b.area, 6, 1e-9);
  assert_near(b.mixed, 9, 1e-9);
}

/* The host (worker kind 0) and one device (worker kind 1); 2 bytes/s. */
static const unsigned char on_device[] = {0, 1};
static const int one_each[] = {1, 1};
#define COPIES(latency, ...)                                                              \
  &(sl_bound_copies) {                                                                    \
    on_device, 2, latency, (const sl_timeline_flow[]){__VA_ARGS__},                       \
        (int)(sizeof((const sl_timeline_flow[]){__VA_ARGS__}) / sizeof(sl_timeline_flow)) \
  }

static void a_copy_on_the_path(void **state) {
  (void)state;
  /* Task 0 takes 3 s on the CPU, task 1 takes 1 s on the GPU; 8 bytes in between are 0.5 + 8 / 2 s. The result of 2
   * bytes goes back: 0.5 + 1 s. */
  const int kind[] = {0, 1}, from[] = {0, 0, 1}, before[] = {0};
  double seconds[] = {3, INFINITY, INFINITY, 1};
  sl_bound_problem p = {2, kind, from, before, 2, 2, one_each, seconds, COPIES(0.5, {0, 1, 0, 8})};
  sl_bound b;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.critical_path, 8.5, 1e-9);
  assert_near(b.area, 4, 1e-9); /* the link: latencies may overlap */
  assert_near(b.mixed, 8.5, 1e-9);
  p.copies = COPIES(0.5, {0, 1, 0, 8}, {1, -1, 1, 2});
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.critical_path, 10, 1e-9);
  /* If the CPU does task 1 in 6 s, that is the faster way: 3 + 6. */
  seconds[2] = 6;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.critical_path, 9, 1e-9);
  /* Without copies: 3 + 1. */
  p.copies = NULL;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.critical_path, 4, 1e-9);
}

static void two_values_on_one_path(void **state) {
  (void)state;
  /* 0 -> 1 -> 2 on GPU, CPU, GPU, 1 s each; task 2 reads values of both. Of 4 and 6 bytes on the edge 1 -> 2, and 2 on
   * 0 -> 1: 1 + 1 + 1 + 5 + 1 s. */
  const int kind[] = {0, 1, 0}, from[] = {0, 0, 1, 3}, before[] = {0, 0, 1};
  const double seconds[] = {INFINITY, 1, 1, INFINITY};
  const sl_bound_problem p = {3,        kind,    from,
                              before,   2,       2,
                              one_each, seconds, COPIES(0, {0, 1, 0, 2}, {0, 2, 3, 100}, {1, 2, 1, 4}, {1, 2, 2, 6})};
  sl_bound b;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.critical_path, 9, 1e-9); /* the 100 bytes stay on the GPU */
}

/* `side` 1: the writers run on the host only, and the readers' copies are to the device; 0: the other way round. */
static void a_link_decides_the_division(void **state) {
  (void)state;
  /* Ten values of 6 bytes (3 s each over the link), written in 1 s each on one side. A reader takes 4 s there, 1 s on
   * the other side. With r readers on the other side: 10 + 4 (10 - r) = 3 r, so r = 50 / 7 and T = 150 / 7. A second
   * reader of each value, on the other side alone and for nothing, needs all values there: T = 30. */
  for (int side = 0; side < 2; side++) {
    enum { N = 10 };
    int kind[3 * N], from[3 * N + 1] = {0}, before[2 * N], n_flows = 0;
    sl_timeline_flow flow[2 * N];
    for (int i = 0; i < 3 * N; i++) {
      kind[i] = i / N;
      if (i >= N) before[i - N] = i % N, flow[n_flows++] = (sl_timeline_flow){i % N, i, i % N, 6};
      from[i + 1] = n_flows;
    }
    const double near[] = {1, 4, 0}, far[] = {INFINITY, 1, 0};
    double seconds[6], share[6];
    for (int k = 0; k < 3; k++) seconds[2 * k + !side] = near[k], seconds[2 * k + side] = far[k];
    sl_bound_copies copies = {on_device, 2, 0, flow, N};
    const sl_bound_problem p = {3 * N, kind, from, before, 3, 2, one_each, seconds, &copies};
    sl_bound b;
    assert_ok(sl_bound_solve(&p, &b, share));
    assert_near(b.area, 150.0 / 7, 1e-9);
    assert_near(share[2 + side], 5.0 / 7, 1e-9);
    assert_near(b.critical_path, 5, 1e-9);
    assert_near(b.mixed, 150.0 / 7, 1e-9);
    copies.n_flows = 2 * N;
    seconds[4 + !side] = INFINITY;
    assert_ok(sl_bound_solve(&p, &b, NULL));
    assert_near(b.area, 30, 1e-9);
  }
}

static void values_cross_once(void **state) {
  (void)state;
  /* The CPU writes values of 2 and 10 bytes; three tasks on the GPU read both: 1 + 5 s. */
  const int kind[] = {0, 1, 1, 1}, from[] = {0, 0, 1, 2, 3}, before[] = {0, 0, 0};
  const double seconds[] = {1, INFINITY, INFINITY, 0};
  const sl_bound_problem p = {
      4,
      kind,
      from,
      before,
      2,
      2,
      one_each,
      seconds,
      COPIES(0, {0, 1, 0, 2}, {0, 1, 1, 10}, {0, 2, 0, 2}, {0, 2, 1, 10}, {0, 3, 0, 2}, {0, 3, 1, 10})};
  sl_bound b;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.area, 6, 1e-9);
  assert_near(b.critical_path, 7, 1e-9);
}

static void batch_and_results_cross(void **state) {
  (void)state;
  /* Four parts of the batch, 10 bytes each, on GPUs only: 5 s each over the link, which are part of the tasks' 6 s. */
  const int kind[4] = {0}, from[5] = {0}, workers[] = {1, 2};
  const double seconds[] = {INFINITY, 6};
  sl_bound_problem p = {4,        kind,    from,
                        NULL,     1,       2,
                        one_each, seconds, COPIES(1, {-1, 0, 0, 10}, {-1, 1, 1, 10}, {-1, 2, 2, 10}, {-1, 3, 3, 10})};
  sl_bound b;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.area, 24, 1e-9);
  assert_near(b.critical_path, 6, 1e-9);
  const double instant[] = {INFINITY, 0};
  p.seconds = instant;
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.area, 20, 1e-9);
  p.workers = workers; /* each GPU has a link */
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.area, 10, 1e-9);
  /* The same values as results. */
  p.copies = COPIES(1, {0, -1, 0, 10}, {1, -1, 1, 10}, {2, -1, 2, 10}, {3, -1, 3, 10});
  assert_ok(sl_bound_solve(&p, &b, NULL));
  assert_near(b.area, 10, 1e-9);
  assert_near(b.critical_path, 6, 1e-9);
}

static void a_path_that_copies_slow_down(void **state) {
  (void)state;
  /* Task 0 -> task 1, and two loose tasks. Task 0 takes 2 s on one side only; task 1 takes 9 s there and 1 s on the
   * other side, behind a copy of 4 s; the loose tasks keep the other side busy for 7.5 s. With a part y of task 1 on
   * the other side, T >= 2 + 9 (1 - y) + y + 4 y and T >= 7.5 + y: y = 0.7, T = 8.2. The path alone: 2 + 4 + 1. */
  for (int side = 0; side < 2; side++) {
    const int kind[] = {0, 1, 2, 2}, from[] = {0, 0, 1, 1, 1}, before[] = {0};
    const double near[] = {2, 9, INFINITY}, far[] = {INFINITY, 1, 3.75};
    double seconds[6];
    for (int k = 0; k < 3; k++) seconds[2 * k + !side] = near[k], seconds[2 * k + side] = far[k];
    const sl_bound_problem p = {4, kind, from, before, 3, 2, one_each, seconds, COPIES(1, {0, 1, 0, 6})};
    sl_bound b;
    assert_ok(sl_bound_solve(&p, &b, NULL));
    assert_near(b.critical_path, 7, 1e-9);
    assert_near(b.mixed, 8.2, 1e-9);
  }
}

static void wrong_problems(void **state) {
  (void)state;
  const int kind[] = {0, 1}, from[] = {0, 1, 2}, before[] = {1, 0}, none[] = {0, 0, 0}, workers[] = {1};
  const double seconds[] = {1, INFINITY}, negative[] = {1, -1}, fine[] = {1, 1};
  sl_bound b;
  assert_fails(SL_EINVAL, "2 of 2 tasks are in or behind",
               sl_bound_solve(&(sl_bound_problem){2, kind, from, before, 2, 1, workers, fine, NULL}, &b, NULL));
  assert_fails(SL_EINVAL, "kind 1 have no time",
               sl_bound_solve(&(sl_bound_problem){2, kind, none, NULL, 2, 1, workers, seconds, NULL}, &b, NULL));
  assert_fails(SL_EINVAL, "kind 1 take -1 s",
               sl_bound_solve(&(sl_bound_problem){2, kind, none, NULL, 2, 1, workers, negative, NULL}, &b, NULL));
  assert_fails(SL_EINVAL, "of kind 1, and there are 1",
               sl_bound_solve(&(sl_bound_problem){2, kind, none, NULL, 1, 1, workers, fine, NULL}, &b, NULL));
  const sl_bound_problem flows = {2, kind, none, NULL, 2, 1, workers, fine, COPIES(0, {0, 1, 0, 8})};
  assert_fails(SL_EINVAL, "does not wait for it", sl_bound_solve(&flows, &b, NULL));
  assert_ok(sl_bound_solve(&(sl_bound_problem){0, NULL, none, NULL, 0, 1, workers, NULL, NULL}, &b, NULL));
  assert_near(b.mixed, 0, 0);
}

enum { MOST = 60, KINDS = 5, WORKER_KINDS = 3, MOST_WORKERS = 9 };
static double uniform(void) { return rand() / (RAND_MAX + 1.0); }

/* A random problem. Each task writes one value, which some of those that wait for it read. */
typedef struct example {
  int kind[MOST], from[MOST + 1], before[MOST * MOST], workers[WORKER_KINDS];
  double seconds[KINDS * WORKER_KINDS];
  unsigned char device[WORKER_KINDS];
  sl_timeline_flow flow[MOST * MOST + 2 * MOST];
  sl_bound_copies copies;
  sl_bound_problem problem;
} example;

static void draw(example *e) {
  const int n = 1 + rand() % MOST, sparse = 2 + rand() % 20, kinds = 1 + rand() % KINDS,
            worker_kinds = 1 + rand() % WORKER_KINDS;
  int64_t bytes[KINDS];
  int edges = 0, flows = 0;
  for (int k = 0; k < kinds; k++) bytes[k] = 1 + rand() % 100000;
  for (int i = 0; i < n; i++) {
    e->kind[i] = rand() % kinds;
    e->from[i] = edges;
    if (rand() % 8 == 0) e->flow[flows++] = (sl_timeline_flow){-1, i, n + i, bytes[e->kind[i]]};
    for (int k = 0; k < i; k++)
      if (rand() % sparse == 0) {
        e->before[edges++] = k;
        if (rand() % 4) e->flow[flows++] = (sl_timeline_flow){k, i, k, bytes[e->kind[k]]};
      }
  }
  for (int i = 0; i < n; i++)
    if (rand() % 20 == 0) e->flow[flows++] = (sl_timeline_flow){i, -1, i, bytes[e->kind[i]]};
  e->from[n] = edges;
  for (int w = 0; w < worker_kinds; w++) e->workers[w] = 1 + rand() % 3, e->device[w] = w > 0 && rand() % 4 > 0;
  for (int v = 0; v < kinds * worker_kinds; v++)
    e->seconds[v] = v % worker_kinds && rand() % 4 == 0 ? INFINITY : exp(6 * uniform()) * 1e-5;
  e->copies = (sl_bound_copies){e->device, exp(5 * uniform()) * 2e6, rand() % 2 * 1e-5, e->flow, flows};
  e->problem = (sl_bound_problem){n, e->kind, e->from, e->before, kinds, worker_kinds, e->workers, e->seconds, NULL};
}

enum { MEMORIES = MOST_WORKERS + 1 };
typedef struct links {
  double out[MEMORIES], in[MEMORIES]; /* when the link from or to the memory is free */
} links;

/* When a value that is in memory m from at[m] on (INFINITY: it is not) is in memory `to`, over the host. */
static double bring(const sl_bound_copies *c, int64_t bytes, const double *at, int to, links *l) {
  const double copy = c->latency + (double)bytes / c->link;
  int from = to;
  if (isfinite(at[to])) return at[to];
  for (int m = 0; m < MEMORIES; m++)
    if (at[m] < at[from]) from = m;
  double when = at[from];
  if (from > 0) when = l->out[from] = fmax(when, l->out[from]) + copy;
  if (to > 0) when = l->in[to] = fmax(when, l->in[to]) + copy;
  return when;
}

/* The tasks in their order, each on the worker where it ends first, or on any that can run it (`anywhere`). A value
 * that a memory lacks is copied when a task needs it, one copy at a time on each link; a part of the batch by its task.
 * Returns the makespan. */
static double list_schedule(const sl_bound_problem *p, int anywhere) {
  static const sl_bound_copies none;
  const sl_bound_copies *c = p->copies ? p->copies : &none;
  double free_at[MOST_WORKERS] = {0}, end[MOST], makespan = 0;
  double here[MOST][MEMORIES]; /* of each task's value */
  links link = {{0}, {0}};
  for (int i = 0; i < p->n_tasks; i++) {
    double best = INFINITY;
    int where = 0, could[MOST_WORKERS], memory[MOST_WORKERS], n_could = 0, workers = 0;
    links then[MOST_WORKERS];
    double over[MOST_WORKERS];
    for (int w = 0; w < p->n_worker_kinds; w++)
      for (int k = 0; k < p->workers[w]; k++) {
        const int me = workers++;
        const double seconds = p->seconds[p->kind[i] * p->n_worker_kinds + w];
        double start = free_at[me], brought = 0;
        memory[me] = p->copies && c->device[w] ? me + 1 : 0;
        then[me] = link;
        for (int e = p->from[i]; e < p->from[i + 1]; e++) start = fmax(start, end[p->before[e]]);
        for (int f = 0; f < c->n_flows; f++)
          if (c->flow[f].to == i && c->flow[f].from >= 0)
            start = fmax(start, bring(c, c->flow[f].bytes, here[c->flow[f].from], memory[me], &then[me]));
          else if (c->flow[f].to == i && memory[me])
            brought = (double)c->flow[f].bytes / c->link, start = fmax(start, then[me].in[memory[me]]);
        over[me] = start + fmax(seconds, brought);
        if (brought > 0) then[me].in[memory[me]] = over[me];
        if (isfinite(seconds)) could[n_could++] = me;
        if (over[me] < best) best = over[me], where = me;
      }
    if (anywhere) where = could[rand() % n_could];
    for (int f = 0; f < c->n_flows; f++)
      if (c->flow[f].to == i && c->flow[f].from >= 0) {
        double *at = &here[c->flow[f].from][memory[where]];
        *at = fmin(*at, over[where]); /* later than it is: good enough for a schedule */
      }
    link = then[where];
    free_at[where] = end[i] = over[where];
    for (int m = 0; m < MEMORIES; m++) here[i][m] = m == memory[where] ? end[i] : INFINITY;
    makespan = fmax(makespan, end[i]);
  }
  for (int f = 0; f < c->n_flows; f++)
    if (c->flow[f].to < 0) makespan = fmax(makespan, bring(c, c->flow[f].bytes, here[c->flow[f].from], 0, &link));
  return makespan;
}

static void never_above_a_schedule(void **state) {
  (void)state;
  srand(7);
  double closest = INFINITY;
  int tighter = 0, raised[3] = {0};
  for (int round = 0; round < 300; round++) {
    example e;
    draw(&e);
    sl_bound without, b;
    assert_ok(sl_bound_solve(&e.problem, &without, NULL));
    for (int copies = 0; copies < 2; copies++) {
      e.problem.copies = copies ? &e.copies : NULL;
      assert_ok(sl_bound_solve(&e.problem, &b, NULL));
      for (int anywhere = 0; anywhere < 4; anywhere++) {
        const double makespan = list_schedule(&e.problem, anywhere);
        if (b.mixed > makespan * (1 + 1e-9))
          fail_msg("round %d: %d tasks, %s copies: bound %.9g, schedule %.9g", round, e.problem.n_tasks,
                   copies ? "with" : "without", b.mixed, makespan);
        closest = fmin(closest, makespan / b.mixed);
      }
      assert_true(b.critical_path <= b.mixed && b.area <= b.mixed);
      tighter += b.mixed > fmax(b.area, b.critical_path) * (1 + 1e-6);
    }
    assert_true(b.critical_path >= without.critical_path && b.area >= without.area * (1 - 1e-9));
    raised[0] += b.critical_path > without.critical_path * (1 + 1e-6);
    raised[1] += b.area > without.area * (1 + 1e-6);
    raised[2] += b.mixed > without.mixed * (1 + 1e-6);
  }
  print_message(
      "# mixed above both others in %d of 600; copies raise critical path, area and mixed in %d, %d and %d of "
      "300; nearest schedule %.3f of its bound\n",
      tighter, raised[0], raised[1], raised[2], closest);
  assert_true(tighter > 0 && raised[0] > 20 && raised[1] > 20 && raised[2] > 20 && closest < 1.001);
}

/* The area with copies, where each task has a variable of its own: x_i of it is on devices. One worker kind a side. */
static double area_of_tasks(const sl_bound_problem *p) {
  const sl_bound_copies *c = p->copies;
  const int n = p->n_tasks, values = 2 * n; /* value v < n: of task v; n + i: the batch of task i */
  glp_prob *lp = glp_create_prob();
  glp_term_out(GLP_OFF);
  glp_add_cols(lp, 1 + n + 2 * values); /* T, x, to the host, to devices */
  glp_set_obj_coef(lp, 1, 1);
  glp_set_col_bnds(lp, 1, GLP_LO, 0, 0);
  for (int i = 0; i < n; i++) {
    const double *t = p->seconds + 2 * p->kind[i];
    glp_set_col_bnds(lp, 2 + i, isfinite(t[0]) && isfinite(t[1]) ? GLP_DB : GLP_FX, isfinite(t[0]) ? 0 : 1, 1);
  }
  for (int v = 0; v < 2 * values; v++) glp_set_col_bnds(lp, 2 + n + v, GLP_LO, 0, 0);
  int *column = calloc((size_t)(2 + n + 2 * values), sizeof *column), k;
  double *value = calloc((size_t)(2 + n + 2 * values), sizeof *value), *bytes = calloc((size_t)values, sizeof *bytes);
  assert_true(column && value && bytes);
  for (int side = 0; side < 2; side++) { /* sum of t x <= m T, on the host of t (1 - x) */
    double all = 0;
    column[k = 1] = 1, value[1] = -p->workers[side];
    for (int i = 0; i < n; i++) {
      const double t = p->seconds[2 * p->kind[i] + side];
      if (!isfinite(t)) continue;
      column[++k] = 2 + i, value[k] = side ? t : -t;
      all += side ? 0 : t;
    }
    const int row = glp_add_rows(lp, 1);
    glp_set_row_bnds(lp, row, GLP_UP, 0, -all);
    glp_set_mat_row(lp, row, k, column, value);
  }
  for (int f = 0; f < c->n_flows; f++) { /* u >= x_reader - x_writer to devices, the other way round to the host */
    const int v = c->flow[f].value;
    bytes[v] = (double)c->flow[f].bytes;
    for (int side = 0; side < 2; side++) {
      if (side ? c->flow[f].to < 0 : c->flow[f].from < 0) continue;
      const double sign = side ? 1 : -1;
      column[k = 1] = 2 + n + side * values + v, value[1] = 1;
      if (c->flow[f].to >= 0) column[++k] = 2 + c->flow[f].to, value[k] = -sign;
      if (c->flow[f].from >= 0) column[++k] = 2 + c->flow[f].from, value[k] = sign;
      const int row = glp_add_rows(lp, 1);
      glp_set_row_bnds(lp, row, GLP_LO, 0, 0);
      glp_set_mat_row(lp, row, k, column, value);
    }
  }
  for (int side = 0; side < 2; side++) {
    column[k = 1] = 1, value[1] = -p->workers[1];
    for (int v = 0; v < values; v++)
      if (bytes[v] > 0) column[++k] = 2 + n + side * values + v, value[k] = bytes[v] / c->link;
    const int row = glp_add_rows(lp, 1);
    glp_set_row_bnds(lp, row, GLP_UP, 0, 0);
    glp_set_mat_row(lp, row, k, column, value);
  }
  assert_int_equal(glp_simplex(lp, NULL), 0);
  assert_int_equal(glp_get_status(lp), GLP_OPT);
  const double time = glp_get_obj_val(lp);
  glp_delete_prob(lp);
  free(column), free(value), free(bytes);
  return time;
}

static void as_a_program_of_tasks(void **state) {
  (void)state;
  /* Chains that are alike, of which each layer is a kind: both programs have the same least. A layer reads the value of
   * the one before, and some read an earlier one as well. */
  srand(11);
  for (int round = 0; round < 100; round++) {
    enum { LAYERS = 5, CHAINS = 6 };
    int kind[MOST], from[MOST + 1], before[2 * MOST], n = 0, edges = 0, flows = 0;
    const int skip = 2 + rand() % 3;
    const int workers[] = {1 + rand() % 3, 1 + rand() % 3};
    int64_t bytes[LAYERS];
    double seconds[2 * LAYERS];
    sl_timeline_flow flow[4 * MOST];
    for (int l = 0; l < LAYERS; l++) bytes[l] = 1 + rand() % 1000;
    for (int v = 0; v < 2 * LAYERS; v++) seconds[v] = exp(3 * uniform());
    if (rand() % 2) seconds[2 * (rand() % LAYERS) + rand() % 2] = INFINITY;
    for (int l = 0; l < LAYERS; l++)
      for (int s = 0; s < CHAINS; s++, n++) {
        kind[n] = l;
        from[n] = edges;
        if (l == 0) flow[flows++] = (sl_timeline_flow){-1, n, LAYERS * CHAINS + n, bytes[0]};
        if (l >= skip) before[edges++] = n - skip * CHAINS;
        if (l >= skip) flow[flows++] = (sl_timeline_flow){n - skip * CHAINS, n, n - skip * CHAINS, bytes[l - skip]};
        if (l >= 1) before[edges++] = n - CHAINS;
        if (l >= 1) flow[flows++] = (sl_timeline_flow){n - CHAINS, n, n - CHAINS, bytes[l - 1]};
      }
    from[n] = edges;
    for (int s = 0; s < CHAINS; s++) flow[flows++] = (sl_timeline_flow){n - 1 - s, -1, n - 1 - s, bytes[LAYERS - 1]};
    const sl_bound_copies copies = {on_device, 20 * exp(4 * uniform()), 0, flow, flows};
    const sl_bound_problem p = {n, kind, from, before, LAYERS, 2, workers, seconds, &copies};
    sl_bound b;
    assert_ok(sl_bound_solve(&p, &b, NULL));
    assert_near(b.area, area_of_tasks(&p), 1e-6 * b.area);
  }
  /* Of other graphs the program of kinds knows less, so its least is lower. */
  int equal = 0, rounds = 0;
  while (rounds < 100) {
    example e;
    draw(&e);
    if (e.problem.n_worker_kinds != 2 || !e.device[1]) continue;
    rounds++;
    e.problem.copies = &e.copies;
    sl_bound b;
    assert_ok(sl_bound_solve(&e.problem, &b, NULL));
    const double tasks = area_of_tasks(&e.problem);
    if (b.area > tasks * (1 + 1e-6)) fail_msg("round %d: %.9g above %.9g", rounds, b.area, tasks);
    equal += b.area > tasks * (1 - 1e-6);
  }
  print_message("# %d of 100 equal\n", equal);
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
                                     cmocka_unit_test(a_copy_on_the_path),
                                     cmocka_unit_test(two_values_on_one_path),
                                     cmocka_unit_test(a_link_decides_the_division),
                                     cmocka_unit_test(values_cross_once),
                                     cmocka_unit_test(batch_and_results_cross),
                                     cmocka_unit_test(a_path_that_copies_slow_down),
                                     cmocka_unit_test(wrong_problems),
                                     cmocka_unit_test(never_above_a_schedule),
                                     cmocka_unit_test(as_a_program_of_tasks),
                                     cmocka_unit_test(kinds_of_a_graph),
                                     cmocka_unit_test(from_records),
                                     cmocka_unit_test(the_critical_path)};
  return cmocka_run_group_tests_name("tasks/bound", tests, NULL, NULL);
}
