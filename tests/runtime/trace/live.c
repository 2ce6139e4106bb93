/* Buffers in use over a step, worked by hand. */
#include "runtime/trace/live.h"

#include <stdlib.h>

#include "tests/support/scratch.h"

/* Nodes 0 (10 to 20), 1 (20 to 35), 2 (30 to 50). Buffer 0 (100 bytes): nodes 0 and 1; 1 (40): 1 and 2; 2 (60): node 2,
 * in the slot of buffer 0; 3: of a node that was not recorded in this step. */
static sl_timeline *example(void) {
  static const int64_t start[] = {10, 20, 30}, end[] = {20, 35, 50};
  sl_timeline *t;
  assert_ok(sl_timeline_create(1, 4, 0, &t));
  assert_ok(sl_timeline_reserve_buffers(t, 4, 6));
  t->buffer[0] = (sl_timeline_buffer){100, 0}, t->buffer[1] = (sl_timeline_buffer){40, 1};
  t->buffer[2] = (sl_timeline_buffer){60, 0}, t->buffer[3] = (sl_timeline_buffer){7, 2};
  const sl_timeline_use use[] = {{0, 0}, {1, 0}, {1, 1}, {2, 1}, {2, 2}, {3, 3}};
  memcpy(t->use, use, sizeof use);
  t->record = calloc(4, sizeof *t->record);
  for (int i = 0; i < 3; i++)
    t->record[i] = (sl_record){.step = 5, .node = i, .kind = SL_RECORD_TASK, .start = start[i], .end = end[i]};
  t->record[3] = (sl_record){.step = 4, .node = 3, .kind = SL_RECORD_TASK, .start = 1, .end = 2};
  t->n_records = 4;
  return t;
}

static void a_step(void **state) {
  (void)state;
  static const sl_live wanted[] = {{10, 100}, {20, 140}, {30, 200}, {35, 100}, {50, 0}};
  sl_timeline *t = example();
  sl_live *live;
  int64_t slots;
  size_t n;
  assert_ok(sl_live_find(t, 5, &live, &n));
  assert_int_equal(n, sizeof wanted / sizeof *wanted);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(live[i].time, wanted[i].time);
    assert_int_equal(live[i].bytes, wanted[i].bytes);
  }
  free(live);
  assert_ok(sl_live_slots(t, &slots));
  assert_int_equal(slots, 100 + 40 + 7);
  sl_timeline_destroy(t);
}

static void nothing(void **state) {
  (void)state;
  sl_timeline *t = example();
  sl_live *live;
  size_t n;
  assert_ok(sl_live_find(t, 9, &live, &n));
  assert_true(n == 0 && live == NULL);
  assert_ok(sl_timeline_reserve_buffers(t, 0, 0));
  assert_ok(sl_live_find(t, 5, &live, &n));
  assert_true(n == 0 && live == NULL);
  sl_timeline_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_step), cmocka_unit_test(nothing)};
  return cmocka_run_group_tests_name("runtime/live", tests, NULL, NULL);
}
