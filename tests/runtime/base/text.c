/* runtime/base/text.c: recognises UTF-8 (RFC 3629) and makes terminals' control characters harmless. */
#include "runtime/base/text.h"

#include <string.h>

#include "tests/support/scratch.h"

static void utf8(void **state) {
  (void)state;
  static const char *const good[] = {
      "", "a", "caf\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x90\xA6", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"};
  static const char *const bad[] = {"caf\xE9",
                                    "\x80",
                                    "\xC3",
                                    "\xC0\xAF",
                                    "\xE0\x80\x80",
                                    "\xED\xA0\x80",
                                    "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80",
                                    "\xF0\x80\x80\x80",
                                    "\xE2\x82",
                                    "\xFF"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(sl_text_is_utf8(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(sl_text_is_utf8(bad[i]));
    assert_false(sl_text_is_plain(bad[i]));
  }
  assert_int_equal(sl_utf8((const unsigned char *)"\xE2\x82\xAC"), 3);
}

static void controls(void **state) {
  (void)state;
  assert_true(sl_text_is_plain("caf\xC3\xA9 \xC2\xA0"));
  static const char *const armed[] = {"\x1B[2J",
                                      "a\nb",
                                      "a\tb",
                                      "\x7F",
                                      "\xC2\x9B"
                                      "31m",
                                      "\x07"};
  for (size_t i = 0; i < sizeof armed / sizeof *armed; i++) assert_false(sl_text_is_plain(armed[i]));
  char text[] =
      "a\x1B[31m\tb\n\xC2\x9B"
      "1m caf\xE9 \xC3\xA9";
  sl_text_disarm(text);
  assert_string_equal(text, "a?[31m\tb\n??1m caf\xE9 \xC3\xA9");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(utf8), cmocka_unit_test(controls)};
  return cmocka_run_group_tests_name("runtime/base/text", tests, NULL, NULL);
}
