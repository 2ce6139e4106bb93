/* runtime/base/activity.c: any thread can read the threads' activities, and never sees a torn one. */
#include "runtime/base/activity.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static void stacks(void **state) {
  (void)state;
  char text[64];
  sl_activities a = sl_activity_read(text, sizeof text);
  assert_string_equal(text, "");
  assert_int_equal(a.waits + a.works + a.works_long, 0);
  sl_activity_begin(SL_WORKS, "a checkpoint");
  a = sl_activity_read(text, sizeof text);
  assert_string_equal(text, "a checkpoint");
  assert_int_equal(a.works, 1);
  const unsigned long moves = a.moves;
  sl_activity_begin(SL_WAITS, "MPI_Recv");
  a = sl_activity_read(text, sizeof text);
  assert_string_equal(text, "a checkpoint: MPI_Recv");
  assert_int_equal(a.waits, 1);
  assert_int_equal(a.works, 0); /* the innermost activity counts */
  assert_true(a.moves > moves);
  assert_int_equal(sl_activity_end_with(7), 7);
  sl_activity_begin(SL_WORKS_LONG, "the start");
  assert_int_equal(sl_activity_read(text, sizeof text).works_long, 1);
  sl_activity_begin(SL_WAITS, "MPI_Barrier");
  a = sl_activity_read(text, sizeof text);
  assert_int_equal(a.works_long, 0);
  assert_int_equal(a.waits, 1);
  assert_int_equal(a.waits_long, 1);
  sl_activity_end();
  sl_activity_end();
  sl_activity_begin(SL_WAITS, "MPI_Barrier");
  assert_int_equal(sl_activity_read(text, sizeof text).waits_long, 0);
  sl_activity_end();
  sl_activity_end();
  sl_activity_end(); /* one end too many is harmless */
  assert_int_equal(sl_activity_read(text, sizeof text).works, 0);
  assert_string_equal(text, "");
  sl_activity_begin(SL_WORKS, "a name that is longer than the text that it goes to");
  char few[8];
  sl_activity_read(few, sizeof few);
  assert_string_equal(few, "a name ");
  sl_activity_end();
}

static void deep(void **state) {
  (void)state;
  char text[256];
  for (int i = 0; i < 20; i++) sl_activity_begin(SL_WORKS, "x");
  assert_int_equal(sl_activity_read(text, sizeof text).works, 1);
  for (int i = 0; i < 20; i++) sl_activity_end();
  assert_int_equal(sl_activity_read(text, sizeof text).works, 0);
}

/* Calls on files: the longest of all threads, and for how long the first thread has waited. */
static void calls(void **state) {
  (void)state;
  char text[300], path[401];
  sl_activity_call call = sl_activity_longest_call();
  assert_true(call.seconds <= 0 && call.waited <= 0);
  const unsigned long before = sl_activity_read(text, sizeof text).moves;
  sl_activity_begin_call("write", "a/b", 0);
  usleep(20000);
  call = sl_activity_longest_call();
  assert_string_equal(call.text, "write of a/b");
  assert_true(call.seconds >= 0.02 && call.waited >= 0.02);
  const double began = call.began;
  assert_true(began > 0 && sl_activity_longest_call().began == began);
  sl_activities a = sl_activity_read(text, sizeof text);
  assert_string_equal(text, "write of a/b");
  assert_int_equal(a.works, 1);
  assert_int_equal(a.moves, before);
  errno = 7;
  assert_int_equal(sl_activity_end_call(-1), -1);
  assert_int_equal(errno, 7);
  assert_int_equal(sl_activity_read(text, sizeof text).moves, before); /* a call that fails moves nothing */
  assert_int_equal(SL_CALL_OF_FILE("fsync", "x", 3), 3);
  assert_int_equal(sl_activity_read(text, sizeof text).moves, before + 1);
  assert_null(SL_POINTER_OF_FILE("opendir", "x", NULL));
  assert_int_equal(sl_activity_read(text, sizeof text).moves, before + 1);
  assert_true(sl_activity_longest_call().seconds <= 0);
  sl_activity_begin_call("open", "aside", 1);
  assert_int_equal(sl_activity_read(text, sizeof text).works, 0);
  assert_string_equal(text, "");
  assert_string_equal(sl_activity_longest_call().text, "open of aside");
  assert_true(sl_activity_longest_call().began > began);
  sl_activity_end_call(0);
  assert_int_equal(sl_activity_read(text, sizeof text).moves, before + 1);
  memset(path, 'x', sizeof path - 1);
  memcpy(path + sizeof path - 5, "/end", 5);
  sl_activity_begin_call("open", path, 0); /* the end of a long path is what tells files apart */
  call = sl_activity_longest_call();
  assert_true(strlen(call.text) < 220 && strcmp(call.text + strlen(call.text) - 5, "x/end") == 0);
  sl_activity_end_call(0);
  sl_activity_begin(SL_WAITS, "the end of a checkpoint");
  usleep(20000);
  call = sl_activity_longest_call();
  assert_true(call.seconds <= 0 && call.waited >= 0.02);
  sl_activity_end();
  sl_activity_begin(SL_WORKS, "a step");
  assert_true(sl_activity_longest_call().waited <= 0);
  sl_activity_end();
}

static void *brief(void *arg) {
  sl_activity_begin(SL_WAITS, "a moment");
  *(int *)arg = sl_activity_read(NULL, 0).waits;
  return NULL; /* what has not ended does so with its thread */
}

/* Threads that come and go, such as loaders, leave room for others. */
static void many_threads(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    int waits = 0;
    assert_int_equal(pthread_create(&thread, NULL, brief, &waits), 0);
    pthread_join(thread, NULL);
    assert_int_equal(waits, 1);
    assert_int_equal(sl_activity_read(NULL, 0).waits, 0);
  }
}

static atomic_int ready, done;
static void *other(void *arg) {
  (void)arg;
  sl_activity_begin(SL_WAITS, "messages");
  atomic_store(&ready, 1);
  while (!atomic_load(&done)) sl_activity_move();
  sl_activity_end();
  for (int i = 0; i < 200000; i++) { /* no pair is seen half written */
    sl_activity_begin(SL_WORKS, "outer");
    sl_activity_begin(SL_WAITS, "inner");
    sl_activity_end();
    sl_activity_end();
  }
  atomic_store(&ready, 2);
  return NULL;
}

static void threads(void **state) {
  (void)state;
  pthread_t thread;
  char text[64];
  assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
  while (atomic_load(&ready) == 0) continue;
  sl_activity_begin(SL_WORKS, "a step");
  const sl_activities a = sl_activity_read(text, sizeof text);
  assert_string_equal(text, "a step; messages"); /* in the order of their first activities */
  assert_int_equal(a.waits, 1);
  assert_int_equal(a.works, 1);
  sl_activity_end();
  atomic_store(&done, 1);
  while (atomic_load(&ready) == 1) {
    sl_activity_read(text, sizeof text);
    if (*text && strcmp(text, "outer") != 0 && strcmp(text, "outer: inner") != 0 && strcmp(text, "messages") != 0)
      fail_msg("\"%s\"", text);
  }
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stacks), cmocka_unit_test(deep), cmocka_unit_test(calls),
                                     cmocka_unit_test(many_threads), cmocka_unit_test(threads)};
  return cmocka_run_group_tests_name("runtime/base/activity", tests, NULL, NULL);
}
