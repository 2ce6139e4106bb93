/* Exchange hidden and exposed, worked by hand. */
#include "runtime/trace/overlap.h"

#include "tests/support/scratch.h"

static sl_record record(int kind, int64_t step, int node, int worker, int64_t ready, int64_t start, int64_t end) {
  return (sl_record){.step = step,
                     .node = node,
                     .worker = (int16_t)worker,
                     .submit = 1000 * (step - 1),
                     .ready = ready,
                     .taken = start,
                     .start = start,
                     .end = end,
                     .kind = (int16_t)kind};
}
#define TASK(step, node, worker, ready, end) record(SL_RECORD_TASK, step, node, worker, ready, ready, end)
#define EXCHANGE(step, node, ready, start, end) record(SL_RECORD_EXCHANGE, step, node, 0, ready, start, end)

/* 0, 1: tasks of the backward pass; 2, 3: exchanges of their results; 4: the update, which waits for both. 5: an
 * exchange of the forward pass. */
static const int from[] = {0, 0, 1, 2, 3, 5, 5}, before[] = {0, 0, 1, 2, 3};
static const sl_dependencies graph = {6, from, before};
static const unsigned char backward[] = {1, 1, 1, 1, 0, 0};

static void look(const sl_record *r, size_t n, int workers, int64_t to, sl_overlap *o) {
  assert_ok(sl_overlap_of(r, n, workers, &graph, backward, 0, to, o));
  assert_near(o->hidden, o->under_way - o->exposed, 1e-15);
}

static void partly(void **state) {
  (void)state;
  /* The first exchange, ready at 300 and posted at 320, ends at 500; the second, 700 to 900, is waited for. */
  const sl_record r[] = {TASK(1, 0, 0, 0, 300), TASK(1, 1, 0, 300, 700), EXCHANGE(1, 2, 300, 320, 500),
                         EXCHANGE(1, 3, 700, 700, 900), TASK(1, 4, 0, 900, 1000)};
  sl_overlap o;
  look(r, 5, 1, 1000, &o);
  assert_near(o.under_way, 400e-9, 1e-12);
  assert_near(o.exposed, 200e-9, 1e-12);
  /* From 300 the backward pass went on for 400, as long as the exchanges took; 200 of it are hidden. */
  assert_near(o.hideable, 400e-9, 1e-12);
  assert_near(o.achieved, 200e-9, 1e-12);
}

static void more_than_can_be_hidden(void **state) {
  (void)state;
  /* Both together last from 100 to 900, overlapping; the backward pass ends at 400: 300 can be hidden, and are. */
  const sl_record r[] = {TASK(1, 0, 0, 0, 100), TASK(1, 1, 0, 100, 400), EXCHANGE(1, 2, 100, 100, 600),
                         EXCHANGE(1, 3, 400, 400, 900), TASK(1, 4, 0, 900, 1000)};
  sl_overlap o;
  look(r, 5, 1, 1000, &o);
  assert_near(o.under_way, 800e-9, 1e-12);
  assert_near(o.exposed, 500e-9, 1e-12);
  assert_near(o.hideable, 300e-9, 1e-12);
  assert_near(o.achieved, 300e-9, 1e-12);
}

static void two_workers_and_steps(void **state) {
  (void)state;
  /* One of two workers waits while exchanges are under way, 300 of each step: exposed time is the mean over workers. A
   * forward pass's exchange is under way too, but does not count as hidden. */
  sl_record r[12];
  for (int s = 0; s < 2; s++) {
    const int64_t at = 1000 * s;
    r[6 * s] = TASK(s + 1, 0, 0, at, at + 400);
    r[6 * s + 1] = TASK(s + 1, 1, 1, at, at + 700);
    r[6 * s + 2] = EXCHANGE(s + 1, 2, at + 400, at + 400, at + 600);
    r[6 * s + 3] = EXCHANGE(s + 1, 3, at + 700, at + 700, at + 700);
    r[6 * s + 4] = TASK(s + 1, 4, 0, at + 700, at + 1000);
    r[6 * s + 5] = EXCHANGE(s + 1, 5, at, at, at + 100);
  }
  sl_overlap o;
  look(r, 12, 2, 2000, &o);
  assert_near(o.under_way, 600e-9, 1e-12);
  assert_near(o.hideable, 400e-9, 1e-12);
  /* Worker 0 is idle from 400 to 700: the chain that ended last is node 1's, so the exchange caused none of it. */
  assert_near(o.exposed, 0, 1e-15);
  assert_near(o.achieved, 400e-9, 1e-12);
}

static void behind_the_last_task(void **state) {
  (void)state;
  /* Worker 1 has no task after the exchange: it waits for the next step, and the time counts for the first step. */
  const sl_record r[] = {TASK(1, 0, 1, 0, 300),    TASK(1, 1, 0, 0, 300),     EXCHANGE(1, 2, 300, 300, 700),
                         TASK(1, 4, 0, 700, 1000), TASK(2, 0, 1, 1000, 1300), TASK(2, 1, 0, 1000, 1300)};
  sl_overlap o;
  look(r, 6, 2, 1300, &o);
  assert_near(o.under_way, 400e-9, 1e-12);
  assert_near(o.exposed, 400e-9, 1e-12);
  assert_near(o.hideable, 0, 1e-15);
}

static void the_window_cuts(void **state) {
  (void)state;
  const sl_record r[] = {TASK(1, 0, 0, -100, 0), EXCHANGE(1, 2, -50, -50, 100), TASK(1, 4, 0, 100, 150)};
  sl_overlap o;
  look(r, 3, 1, 150, &o);
  assert_near(o.under_way, 100e-9, 1e-12);
  assert_near(o.exposed, 100e-9, 1e-12);
}

static void nothing(void **state) {
  (void)state;
  sl_overlap o;
  look(NULL, 0, 1, 100, &o);
  assert_near(o.under_way + o.exposed + o.hideable + o.achieved, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(partly),
                                     cmocka_unit_test(more_than_can_be_hidden),
                                     cmocka_unit_test(two_workers_and_steps),
                                     cmocka_unit_test(behind_the_last_task),
                                     cmocka_unit_test(the_window_cuts),
                                     cmocka_unit_test(nothing)};
  return cmocka_run_group_tests_name("runtime/overlap", tests, NULL, NULL);
}
