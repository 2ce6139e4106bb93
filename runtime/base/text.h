/* Text from outside: names in files, paths, arguments. */
#ifndef SL_TEXT_H
#define SL_TEXT_H

#ifdef __cplusplus
extern "C" {
#endif

/* The length of the UTF-8 character at s, 1 to 4 bytes; 0: there is none (RFC 3629). s ends with a zero byte. */
int sl_utf8(const unsigned char *s);
/* Whether all of the text is UTF-8. */
int sl_text_is_utf8(const char *text);
/* Whether the text is UTF-8 without control characters, so that a terminal shows it in its order and does nothing else:
 * without U+0000 to U+001F, U+007F to U+009F, the controls of right-to-left text (U+202E and others), and the
 * separators of lines and paragraphs (U+2028, U+2029). */
int sl_text_is_plain(const char *text);
/* Replaces each byte of a control character other than tab and line feed by '?', in place. Other bytes stay, even
 * invalid ones. */
void sl_text_disarm(char *text);
/* printf to standard output, disarmed: for text with names from outside. */
void sl_text_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Replaces by '?', in place, each byte of the text that is not part of a character that sl_text_is_plain accepts. */
void sl_text_make_plain(char *text);

#ifdef __cplusplus
}
#endif
#endif
