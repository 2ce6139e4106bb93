/* Decodes JPEG and PNG files, recognised by content, not by name. The file's bytes come from memory, so many threads
 * can decode at once and a fuzzer can test it. */
#ifndef SL_TOOLS_DECODE_H
#define SL_TOOLS_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct sl__picture {
  int64_t height, width, channels;
  uint8_t *pixels; /* [height, width, channels]; owned */
} sl__picture;

/* Largest number of pixels of a picture, and of bytes of its file; more is treated as an attack on memory. */
enum { SL__PICTURE_PIXELS = 1 << 28, SL__PICTURE_BYTES = 1 << 30 };

/* Whether the bytes begin like a JPEG or a PNG; 3 bytes are enough. */
int sl__is_jpeg(const void *bytes, size_t n);
int sl__is_png(const void *bytes, size_t n);

/* Decodes into `channels` 1 (grey, ITU-R BT.601 luma) or 3 (red, green, blue), 8 bits each. Palettes, 16 bits and
 * CMYK are converted, alpha is dropped, colour profiles and gamma are ignored. The picture is turned by its EXIF
 * orientation. SL_EFORMAT names the file and the fault, also for pictures that a viewer would show in part;
 * SL_EUNSUPPORTED: neither JPEG nor PNG. On failure *picture is all zero. */
sl_status sl__decode(const char *name, const void *bytes, size_t n, int64_t channels, sl__picture *picture);
void sl__picture_clear(sl__picture *picture);

#endif
