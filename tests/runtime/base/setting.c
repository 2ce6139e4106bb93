/* runtime/base/setting.c: each kind of field is read from text and JSON, written to both, compared and copied. */
#include "runtime/base/setting.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

typedef enum colour { RED, GREEN } colour;
static const char *const colours[] = {"red", "green", NULL};

typedef struct things {
  char *text, *choice;
  int64_t integer;
  double real;
  int flag;
  colour named;
} things;

#define ROW(kind_, field_, ...)                                                                                \
  {                                                                                                            \
    .field = #field_, .option = "an-" #field_, .kind = SL_SETTING_##kind_, .offset = offsetof(things, field_), \
    __VA_ARGS__                                                                                                \
  }
static const sl_setting rows[] = {
    ROW(TEXT, text, .argument = "WORDS"),
    ROW(CHOICE, choice, .argument = "on|off"),
    ROW(INTEGER, integer, .argument = "N", .least = 0, .most = 10),
    ROW(REAL, real, .argument = "X", .least = 0, .most = 1),
    ROW(FLAG, flag, .argument = NULL),
    ROW(NAMED, named, .names = colours),
};
enum { ROWS = sizeof rows / sizeof *rows };
static const char *const good[ROWS] = {"some words", "off", "7", "0.30000000000000004", "true", "green"};
static const char *const better[ROWS] = {"other words", "on", "8", "0.25", "false", "red"};
static const char *const bad[ROWS][2] = {{"", "--an-text: the value is empty"},
                                         {"maybe", "--an-choice: unknown value 'maybe'; choose on|off"},
                                         {"11", "--an-integer: 11 is out of range, from 0 to 10"},
                                         {"x", "--an-real: 'x' is not a number"},
                                         {"maybe", "--an-flag: 'maybe' is neither true nor false"},
                                         {"blue", "--an-named: unknown value 'blue'; choose red|green"}};

static void unset(things *t) {
  for (int i = 0; i < ROWS; i++) sl_setting_unset(&rows[i], t);
}
static void release(things *t) {
  for (int i = 0; i < ROWS; i++) sl_setting_free(&rows[i], t);
}

static void from_text_and_back(void **state) {
  (void)state;
  things t;
  char text[SL_SETTING_BYTES];
  unset(&t);
  for (int i = 0; i < ROWS; i++) {
    assert_false(sl_setting_given(&rows[i], &t));
    assert_null(sl_setting_text(&rows[i], &t, text));
    assert_ok(sl_setting_set(&rows[i], &t, "--", good[i]));
    assert_true(sl_setting_given(&rows[i], &t));
    assert_string_equal(sl_setting_text(&rows[i], &t, text), good[i]);
  }
  assert_int_equal(t.integer, 7);
  assert_ok(sl_setting_set(&rows[2], &t, "--", "0.5e1"));
  assert_int_equal(t.integer, 5);
  assert_true(t.real == 0.30000000000000004);
  assert_int_equal(t.named, GREEN);
  release(&t);
}

static void what_is_wrong_is_named_and_changes_nothing(void **state) {
  (void)state;
  things t;
  char text[SL_SETTING_BYTES];
  unset(&t);
  for (int i = 0; i < ROWS; i++) {
    assert_ok(sl_setting_set(&rows[i], &t, "--", good[i]));
    assert_fails(SL_EINVAL, bad[i][1], sl_setting_set(&rows[i], &t, "--", bad[i][0]));
    assert_string_equal(sl_setting_text(&rows[i], &t, text), good[i]);
  }
  assert_fails(SL_EINVAL, "not a whole number", sl_setting_set(&rows[2], &t, "--", "1.5"));
  static const char *const halves[] = {"1e", "e1", "1e-1", ".5", "1e400", "3e0x"};
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
    assert_fails(SL_EINVAL, "not a whole number", sl_setting_set(&rows[2], &t, "--", halves[i]));
  assert_fails(SL_EINVAL, "out of range", sl_setting_set(&rows[2], &t, "--", "3e11"));
  assert_fails(SL_EINVAL, "out of range", sl_setting_set(&rows[2], &t, "--", "99999999999999999999"));
  assert_fails(SL_EINVAL, "out of range, from 0 to 1", sl_setting_set(&rows[3], &t, "--", "1.5"));
  assert_fails(SL_EINVAL, "not a number", sl_setting_set(&rows[3], &t, "--", "nan"));
  release(&t);
}

static void json_and_back(void **state) {
  (void)state;
  things t, again;
  unset(&t), unset(&again);
  for (int i = 0; i < ROWS; i++) {
    assert_ok(sl_setting_set(&rows[i], &t, "", good[i]));
    assert_false(sl_setting_equal(&rows[i], &t, &again));
    json_t *json = sl_setting_to_json(&rows[i], &t), *wrong = json_array();
    assert_non_null(json);
    assert_ok(sl_setting_from_json(&rows[i], &again, json));
    assert_true(sl_setting_equal(&rows[i], &t, &again));
    assert_int_not_equal(SL_OK, sl_setting_from_json(&rows[i], &again, wrong));
    assert_non_null(strstr(sl_error(), rows[i].field));
    assert_true(sl_setting_equal(&rows[i], &t, &again));
    json_decref(json), json_decref(wrong);
  }
  json_t *blue = json_string("blue");
  assert_fails(SL_EFORMAT, "unknown value 'blue'; choose red|green", sl_setting_from_json(&rows[5], &again, blue));
  json_decref(blue);
  release(&t), release(&again);
}

static void another_value_differs(void **state) {
  (void)state;
  things t, other;
  unset(&t), unset(&other);
  for (int i = 0; i < ROWS; i++) {
    assert_ok(sl_setting_set(&rows[i], &t, "", good[i]));
    assert_ok(sl_setting_set(&rows[i], &other, "", good[i]));
    assert_true(sl_setting_equal(&rows[i], &t, &other));
    assert_ok(sl_setting_set(&rows[i], &other, "", better[i]));
    assert_false(sl_setting_equal(&rows[i], &t, &other));
    if (i < 2) continue; /* texts are not copied */
    sl_setting_copy(&rows[i], &other, &t);
    assert_true(sl_setting_equal(&rows[i], &t, &other));
  }
  release(&t), release(&other);
}

static void arguments(void **state) {
  (void)state;
  char text[32];
  assert_string_equal(sl_setting_argument(&rows[0], text, sizeof text), "WORDS");
  assert_null(sl_setting_argument(&rows[4], text, sizeof text));
  assert_string_equal(sl_setting_argument(&rows[5], text, sizeof text), "red|green");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(from_text_and_back), cmocka_unit_test(what_is_wrong_is_named_and_changes_nothing),
      cmocka_unit_test(json_and_back), cmocka_unit_test(another_value_differs), cmocka_unit_test(arguments)};
  return cmocka_run_group_tests_name("setting", tests, NULL, NULL);
}
