/* The ring of records: order, wraparound, clearing, many writers with a concurrent reader, and the cost of adding. */
#include "runtime/trace/recorder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/base/time.h"
#include "tests/support/scratch.h"

/* A record whose fields all follow from one number, so that a torn copy is detected. */
static sl_record whole(int64_t i, int worker) {
  return (sl_record){.step = i,
                     .submit = 2 * i,
                     .ready = 3 * i,
                     .start = 4 * i,
                     .end = 5 * i,
                     .node = (int32_t)(i % 1000003),
                     .worker = (int16_t)worker,
                     .kind = SL_RECORD_TASK};
}

static int is_whole(const sl_record *r) {
  const int64_t i = r->step;
  return r->submit == 2 * i && r->ready == 3 * i && r->start == 4 * i && r->end == 5 * i && r->node == i % 1000003;
}

static void order_and_wraparound(void **state) {
  (void)state;
  sl_recorder *recorder;
  sl_record *records;
  size_t n;
  assert_ok(sl_recorder_create(100, &recorder));
  assert_int_equal(sl_recorder_capacity(recorder), 128);
  assert_ok(sl_recorder_snapshot(recorder, &records, &n));
  assert_int_equal(n, 0);
  assert_null(records);
  for (int64_t i = 0; i < 300; i++) {
    const sl_record r = whole(i, 0);
    sl_recorder_add(recorder, &r);
    if (i != 99 && i != 299) continue;
    assert_ok(sl_recorder_snapshot(recorder, &records, &n));
    const size_t kept = i == 99 ? 100 : 128;
    assert_int_equal(n, kept);
    for (size_t k = 0; k < n; k++) {
      assert_int_equal(records[k].step, i + 1 - (int64_t)kept + (int64_t)k);
      assert_true(is_whole(&records[k]));
    }
    free(records);
  }
  assert_int_equal(sl_recorder_added(recorder), 300);
  assert_int_equal(sl_recorder_lost(recorder), 300 - 128);
  sl_recorder_clear(recorder);
  assert_int_equal(sl_recorder_lost(recorder), 0);
  assert_ok(sl_recorder_snapshot(recorder, &records, &n));
  assert_int_equal(n, 0);
  const sl_record r = whole(7, 3);
  sl_recorder_add(recorder, &r);
  assert_ok(sl_recorder_snapshot(recorder, &records, &n));
  assert_int_equal(n, 1);
  assert_int_equal(records[0].worker, 3);
  free(records);
  assert_int_equal(sl_recorder_lost(recorder), 0); /* cleared records do not count as lost */
  for (int i = 0; i < 130; i++) sl_recorder_add(recorder, &r);
  assert_int_equal(sl_recorder_lost(recorder), 3);
  sl_recorder_destroy(recorder);
  sl_recorder_destroy(NULL);
}

static void default_capacity(void **state) {
  (void)state;
  sl_recorder *recorder;
  assert_ok(sl_recorder_create(0, &recorder));
  assert_int_equal(sl_recorder_capacity(recorder), SL_RECORDER_CAPACITY);
  assert_in_range(sl_recorder_bytes(), 64 * SL_RECORDER_CAPACITY, 80 * SL_RECORDER_CAPACITY);
  sl_recorder_destroy(recorder);
  if (sizeof(size_t) > 4) assert_fails(SL_EINVAL, "at most", sl_recorder_create(((size_t)1 << 32) + 1, &recorder));
}

enum { WRITERS = 4, EACH = 200000 };
typedef struct writing {
  sl_recorder *recorder;
  int worker;
} writing;

static void *write_many(void *arg) {
  const writing *w = arg;
  for (int64_t i = 1; i <= EACH; i++) {
    const sl_record r = whole(i, w->worker);
    sl_recorder_add(w->recorder, &r);
  }
  return NULL;
}

static void *read_on(void *arg) { /* returns how many torn or misordered records it saw */
  writing *w = arg;
  intptr_t bad = 0;
  while (sl_recorder_added(w->recorder) < (uint64_t)WRITERS * EACH) {
    sl_record *records;
    size_t n;
    int64_t last[WRITERS] = {0};
    if (sl_recorder_snapshot(w->recorder, &records, &n) != SL_OK) return (void *)(intptr_t)-1;
    for (size_t i = 0; i < n; i++) {
      const sl_record *r = &records[i];
      if (!is_whole(r) || r->worker < 0 || r->worker >= WRITERS || r->step <= last[r->worker]) {
        bad++;
        continue;
      }
      last[r->worker] = r->step;
    }
    free(records);
  }
  return (void *)bad;
}

static void many_writers(void **state) {
  (void)state;
  sl_recorder *recorder;
  assert_ok(sl_recorder_create(1024, &recorder)); /* small, so that writers lap one another */
  pthread_t writer[WRITERS], reader;
  writing w[WRITERS], r = {recorder, 0};
  void *bad;
  assert_int_equal(pthread_create(&reader, NULL, read_on, &r), 0);
  for (int i = 0; i < WRITERS; i++) {
    w[i] = (writing){recorder, i};
    assert_int_equal(pthread_create(&writer[i], NULL, write_many, &w[i]), 0);
  }
  for (int i = 0; i < WRITERS; i++) pthread_join(writer[i], NULL);
  pthread_join(reader, &bad);
  assert_int_equal((intptr_t)bad, 0);
  sl_record *records;
  size_t n;
  assert_ok(sl_recorder_snapshot(recorder, &records, &n));
  assert_true(n > 1024 - 64 && n <= 1024); /* a writer that was lapped drops its record */
  for (size_t i = 0; i < n; i++) assert_true(is_whole(&records[i]));
  free(records);
  sl_recorder_destroy(recorder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_and_wraparound), cmocka_unit_test(default_capacity),
                                     cmocka_unit_test(many_writers)};
  return cmocka_run_group_tests_name("runtime/recorder", tests, NULL, NULL);
}
