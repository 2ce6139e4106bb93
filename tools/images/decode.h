/* JPEG and PNG files to pixels. Told apart by content, not by name. The file's bytes come from memory, so that many
 * threads may decode at once and a fuzzer may try them. */
#ifndef SL_TOOLS_DECODE_H
#define SL_TOOLS_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct sl__picture {
  int64_t height, width, channels;
  uint8_t *pixels; /* [height, width, channels]; owned */
} sl__picture;

/* Most pixels of a picture and bytes of its file: what is beyond is taken for an attack on memory. */
enum { SL__PICTURE_PIXELS = 1 << 28, SL__PICTURE_BYTES = 1 << 30 };

/* Whether bytes begin as a JPEG or a PNG does; 3 are enough. */
int sl__is_jpeg(const void *bytes, size_t n);
int sl__is_png(const void *bytes, size_t n);

/* Decodes with `channels` 1 (grey, ITU-R BT.601 luma) or 3 (red, green, blue), 8 bits each; palettes, 16 bits and CMYK
 * are converted, alpha is dropped, colour profiles and gamma are not applied. The picture is turned as EXIF's
 * orientation says. SL_EFORMAT names the file and the fault, also of pictures that a viewer would show in part;
 * SL_EUNSUPPORTED: neither JPEG nor PNG. On failure *picture is all zero. */
sl_status sl__decode(const char *name, const void *bytes, size_t n, int64_t channels, sl__picture *picture);
void sl__picture_clear(sl__picture *picture);

#endif
