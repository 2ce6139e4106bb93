/* runtime/base/text.c: recognises UTF-8 (RFC 3629) and makes terminals' control characters harmless. */
#include "runtime/base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
  static const char *const plain[] = {"caf\xC3\xA9 \xC2\xA0", "\xE2\x80\x8D", "\xE2\x80\x90",
                                      "\xE2\x80\xA7",         "\xE2\x80\xAF", "\xE2\x81\xA5",
                                      "\xE2\x81\xAA",         "\xD8\x9B",     "\xD7\xA9\xD7\x9C"};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) assert_true(sl_text_is_plain(plain[i]));
  static const char *const armed[] = {"\x1B[2J",
                                      "a\nb",
                                      "a\tb",
                                      "\x7F",
                                      "\xC2\x9B"
                                      "31m",
                                      "\x07",
                                      "\xD8\x9C",
                                      "\xE2\x80\x8E",
                                      "\xE2\x80\x8F",
                                      "\xE2\x80\xA8",
                                      "\xE2\x80\xA9",
                                      "\xE2\x80\xAA",
                                      "bag\xE2\x80\xAEtxt",
                                      "\xE2\x81\xA6",
                                      "\xE2\x81\xA9"};
  for (size_t i = 0; i < sizeof armed / sizeof *armed; i++) assert_false(sl_text_is_plain(armed[i]));
  char text[] =
      "a\x1B[31m\tb\n\xC2\x9B"
      "1m caf\xE9 \xC3\xA9";
  sl_text_disarm(text);
  assert_string_equal(text, "a?[31m\tb\n??1m caf\xE9 \xC3\xA9");
  char turned[] = "a\xE2\x80\xAEtxt.exe\xE2\x80";
  sl_text_disarm(turned);
  assert_string_equal(turned, "a???txt.exe\xE2\x80"); /* a character that is cut stays */
  char shown[] = "m\xC3\xBCller\x1B[m\t\xC2\x9B \xE9 \xE2\x82\xAC\xE2\x82";
  sl_text_make_plain(shown);
  assert_string_equal(shown, "m\xC3\xBCller?[m??? ? \xE2\x82\xAC??");
  assert_true(sl_text_is_plain(shown));
}

static void printed(void **state) {
  (void)state;
  char text[64];
  int to[2];
  fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  assert_int_equal(pipe(to), 0);
  dup2(to[1], STDOUT_FILENO);
  sl_text_print("%s: %d\n", "a\x1B[2J", 3);
  fflush(stdout);
  dup2(before, STDOUT_FILENO), close(before), close(to[1]);
  const ssize_t n = read(to[0], text, sizeof text - 1);
  close(to[0]);
  assert_true(n > 0);
  text[n] = '\0';
  assert_string_equal(text, "a?[2J: 3\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(utf8), cmocka_unit_test(controls), cmocka_unit_test(printed)};
  return cmocka_run_group_tests_name("runtime/base/text", tests, NULL, NULL);
}
