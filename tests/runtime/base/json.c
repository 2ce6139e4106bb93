/* runtime/base/json.c: values survive a round trip; errors name the place. */
#include "runtime/base/json.h"

#include "tests/support/failing.h"
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

/* jansson alone leaves out keys without an error, or ends the process. An allocation that fails changes nothing but the
 * last one, of the text that the caller gets; if all fail, a large value is an error, and the next one whole. */
static void withstands_lack_of_memory(void **state) {
  (void)state;
  const char *const wanted = "{\"list\": [1, 2.5, \"three\"], \"name\": \"a \\u0000 b\"}";
  if (!failing_possible()) skip();
  long n = 1, failed = 0, all;
  do {
    char *text = NULL;
    json_t *value = NULL;
    failing_at(n);
    sl_status status = sl_json_parse(wanted, strlen(wanted), JSON_ALLOW_NUL, &value, NULL);
    if (status == SL_OK) {
      json_object_set_new(value, "more", json_pack("[s, i]", "a longer text, so that buffers grow", 1));
      text = sl_json_text(value, JSON_COMPACT);
    }
    all = failing_end();
    assert_ok(status);
    if (text)
      assert_string_equal(text,
                          "{\"list\":[1,2.5,\"three\"],\"name\":\"a \\u0000 b\",\"more\":[\"a longer text, so "
                          "that buffers grow\",1]}");
    else
      failed++;
    json_decref(value), free(text);
  } while (n++ < all);
  assert_true(failed <= 1);
  enum { LARGE = 400000 };
  char *list = malloc(LARGE + 1);
  assert_non_null(list);
  memset(list, '1', LARGE + 1);
  for (int i = 0; i < LARGE; i += 2) list[i] = i ? ',' : '[';
  list[LARGE] = ']';
  for (long from = 1; from < 100000; from = 10 * from) {
    json_t *value;
    failing_from(from);
    assert_int_equal(sl_json_parse(list, LARGE + 1, 0, &value, NULL), SL_ENOMEM);
    failing_end();
    assert_null(value);
    assert_ok(sl_json_parse(list, LARGE + 1, 0, &value, NULL));
    assert_int_equal(json_array_size(value), LARGE / 2);
    failing_from(1);
    assert_null(sl_json_text(value, JSON_COMPACT));
    failing_end();
    char *text = sl_json_text(value, JSON_COMPACT);
    assert_true(strlen(text) == LARGE + 1 && memcmp(text, list, LARGE + 1) == 0);
    json_decref(value), free(text);
  }
  free(list);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {TEST(comes_back_in_order), TEST(names_the_place), TEST(withstands_lack_of_memory)};
  return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
