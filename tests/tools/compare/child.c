/* tools/compare/child.c: the JSON of a process, the reason of one that fails, and the end of one that takes too long.
 */
#include "tools/compare/child.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

typedef struct ended {
  json_t *out;
  char *reason;
  int code;
} ended;

/* Runs a line of a shell. */
static ended run(const char *line, double most) {
  ended e = {0};
  char *const argv[] = {(char *)"sh", (char *)"-c", (char *)line, NULL};
  assert_ok(sl__child_json(&(sl__child){.program = "sh", .argv = argv, .most = most}, &e.out, &e.reason, &e.code));
  return e;
}

static void expect_reason(const char *line, double most, const char *reason) {
  const ended e = run(line, most);
  assert_null(e.out);
  assert_string_equal(e.reason, reason);
  free(e.reason);
}

static void json_is_read(void **state) {
  (void)state;
  const ended e = run("echo '{\"step_s\": 0.5}'", INFINITY);
  assert_null(e.reason);
  assert_int_equal(e.code, 0);
  assert_near(json_real_value(json_object_get(e.out, "step_s")), 0.5, 1e-12);
  json_decref(e.out);
}

/* The last error that starling wrote; warnings, and what mpiexec adds, do not count. */
static void a_failure_has_a_reason(void **state) {
  (void)state;
  expect_reason("echo 'starling: the error' >&2; echo 'starling: warning: late' >&2; echo mpiexec >&2; exit 3",
                INFINITY, "the error");
  expect_reason("echo 'no such thing' >&2; exit 1", INFINITY, "no such thing");
  expect_reason("exit 1", INFINITY, "it ended without an error message");
  expect_reason("echo no json", INFINITY, "its output is not JSON");
  expect_reason("kill -9 $$", INFINITY, "signal 9 (Killed)");
}

/* A process that takes too long is asked to end first: it removes its file. */
static void a_late_process_cleans_up(void **state) {
  char line[512];
  const char *path = scratch_path(*state, "kept");
  scratch_write(path, "", 0);
  snprintf(line, sizeof line, "trap 'rm -f %s; exit 0' TERM; while :; do sleep 0.05; done", path);
  expect_reason(line, 1, "it had not ended after 1 s");
  assert_int_equal(scratch_entries(*state), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_is_read),
      cmocka_unit_test(a_failure_has_a_reason),
      cmocka_unit_test_setup_teardown(a_late_process_cleans_up, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
