/* The trace file: JSON that parses back, with any text in its names; tracks named; exchanges apart; nothing left behind
 * on failure. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/recorder.h"
#include "tests/scratch.h"

static void label(void *arg, const sl_record *r, sl_trace_label *l) {
  (void)arg;
  snprintf(l->name, sizeof l->name, "gemm \"fc%d\"\\\n\tl\xC3\xA4yer \xFF\xC0\x80", r->node);
  snprintf(l->category, sizeof l->category, "linear");
  snprintf(l->arg[0].key, sizeof l->arg[0].key, "flops");
  snprintf(l->arg[0].value, sizeof l->arg[0].value, "1.5e9");
  l->arg[0].number = 1;
  snprintf(l->arg[1].key, sizeof l->arg[1].key, "shape");
  snprintf(l->arg[1].value, sizeof l->arg[1].value, "[64, \"10\"]");
  l->nargs = 2;
}

static void worker(void *arg, int kind, int number, char *name, size_t n) {
  (void)arg;
  snprintf(name, n, "%d: worker <%d>", kind, number);
}

static const char *text_of(json_t *event, const char *key) { return json_string_value(json_object_get(event, key)); }
static double number_of(json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

static void parses_back(void **state) {
  const char *path = scratch_path(*state, "trace.json");
  const int64_t hour = 3600000000000;
  const sl_record records[] = {
      {9, hour, hour + 500, hour + 1500, hour + 2001501, 3, 1, SL_RECORD_TASK},
      {9, hour, hour, hour + 1000, hour + 9000, 4, 0, SL_RECORD_TASK},
      {9, hour, hour, hour + 2000, hour + 5000, 7, 0, SL_RECORD_EXCHANGE},
      {9, hour, hour, hour + 3000, hour + 7000, 8, 0, SL_RECORD_EXCHANGE},
      {9, hour, hour, hour + 4000, hour + 6000, -1, 0, SL_RECORD_INPUT},
  };
  const sl_trace_names names = {NULL, label, worker};
  assert_ok(sl_trace_write(path, records, 5, 2, &names));
  json_error_t error;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root) fail_msg("%s:%d: %s", path, error.line, error.text);
  json_t *events = json_object_get(root, "traceEvents"), *event;
  size_t i;
  int complete = 0, begun = 0, ended = 0, threads = 0;
  json_array_foreach(events, i, event) {
    const char *phase = text_of(event, "ph");
    assert_int_equal(number_of(event, "pid"), 2);
    if (*phase == 'M') {
      threads += strcmp(text_of(event, "name"), "thread_name") == 0;
      continue;
    }
    assert_string_equal(text_of(event, "cat"), "linear");
    complete += *phase == 'X';
    begun += *phase == 'b';
    ended += *phase == 'e';
    if (strncmp(text_of(event, "name"), "gemm \"fc3\"\\\n\tl\xC3\xA4yer ", 18) != 0) continue;
    assert_true(number_of(event, "ts") > 0.4999 &&
                number_of(event, "ts") < 0.5001); /* microseconds from the first start */
    assert_true(number_of(event, "dur") > 2000.0009 && number_of(event, "dur") < 2000.0011);
    assert_int_equal(number_of(event, "tid"), 1);
    json_t *args = json_object_get(event, "args");
    assert_int_equal(number_of(args, "step"), 9);
    assert_true(number_of(args, "flops") == 1.5e9);
    assert_true(number_of(args, "queued_us") == 1.0 && number_of(args, "blocked_us") == 0.5);
    assert_string_equal(text_of(args, "shape"), "[64, \"10\"]");
  }
  assert_int_equal(complete, 3);
  assert_int_equal(begun, 2);
  assert_int_equal(ended, 2);
  assert_int_equal(threads, 4);
  json_decref(root);
}

static void numbers_for_names(void **state) {
  const char *path = scratch_path(*state, "plain.json");
  sl_recorder *recorder;
  assert_ok(sl_recorder_create(4096, &recorder));
  assert_ok(sl_recorder_export(recorder, path, 0, NULL)); /* an empty trace is one, too */
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  json_decref(root);
  for (int64_t i = 0; i < 5000; i++) {
    const sl_record r = {i, i, i, i, i + 1, (int32_t)i, (int16_t)(i % 3), SL_RECORD_TASK};
    sl_recorder_add(recorder, &r);
  }
  assert_ok(sl_recorder_export(recorder, path, 0, NULL));
  root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 1 + 2 * 3 + 4096);
  json_decref(root);
  sl_recorder_destroy(recorder);
}

static void no_place(void **state) {
  const sl_record r = {0};
  const char *path = scratch_path(*state, "missing/trace.json");
  const int before = scratch_entries(*state);
  assert_fails(SL_EIO, path, sl_trace_write(path, &r, 1, 0, NULL));
  assert_int_equal(scratch_entries(*state), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parses_back), cmocka_unit_test(numbers_for_names),
                                     cmocka_unit_test(no_place)};
  return cmocka_run_group_tests_name("runtime/trace", tests, scratch_setup, scratch_teardown);
}
