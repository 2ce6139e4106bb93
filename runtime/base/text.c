/* UTF-8 and control characters. */
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int sl_utf8(const unsigned char *s) {
  const int n = s[0] < 0x80                   ? 1
                : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                              : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
      (s[0] == 0xF4 && s[1] > 0x8F))
    return 0;
  return n;
}

/* The length of the control character at s; 0: there is none. U+0080 to U+009F, which some terminals take for escape
 * sequences, are two bytes in UTF-8. The three-byte characters, and U+061C, break lines or change the order in which
 * text is shown (Bidi_Control of Unicode's annex 9): U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069. */
static int control(const unsigned char *s) {
  if (s[0] < 0x20 || s[0] == 0x7F) return 1;
  if (s[0] == 0xC2) return s[1] >= 0x80 && s[1] < 0xA0 ? 2 : 0;
  if (s[0] == 0xD8) return s[1] == 0x9C ? 2 : 0;
  if (s[0] != 0xE2) return 0;
  return (s[1] == 0x80 && ((s[2] >= 0x8E && s[2] <= 0x8F) || (s[2] >= 0xA8 && s[2] <= 0xAE))) ||
                 (s[1] == 0x81 && s[2] >= 0xA6 && s[2] <= 0xA9)
             ? 3
             : 0;
}

int sl_text_is_utf8(const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = sl_utf8(s);
    if (n == 0) return 0;
    s += n;
  }
  return 1;
}

/* The length of the UTF-8 character at s; 0: there is none, or it is a control character. */
static int plain(const unsigned char *s) { return control(s) > 0 ? 0 : sl_utf8(s); }

int sl_text_is_plain(const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = plain(s);
    if (n == 0) return 0;
    s += n;
  }
  return 1;
}

void sl_text_make_plain(char *text) {
  for (unsigned char *s = (unsigned char *)text; *s;) {
    const int n = plain(s);
    if (n == 0) *s = '?';
    s += n > 0 ? n : 1;
  }
}

void sl_text_disarm(char *text) {
  for (unsigned char *s = (unsigned char *)text; *s;) {
    int n = *s == '\t' || *s == '\n' ? 0 : control(s);
    if (n == 0) s++;
    while (n-- > 0) *s++ = '?';
  }
}

void sl_text_print(const char *format, ...) {
  va_list arguments;
  char *text;
  va_start(arguments, format);
  const int n = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (n < 0) return; /* no memory */
  sl_text_disarm(text);
  fputs(text, stdout);
  free(text);
}
