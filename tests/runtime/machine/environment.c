/* runtime/machine/environment.c: the record describes machine and command correctly and leaves out foreign variables.
 */
#include "runtime/machine/environment.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static void says_what_is_so(void **state) {
  (void)state;
  char host[256];
  const char *const argv[] = {"starling", "train", "mlp", "--out=\xff"};
  setenv("STARPU_SCHED", "dmdas", 1);
  setenv("SLURM_JOB_ID", "77", 1);
  setenv("SECRET_TOKEN", "x", 1);
  setenv("SLURM_JWT", "x", 1);
  json_t *e = sl_environment(4, argv, "abc123");
  assert_non_null(e);
  assert_string_equal(json_string_value(json_array_get(json_object_get(e, "command"), 1)), "train");
  assert_true(json_is_null(json_array_get(json_object_get(e, "command"), 3))); /* not UTF-8 */
  assert_string_equal(json_string_value(json_object_get(e, "commit")), "abc123");
  assert_int_equal(gethostname(host, sizeof host), 0);
  assert_string_equal(json_string_value(json_object_get(e, "host")), host);
  assert_int_equal(strlen(json_string_value(json_object_get(e, "date"))), 20);
  const json_t *cpu = json_object_get(e, "cpu"), *variables = json_object_get(e, "variables");
  assert_in_range(json_integer_value(json_object_get(cpu, "usable")), 1, sysconf(_SC_NPROCESSORS_CONF));
  assert_true(json_integer_value(json_object_get(e, "memory_bytes")) > 1 << 20);
  assert_string_equal(json_string_value(json_object_get(variables, "STARPU_SCHED")), "dmdas");
  assert_string_equal(json_string_value(json_object_get(variables, "SLURM_JOB_ID")), "77");
  assert_null(json_object_get(variables, "SECRET_TOKEN"));
  assert_null(json_object_get(variables, "SLURM_JWT"));
  json_decref(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_so)};
  return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
