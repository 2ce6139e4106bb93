/* UTF-8 and control characters. */
#include "runtime/base/text.h"

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

/* U+0080 to U+009F are two bytes in UTF-8; some terminals take them for escape sequences. */
static int is_control(const unsigned char *s) {
  return s[0] < 0x20 || s[0] == 0x7F || (s[0] == 0xC2 && s[1] >= 0x80 && s[1] < 0xA0);
}

int sl_text_is_utf8(const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = sl_utf8(s);
    if (n == 0) return 0;
    s += n;
  }
  return 1;
}

int sl_text_is_plain(const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = sl_utf8(s);
    if (n == 0 || is_control(s)) return 0;
    s += n;
  }
  return 1;
}

void sl_text_disarm(char *text) {
  for (unsigned char *s = (unsigned char *)text; *s; s++) {
    if (!is_control(s) || *s == '\t' || *s == '\n') continue;
    if (*s == 0xC2) *s++ = '?';
    *s = '?';
  }
}
