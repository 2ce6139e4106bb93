/* Reads the options whose values have a syntax of their own: until, augment, image and size. */
#include "tools/settings/phrases.h"

#include <stdlib.h>
#include <string.h>

sl_status sl__until_parse(const char *text, sl__until *until) {
  *until = (sl__until){.measure = SL__UNTIL_NONE};
  if (!text) return SL_OK;
  const char *equals = strchr(text, '=');
  const size_t n = equals ? (size_t)(equals - text) : 0;
  if (n == 8 && strncmp(text, "accuracy", n) == 0) until->measure = SL__UNTIL_ACCURACY;
  if (n == 4 && strncmp(text, "loss", n) == 0) until->measure = SL__UNTIL_LOSS;
  char *end = NULL;
  if (until->measure != SL__UNTIL_NONE) until->bound = strtod(equals + 1, &end);
  if (!end || !equals[1] || *end || !(until->bound > 0) || (until->measure == SL__UNTIL_ACCURACY && until->bound > 1))
    return sl_fail(SL_EINVAL, "--until: '%s' is neither accuracy=A (0 to 1) nor loss=L (above 0)", text);
  return SL_OK;
}

sl_status sl__augment_parse(const char *text, sl_augment *augment) {
  *augment = (sl_augment){0};
  if (!text || strcmp(text, "none") == 0) return SL_OK;
  for (const char *at = text;; at++) {
    const size_t n = strcspn(at, ",");
    char *end = NULL;
    long pad = 0;
    if (n > 5 && strncmp(at, "crop=", 5) == 0 && at[5] >= '0' && at[5] <= '9') pad = strtol(at + 5, &end, 10);
    if (n == 4 && strncmp(at, "flip", n) == 0 && !augment->flip)
      augment->flip = 1;
    else if (end == at + n && pad >= 1 && pad <= 1024 && !augment->pad)
      augment->pad = (int)pad;
    else
      return sl_fail(SL_EINVAL,
                     "--augment: '%.*s' in '%s' is wrong; give none, or flip and crop=N (1 to 1024 pixels), each "
                     "once, with a comma between",
                     (int)n, at, text);
    at += n;
    if (!*at) return SL_OK;
  }
}

/* Reads n numbers from 1 to 65536 joined by x. Returns whether the text is exactly that. */
static int numbers_of(const char *text, int n, int64_t *size) {
  for (int i = 0; i < n; i++) {
    char *end;
    size[i] = strtoll(text, &end, 10);
    if (end == text || size[i] < 1 || size[i] > 65536 || *end != (i < n - 1 ? 'x' : 0)) return 0;
    text = end + 1;
  }
  return 1;
}

sl_status sl__image_parse(const char *text, int64_t size[3]) {
  return numbers_of(text, 3, size)
             ? SL_OK
             : sl_fail(SL_EINVAL, "--image: '%s' is not HEIGHTxWIDTHxCHANNELS, such as 28x28x1", text);
}

sl_status sl__size_parse(const char *text, int64_t size[2]) {
  return numbers_of(text, 2, size) ? SL_OK
                                   : sl_fail(SL_EINVAL, "--size: '%s' is not HEIGHTxWIDTH, such as 224x224", text);
}
