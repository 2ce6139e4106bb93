/* tools/settings/mends.c: the settings that the library blames become options of the command, within any buffer. */
#include "tools/settings/mends.h"

#include "tests/support/scratch.h"

static void settings_become_options(void **state) {
  char text[128];
  (void)state;
  assert_string_equal(sl__mending_options("path", text, sizeof text), " (--out)");
  assert_string_equal(sl__mending_options("window, validation_fraction", text, sizeof text),
                      " (--length, --val-fraction)");
  assert_string_equal(sl__mending_options("gpus,calibrate", text, sizeof text), " (--gpus, --calibrate)");
}

static void unknown_settings_are_left_out(void **state) {
  char text[128];
  (void)state;
  assert_string_equal(sl__mending_options("", text, sizeof text), "");
  assert_string_equal(sl__mending_options("pat, paths", text, sizeof text), "");
  assert_string_equal(sl__mending_options("colour, path", text, sizeof text), " (--out)");
}

static void options_fit_or_are_left_out(void **state) {
  (void)state;
  for (size_t n = 1; n < 40; n++) {
    char text[40];
    memset(text, '#', sizeof text);
    sl__mending_options("path, window", text, n);
    assert_true(strcmp(text, "") == 0 || strcmp(text, " (--out)") == 0 || strcmp(text, " (--length)") == 0 ||
                strcmp(text, " (--out, --length)") == 0);
    for (size_t i = n; i < sizeof text; i++) assert_int_equal(text[i], '#');
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_become_options),
      cmocka_unit_test(unknown_settings_are_left_out),
      cmocka_unit_test(options_fit_or_are_left_out),
  };
  return cmocka_run_group_tests_name("mends", tests, NULL, NULL);
}
