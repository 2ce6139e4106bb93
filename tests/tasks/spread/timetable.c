/* tasks/spread/timetable.c: each stage has one pass at a time, each pass follows what it needs, and the step is as long
 * as the formulas of the orders say. */
#include "tasks/spread/timetable.h"

#include "tests/tasks/toy.h"

enum { MOST_STAGES = 5, MOST_PARTS = 12 };

static void the_timetable_goes_forward(void **state) {
  (void)state;
  for (int order = 0; order < SL_PIPE_ORDERS; order++)
    for (int stages = 1; stages <= MOST_STAGES; stages++)
      for (int parts = 1; parts <= MOST_PARTS; parts++)
        for (int s = 0; s < stages; s++) {
          const int kinds = sl_pipe_pass_kinds((sl_pipe_order)order);
          int turn[SL__PASS_KINDS * MOST_PARTS], taken[SL__PASS_KINDS * MOST_PARTS] = {0};
          const int *forward = turn, *backward = turn + parts, *weights = turn + 2 * parts;
          sl__timetable *t;
          assert_ok(sl__timetable_create((sl_pipe_order)order, stages, 1, parts, &t));
          assert_int_equal(sl__timetable_passes(t), kinds * parts);
          sl__timetable_turns(t, s, turn);
          for (int k = 0; k < kinds * parts; k++) taken[turn[k]]++;
          for (int k = 0; k < kinds * parts; k++) assert_int_equal(taken[k], 1);
          for (int m = 0; m < parts; m++) {
            assert_true(forward[m] < backward[m]);
            assert_true(kinds == 3 ? backward[m] < weights[m] : backward[m] == weights[m]);
            if (m > 0) assert_true(forward[m] > forward[m - 1] && backward[m] > backward[m - 1]);
            /* Values of so many micro-batches are held when this forward pass ends. */
            int held = 0;
            for (int k = 0; k <= m; k++) held += weights[k] > forward[m];
            const int most[SL_PIPE_ORDERS] = {stages - s, parts, stages, 2 * (stages - s) - 1};
            assert_true(held <= most[order]);
            if (order != SL_PIPE_ZERO_BUBBLE && m + 1 == most[order]) assert_int_equal(held, m + 1);
            if (order == SL_PIPE_GPIPE) assert_true(forward[m] < parts);
            const int at = sl__timetable_slot(t, SL__PASS_FORWARD, s, m),
                      back = sl__timetable_slot(t, SL__PASS_BACKWARD, s, m);
            assert_true(at < back && back <= sl__timetable_slot(t, SL__PASS_WEIGHTS, s, m));
            if (s + 1 == stages) continue;
            const int next = sl__timetable_slot(t, SL__PASS_FORWARD, s + 1, m),
                      before = sl__timetable_slot(t, SL__PASS_BACKWARD, s + 1, m);
            assert_true(next > at && before < back);
            if (order == SL_PIPE_1F1B || order == SL_PIPE_GPIPE) assert_true(next == at + 1 && before == back - 1);
            /* Once passes alternate, an input is there a slot before the forward pass that reads it. */
            if (order == SL_PIPE_EAGER_1F1B && forward[m] > 2 * (stages - s) - 1) assert_true(next > at + 1);
          }
          sl__timetable_destroy(t);
        }
}

/* The slots of the timetable: those of the passes, and the bubble. */
static int slots_of(const sl__timetable *t) {
  int last = 0;
  for (int run = 0; run < t->stages * t->chunks; run++)
    for (int m = 0; m < t->parts; m++) {
      const int slot = sl__timetable_slot(t, SL__PASS_WEIGHTS, run, m);
      if (slot > last) last = slot;
    }
  return last + 1;
}

/* Several runs on each stage: a pass follows what it needs, a stage has one pass at a time, and the step is as long as
 * the formula says: the bubble is P - 1 forward and backward passes of one run; with passes for the gradients of
 * weights it is P - 1 passes. */
static void runs_are_interleaved(void **state) {
  (void)state;
  for (int order = 0; order < SL_PIPE_ORDERS; order++)
    for (int stages = 2; stages <= MOST_STAGES; stages++)
      for (int chunks = 1; chunks <= 3; chunks++)
        for (int parts = stages; parts <= 3 * stages; parts += stages) {
          const int kinds = sl_pipe_pass_kinds((sl_pipe_order)order), n = kinds * chunks * parts;
          sl__timetable *t;
          assert_ok(sl__timetable_create((sl_pipe_order)order, stages, chunks, parts, &t));
          for (int s = 0; s < stages; s++) {
            int turn[3 * 3 * 3 * MOST_STAGES], taken[3 * 3 * 3 * MOST_STAGES] = {0};
            sl__timetable_turns(t, s, turn);
            for (int i = 0; i < n; i++) taken[turn[i]]++;
            for (int i = 0; i < n; i++) assert_int_equal(taken[i], 1);
          }
          for (int run = 0; run < stages * chunks; run++)
            for (int m = 0; m < parts; m++) {
              const int f = sl__timetable_slot(t, SL__PASS_FORWARD, run, m),
                        b = sl__timetable_slot(t, SL__PASS_BACKWARD, run, m),
                        w = sl__timetable_slot(t, SL__PASS_WEIGHTS, run, m);
              assert_true(f >= 0 && f < b && (kinds == 3 ? b < w : b == w));
              if (run > 0) assert_true(f > sl__timetable_slot(t, SL__PASS_FORWARD, run - 1, m));
              if (run > 0) assert_true(b < sl__timetable_slot(t, SL__PASS_BACKWARD, run - 1, m));
              assert_int_equal(sl__timetable_turn_after(t, run % stages, f - 1),
                               sl__timetable_turn(t, run % stages, f));
            }
          assert_int_equal(slots_of(t), n + (kinds == 3 ? 1 : 2) * (stages - 1));
          sl__timetable_destroy(t);
        }
  sl__timetable *t;
  assert_fails(SL_EINVAL, "2 chunks on each of 3 stages, which do not divide 4 micro-batches",
               sl__timetable_create(SL_PIPE_1F1B, 3, 2, 4, &t));
  assert_null(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_timetable_goes_forward),
      cmocka_unit_test(runs_are_interleaved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
