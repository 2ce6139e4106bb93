/* Decoding an image file: finds its format, and brings the pixels into place and colour. */
#include "tools/images/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/images/format.h"
#include "tools/images/formats.h" /* made by the build: an X for each file of Makefile.am's IMAGE_FORMATS */

#define DECLARE(name) extern const sl__format sl__format_##name;
#define POINTER(name) &sl__format_##name,
SL__IMAGE_FORMATS(DECLARE)
static const sl__format *const formats[] = {SL__IMAGE_FORMATS(POINTER)};
enum { FORMATS = sizeof formats / sizeof *formats };

static const sl__format *format_of(const void *bytes, size_t n) {
  for (int i = 0; i < FORMATS; i++)
    if (n >= formats[i]->mark_bytes && memcmp(bytes, formats[i]->mark, formats[i]->mark_bytes) == 0) return formats[i];
  return NULL;
}

int sl__is_picture(const void *bytes, size_t n) { return format_of(bytes, n) != NULL; }

int sl__is_picture_name(const char *name) {
  const char *dot = strrchr(name, '.');
  for (int i = 0; dot && i < FORMATS; i++)
    for (const char *const *ending = formats[i]->endings; *ending; ending++)
      if (strcasecmp(dot, *ending) == 0) return 1;
  return 0;
}

/* EXIF 2.3, 4.6.4 A: orientations from 5 on exchange rows and columns. */
static const char *turn(sl__picture *p, int orientation) {
  static const uint8_t upside_down[9] = {[3] = 1, [4] = 1, [6] = 1, [7] = 1},
                       mirrored[9] = {[2] = 1, [3] = 1, [7] = 1, [8] = 1};
  if (orientation == 1) return NULL;
  const int64_t H = p->height, W = p->width, C = p->channels;
  const int swap = orientation >= 5;
  uint8_t *turned = malloc((size_t)(H * W * C)), *to = turned;
  if (!turned) return "no memory for turning it";
  for (int64_t y = 0; y < (swap ? W : H); y++)
    for (int64_t x = 0; x < (swap ? H : W); x++, to += C) {
      int64_t row = swap ? x : y, column = swap ? y : x;
      if (upside_down[orientation]) row = H - 1 - row;
      if (mirrored[orientation]) column = W - 1 - column;
      memcpy(to, p->pixels + (row * W + column) * C, (size_t)C);
    }
  free(p->pixels);
  p->pixels = turned, p->height = swap ? W : H, p->width = swap ? H : W;
  return NULL;
}

/* Grey from colour by ITU-R BT.601, rounded, in 16-bit fixed point. */
static uint8_t luma(const uint8_t *p) {
  return (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
}

static const char *convert(sl__picture *p, int64_t channels) {
  const int64_t n = p->height * p->width;
  if (p->channels == channels) return NULL;
  if (channels == 1) {
    for (int64_t i = 0; i < n; i++) p->pixels[i] = luma(p->pixels + 3 * i);
  } else {
    uint8_t *larger = realloc(p->pixels, (size_t)n * 3);
    if (!larger) return "no memory for its colours";
    for (int64_t i = n - 1; i >= 0; i--) memset(larger + 3 * i, larger[i], 3);
    p->pixels = larger;
  }
  p->channels = channels;
  return NULL;
}

void sl__picture_endings(char *text, size_t room) {
  size_t used = 0;
  for (int i = 0; i < FORMATS; i++)
    for (const char *const *ending = formats[i]->endings; *ending && used < room; ending++)
      used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", *ending);
}

/* "neither a JPEG nor a PNG" */
static void put_names(char *text, size_t room) {
  size_t used = 0;
  for (int i = 0; i < FORMATS && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s a %s", i ? " nor" : "neither", formats[i]->name);
}

sl_status sl__decode(const char *name, const void *bytes, size_t n, int64_t channels, sl__picture *picture) {
  char text[256];
  int orientation = 1;
  memset(picture, 0, sizeof *picture);
  const sl__format *format = format_of(bytes, n);
  if (!format) {
    put_names(text, sizeof text);
    return sl_fail(SL_EUNSUPPORTED, "%s is %s%s", name, text, n ? "" : ": it is empty");
  }
  const char *why = format->decode(bytes, n, picture, &orientation, text, sizeof text);
  if (!why) why = turn(picture, orientation);
  if (!why) why = convert(picture, channels);
  if (!why) return SL_OK;
  sl__picture_clear(picture);
  if (strncmp(why, "no memory", 9) == 0) return sl_fail(SL_ENOMEM, "%s: %s", name, why);
  return sl_fail(SL_EFORMAT, "%s: broken %s: %s", name, format->name, why);
}
