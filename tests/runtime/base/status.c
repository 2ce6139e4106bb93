/* runtime/base/status.c: error texts consist of several parts, may quote the previous text, and name the setting at
 * fault. */
#include "runtime/base/status.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static void contexts_stand_before(void **state) {
  (void)state;
  assert_int_equal(sl_fail(SL_EIO, "disk %d", 3), SL_EIO);
  assert_int_equal(sl_context(SL_EFORMAT, "file %s", "a"), SL_EFORMAT);
  assert_string_equal(sl_error(), "file a: disk 3");
  sl_fail(SL_EIO, "%s, twice: %s", sl_error(), sl_error());
  assert_string_equal(sl_error(), "file a: disk 3, twice: file a: disk 3");
}

static void no_memory_says_for_what(void **state) {
  (void)state;
  assert_int_equal(sl_no_memory("for %d rows of %s", 7, "x"), SL_ENOMEM);
  assert_string_equal(sl_error(), "no memory for 7 rows of x");
}

static void a_setting_belongs_to_its_failure(void **state) {
  (void)state;
  assert_int_equal(sl_blame(sl_fail(SL_EINVAL, "first"), "path"), SL_EINVAL);
  assert_string_equal(sl_error_setting(), "path");
  sl_context(SL_EINVAL, "around it");
  assert_string_equal(sl_error_setting(), "path");
  sl_fail(SL_EINVAL, "second");
  assert_string_equal(sl_error_setting(), "");
}

static void a_failure_can_be_kept(void **state) {
  (void)state;
  const sl_failure none = sl_failure_keep(SL_OK);
  const sl_failure first = sl_failure_keep(sl_blame(sl_fail(SL_EWRITE, "first"), "path"));
  sl_fail(SL_EIO, "second");
  assert_int_equal(sl_failure_again(&none), SL_OK);
  assert_string_equal(sl_error(), "second");
  assert_int_equal(sl_failure_first(&none, SL_EIO), SL_EIO);
  assert_string_equal(sl_error(), "second");
  assert_int_equal(sl_failure_first(&first, SL_EIO), SL_EWRITE);
  assert_string_equal(sl_error(), "first");
  assert_string_equal(sl_error_setting(), "path");
}

static void long_texts_are_cut(void **state) {
  (void)state;
  char *text = malloc(100001);
  assert_non_null(text);
  memset(text, 'a', 100000), text[100000] = 0;
  sl_fail(SL_EIO, "%s", text);
  const size_t n = strlen(sl_error());
  assert_in_range(n, 1000, 99999);
  sl_context(SL_EIO, "%s", text);
  assert_int_equal(strspn(sl_error(), "a: "), strlen(sl_error()));
  assert_in_range(strlen(sl_error()), 1000, 99999);
  free(text);
}

static void codes_have_names(void **state) {
  (void)state;
  assert_string_equal(sl_status_name(SL_ENOMEM), "SL_ENOMEM");
  assert_string_equal(sl_status_text(SL_ENOMEM), "out of memory");
  assert_int_equal(sl_status_survives(SL_ENOMEM), 1);
  assert_int_equal(sl_status_survives(SL_EMPI), 0);
  assert_string_equal(sl_status_name(SL_STATUS_COUNT), "unknown status");
  assert_string_equal(sl_status_text((sl_status)-1), "unknown status");
}

static void *other_thread(void *arg) {
  (void)arg;
  sl_fail(SL_EIO, "theirs");
  return NULL;
}
static void each_thread_has_its_own(void **state) {
  (void)state;
  pthread_t thread;
  sl_fail(SL_EIO, "mine");
  assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(sl_error(), "mine");
}

static sl_status tries(sl_status inner, int *after) {
  SL_TRY(inner);
  *after = 1;
  return SL_OK;
}
static sl_status tries_out(sl_status inner, int *after) {
  sl_status status = SL_OK;
  SL_TRY_OUT(inner);
  *after = 1;
out:
  *after += 10;
  return status;
}
static void tries_pass_failures_up(void **state) {
  (void)state;
  int after = 0;
  assert_int_equal(tries(SL_EIO, &after), SL_EIO);
  assert_int_equal(after, 0);
  assert_int_equal(tries_out(SL_EIO, &after), SL_EIO);
  assert_int_equal(after, 10);
  after = 0;
  assert_int_equal(tries(SL_OK, &after), SL_OK);
  assert_int_equal(tries_out(SL_OK, &after), SL_OK);
  assert_int_equal(after, 11);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_thread_has_its_own),
      cmocka_unit_test(tries_pass_failures_up),
      cmocka_unit_test(contexts_stand_before),
      cmocka_unit_test(no_memory_says_for_what),
      cmocka_unit_test(a_setting_belongs_to_its_failure),
      cmocka_unit_test(a_failure_can_be_kept),
      cmocka_unit_test(long_texts_are_cut),
      cmocka_unit_test(codes_have_names),
  };
  return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
