/* runtime/base/json.c: values survive a round trip; errors name the place. */
#include "runtime/base/json.h"

#include "tests/support/scratch.h"

static void comes_back_in_order(void **state) {
  const char *path = scratch_path(*state, "a.json");
  json_t *value = json_pack("{s:i, s:[f, n, b], s:s}", "z", 1, "a", 0.1, 1, "m", "gr\xc3\xb6\xc3\x9f\x65"), *again;
  assert_non_null(value);
  char *text = sl_json_text(value, JSON_COMPACT), *same = json_dumps(value, JSON_COMPACT);
  assert_string_equal(text, same);
  assert_null(sl_json_text(NULL, JSON_COMPACT));
  free(text), free(same);
  assert_ok(sl_json_write(path, value));
  assert_ok(sl_json_read(path, &again));
  assert_true(json_equal(value, again));
  assert_string_equal(json_object_iter_key(json_object_iter(again)), "z");
  json_decref(value), json_decref(again);
}

static void names_the_place(void **state) {
  const char *path = scratch_path(*state, "a.json");
  json_t *value;
  scratch_write(path, "{\n \"a\": 1,\n \"a\": 2}", 20);
  assert_fails(SL_EFORMAT, "a.json, line 3, column 4: duplicate object key", sl_json_read(path, &value));
  scratch_write(path, "", 0);
  assert_fails(SL_EFORMAT, "a.json, line 1", sl_json_read(path, &value));
  assert_null(value);
  assert_fails(SL_ENOTFOUND, "none", sl_json_read(scratch_path(*state, "none"), &value));
  assert_fails(SL_EINVAL, "could not be made JSON", sl_json_write(path, NULL));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {TEST(comes_back_in_order), TEST(names_the_place)};
  return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
