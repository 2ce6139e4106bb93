/* Every cause of idle time, with synthetic records; for any records, causes and kernels add up to all of the time; a
 * ring that has wrapped. */
#include "runtime/trace/idle.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

static sl_record task(int64_t step, int node, int worker, int64_t submit, int64_t ready, int64_t taken, int64_t start,
                      int64_t end) {
  return (sl_record){.step = step,
                     .node = node,
                     .worker = (int16_t)worker,
                     .submit = submit,
                     .ready = ready,
                     .taken = taken,
                     .start = start,
                     .end = end,
                     .kind = SL_RECORD_TASK};
}
static sl_record exchange(int64_t step, int node, int64_t submit, int64_t ready, int64_t end) {
  sl_record r = task(step, node, 0, submit, ready, ready, ready, end);
  r.kind = SL_RECORD_EXCHANGE;
  return r;
}

typedef struct piece {
  sl_idle_cause cause;
  int64_t from, to;
} piece;

/* Checks worker w's idle intervals, in order. */
static void expect(const sl_record *r, size_t n, const sl_dependencies *graph, int workers, int w, int64_t to,
                   const piece *wanted, size_t n_wanted) {
  sl_idle *idle;
  size_t n_idle, k = 0;
  assert_ok(sl_idle_find(r, n, workers, graph, 0, to, &idle, &n_idle));
  for (size_t i = 0; i < n_idle; i++) {
    if (idle[i].worker != w) continue;
    if (k == n_wanted) fail_msg("more than %zu intervals: %s", n_wanted, sl_idle_cause_name(idle[i].cause));
    if (idle[i].cause != wanted[k].cause || idle[i].from != wanted[k].from || idle[i].to != wanted[k].to)
      fail_msg("interval %zu: %s %lld to %lld, not %s %lld to %lld", k, sl_idle_cause_name(idle[i].cause),
               (long long)idle[i].from, (long long)idle[i].to, sl_idle_cause_name(wanted[k].cause),
               (long long)wanted[k].from, (long long)wanted[k].to);
    k++;
  }
  assert_int_equal(k, n_wanted);
  free(idle);
}
#define EXPECT(records, graph, workers, w, to, ...)                                                         \
  expect(records, sizeof(records) / sizeof *(records), graph, workers, w, to, (const piece[]){__VA_ARGS__}, \
         sizeof((const piece[]){__VA_ARGS__}) / sizeof(piece))

/* 0 -> 1 -> 2 */
static const int chain_from[] = {0, 0, 1, 2}, chain_before[] = {0, 1};
static const sl_dependencies chain = {3, chain_from, chain_before};
static const sl_dependencies loose = {3, (const int[]){0, 0, 0, 0}, NULL};

static void one_task(void **state) {
  (void)state;
  /* submitted at 10, ready then, taken at 25, started at 27, over at 90; nothing came after */
  const sl_record r[] = {task(1, 0, 0, 10, 10, 25, 27, 90)};
  EXPECT(r, &loose, 1, 0, 100, {SL_IDLE_RUNTIME, 0, 10}, {SL_IDLE_POLICY, 10, 25}, {SL_IDLE_DATA, 25, 27},
         {SL_IDLE_RUNTIME, 90, 100});
}

static void a_predecessor(void **state) {
  (void)state;
  /* worker 1's task waits for worker 0's two tasks; after its end it waits for the step's last task */
  const sl_record r[] = {task(1, 0, 0, 0, 0, 0, 0, 40), task(1, 1, 1, 5, 40, 41, 41, 60),
                         task(1, 2, 0, 6, 60, 60, 60, 100)};
  EXPECT(r, &chain, 2, 1, 100, {SL_IDLE_RUNTIME, 0, 5}, {SL_IDLE_DEPENDENCY, 5, 40}, {SL_IDLE_POLICY, 40, 41},
         {SL_IDLE_DEPENDENCY, 60, 100});
  EXPECT(r, &chain, 2, 0, 100, {SL_IDLE_DEPENDENCY, 40, 60});
}

static void an_exchange(void **state) {
  (void)state;
  /* 0 (a task) -> 1 (an exchange, ready at 40, ended at 70) -> 2; worker 1 waits for 2 all the while */
  const sl_record r[] = {task(1, 0, 0, 0, 0, 0, 0, 40), exchange(1, 1, 0, 40, 70), task(1, 2, 1, 0, 70, 72, 75, 100)};
  EXPECT(r, &chain, 2, 1, 100, {SL_IDLE_DEPENDENCY, 0, 40}, {SL_IDLE_EXCHANGE, 40, 70}, {SL_IDLE_POLICY, 70, 72},
         {SL_IDLE_DATA, 72, 75});
}

static void behind_an_exchange(void **state) {
  (void)state;
  /* 0 (an exchange until 30) -> 1 (on worker 0, 30 to 50) -> 2 (on worker 1): exposed, though not 2's own predecessor
   */
  const sl_record r[] = {exchange(1, 0, 0, 0, 30), task(1, 1, 0, 0, 30, 30, 30, 50), task(1, 2, 1, 0, 50, 50, 50, 60)};
  EXPECT(r, &chain, 2, 1, 60, {SL_IDLE_EXCHANGE, 0, 30}, {SL_IDLE_DEPENDENCY, 30, 50});
}

static void between_steps(void **state) {
  (void)state;
  /* Worker 1 ends step 1 at 20, worker 0 at 50; step 2 is submitted at 58. Worker 1's time to 50 is a dependency,
   * because no task of a step is submitted before the previous step has ended; the time from 50 to 58 is the runtime's.
   */
  const sl_record r[] = {task(1, 0, 0, 0, 0, 0, 0, 50), task(1, 1, 1, 0, 0, 0, 0, 20),
                         task(2, 0, 0, 58, 58, 58, 58, 80), task(2, 1, 1, 58, 58, 58, 58, 80)};
  EXPECT(r, &loose, 2, 1, 80, {SL_IDLE_DEPENDENCY, 20, 50}, {SL_IDLE_RUNTIME, 50, 58});
  EXPECT(r, &loose, 2, 0, 80, {SL_IDLE_RUNTIME, 50, 58});
}

static void several_steps(void **state) {
  (void)state;
  /* worker 1 has no task in step 2 */
  const sl_record r[] = {task(1, 0, 0, 0, 0, 0, 0, 20), task(1, 1, 1, 0, 0, 0, 0, 20),
                         task(2, 0, 0, 25, 25, 25, 25, 60), task(3, 1, 1, 64, 64, 64, 64, 80),
                         task(3, 0, 0, 64, 64, 64, 64, 80)};
  EXPECT(r, &loose, 2, 1, 80, {SL_IDLE_RUNTIME, 20, 25}, {SL_IDLE_DEPENDENCY, 25, 60}, {SL_IDLE_RUNTIME, 60, 64});
}

static void predecessors_not_recorded(void **state) {
  (void)state;
  const sl_record r[] = {task(7, 2, 0, 10, 30, 30, 30, 50)};
  EXPECT(r, &chain, 1, 0, 50, {SL_IDLE_RUNTIME, 0, 10}, {SL_IDLE_DEPENDENCY, 10, 30});
}

static void the_window_cuts(void **state) {
  (void)state;
  const sl_record r[] = {task(1, 0, 0, -20, -20, -20, -20, 10), task(1, 1, 0, -20, 30, 30, 30, 120)};
  sl_usage u;
  assert_ok(sl_usage_of(r, 2, 1, &loose, 0, 100, &u));
  assert_near(u.kernels, 0.8, 1e-12);
  assert_near(u.idle[SL_IDLE_DEPENDENCY], 0.2, 1e-12);
  assert_near(u.seconds, 100e-9, 1e-15);
  /* a worker without tasks */
  assert_ok(sl_usage_of(r, 2, 2, &loose, 0, 100, &u));
  assert_near(u.kernels, 0.4, 1e-12);
}

static void what_is_no_task_holds_no_worker(void **state) {
  (void)state;
  sl_record r[] = {task(1, 0, 0, 0, 0, 0, 0, 50), task(1, 0, 0, 0, 0, 0, 0, 100), exchange(1, 1, 0, 0, 100)};
  r[1].kind = SL_RECORD_INPUT;
  sl_usage u;
  assert_ok(sl_usage_of(r, 3, 1, &loose, 0, 100, &u));
  assert_near(u.kernels, 0.5, 1e-12);
  assert_near(u.idle[SL_IDLE_EXCHANGE], 0.5, 1e-12); /* the last task of the step */
  assert_ok(sl_usage_of(NULL, 0, 1, &loose, 0, 100, &u));
  assert_near(u.idle[SL_IDLE_RUNTIME], 1, 1e-12);
  assert_ok(sl_usage_of(r, 3, 0, &loose, 0, 100, &u));
  assert_near(u.kernels, 0, 1e-12);
}

/* Random graphs, list-scheduled on three workers with random delays: intervals are disjoint, in order, outside of
 * kernels, and all time is accounted for. */
static void all_of_the_time(void **state) {
  (void)state;
  enum { N = 40, STEPS = 4, W = 3 };
  srand(1);
  for (int round = 0; round < 50; round++) {
    int from[N + 1], before[N * N], edges = 0;
    for (int i = 0; i < N; i++) {
      from[i] = edges;
      for (int k = 0; k < i; k++)
        if (rand() % 10 == 0) before[edges++] = k;
    }
    from[N] = edges;
    const sl_dependencies graph = {N, from, before};
    sl_record r[N * STEPS];
    int64_t busy = 0, now = 0, free_at[W] = {0};
    for (int s = 0; s < STEPS; s++) {
      int64_t over = now;
      for (int i = 0; i < N; i++) {
        sl_record *t = &r[s * N + i];
        const int w = rand() % W;
        const int64_t submit = now + rand() % 5;
        int64_t ready = submit, taken, start, end;
        for (int k = from[i]; k < from[i + 1]; k++)
          if (r[s * N + before[k]].end > ready) ready = r[s * N + before[k]].end;
        taken = (ready > free_at[w] ? ready : free_at[w]) + rand() % 3;
        start = taken + rand() % 3;
        end = free_at[w] = start + rand() % 50;
        *t = task(s, i, w, submit, ready, taken, start, end);
        if (rand() % 8 == 0) { /* an exchange instead */
          t->kind = SL_RECORD_EXCHANGE;
        }
        if (t->kind == SL_RECORD_TASK) busy += end - start;
        if (end > over) over = end;
      }
      now = over + rand() % 20;
    }
    sl_usage u;
    assert_ok(sl_usage_of(r, N * STEPS, W, &graph, 0, now, &u));
    double sum = u.kernels;
    for (int c = 0; c < SL_IDLE_CAUSES; c++) sum += u.idle[c];
    assert_near(sum, 1, 1e-12);
    assert_near(u.kernels, (double)busy / (double)(W * now), 1e-9);
    sl_idle *idle;
    size_t n;
    assert_ok(sl_idle_find(r, N * STEPS, W, &graph, 0, now, &idle, &n));
    for (size_t i = 0; i < n; i++) {
      assert_true(idle[i].from < idle[i].to && idle[i].from >= 0 && idle[i].to <= now);
      if (i && idle[i].worker == idle[i - 1].worker) assert_true(idle[i].from >= idle[i - 1].to);
      for (int k = 0; k < N * STEPS; k++)
        if (r[k].kind == SL_RECORD_TASK && r[k].worker == idle[i].worker)
          assert_true(r[k].end <= idle[i].from || r[k].start >= idle[i].to || r[k].start == r[k].end);
    }
    free(idle);
  }
}

static void a_full_recorder(void **state) {
  (void)state;
  sl_recorder *recorder;
  sl_usage u;
  assert_ok(sl_recorder_create(16, &recorder));
  for (int i = 0; i < 100; i++) { /* four tasks in each step, the last one after a gap */
    const int64_t begin = 100 * (i / 4) + 20 * (i % 4);
    const sl_record r = task(i / 4, i % 4, 0, 100 * (i / 4), begin, begin, begin, begin + 20);
    sl_recorder_add(recorder, &r);
  }
  assert_ok(sl_usage_since(recorder, 1, &loose, 0, 2500, &u));
  assert_near(u.kernels, 0.8, 1e-9);
  assert_near(u.idle[SL_IDLE_RUNTIME], 0.2, 1e-9);
  assert_near(u.seconds, 300e-9, 1e-12); /* four steps were kept; the oldest may be incomplete */
  sl_recorder_destroy(recorder);
}

/* A ring that holds less than a step: the window begins where no record is missing. */
static void a_recorder_smaller_than_a_step(void **state) {
  (void)state;
  sl_recorder *recorder;
  sl_usage u;
  assert_ok(sl_recorder_create(16, &recorder));
  for (int i = 0; i < 100; i++) { /* one step; each task takes four fifths of its time */
    const sl_record r = task(0, i, 0, 0, 20 * i, 20 * i, 20 * i, 20 * i + 16);
    sl_recorder_add(recorder, &r);
  }
  assert_ok(sl_usage_since(recorder, 1, &loose, 0, 2000, &u));
  assert_near(u.seconds, 304e-9, 1e-12); /* from the end of the oldest task */
  assert_near(u.kernels, 15 * 16 / 304., 1e-9);
  sl_recorder_destroy(recorder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_task),
                                     cmocka_unit_test(a_predecessor),
                                     cmocka_unit_test(an_exchange),
                                     cmocka_unit_test(behind_an_exchange),
                                     cmocka_unit_test(between_steps),
                                     cmocka_unit_test(several_steps),
                                     cmocka_unit_test(predecessors_not_recorded),
                                     cmocka_unit_test(the_window_cuts),
                                     cmocka_unit_test(what_is_no_task_holds_no_worker),
                                     cmocka_unit_test(all_of_the_time),
                                     cmocka_unit_test(a_full_recorder),
                                     cmocka_unit_test(a_recorder_smaller_than_a_step)};
  return cmocka_run_group_tests_name("runtime/idle", tests, NULL, NULL);
}
