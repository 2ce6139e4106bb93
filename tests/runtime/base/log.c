/* runtime/base/log.c: the sink gets what is at its level or above, whole; without a sink nothing happens. */
#include "runtime/base/log.h"

#include "tests/support/scratch.h"

typedef struct seen {
  int messages;
  sl_log_level level;
  char text[4096];
} seen;

static void sink(sl_log_level level, const char *message, void *arg) {
  seen *s = arg;
  s->messages++;
  s->level = level;
  strncpy(s->text, message, sizeof s->text - 1);
}

static void levels(void **state) {
  (void)state;
  seen s = {0};
  sl_log(SL_LOG_ERROR, "nobody hears %d", 1);
  sl_log_set(sink, &s, SL_LOG_WARNING);
  sl_log(SL_LOG_INFO, "too low");
  assert_int_equal(s.messages, 0);
  sl_log(SL_LOG_WARNING, "file %s, byte %d", "a", 7);
  assert_int_equal(s.messages, 1);
  assert_int_equal(s.level, SL_LOG_WARNING);
  assert_string_equal(s.text, "file a, byte 7");
  sl_log(SL_LOG_ERROR, "worse");
  assert_int_equal(s.level, SL_LOG_ERROR);
  sl_log_set(NULL, NULL, SL_LOG_DEBUG);
  sl_log(SL_LOG_ERROR, "nobody hears");
  assert_int_equal(s.messages, 2);
}

static void long_messages(void **state) {
  (void)state;
  seen s = {0};
  sl_log_set(sink, &s, SL_LOG_DEBUG);
  sl_log(SL_LOG_DEBUG, "%5000d", 1);
  assert_int_equal(strlen(s.text), 2047);
  sl_log_set(NULL, NULL, SL_LOG_INFO);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(levels), cmocka_unit_test(long_messages)};
  return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
