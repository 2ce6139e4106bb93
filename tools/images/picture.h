/* A decoded picture, and what decoders of all formats share. */
#ifndef SL_TOOLS_PICTURE_H
#define SL_TOOLS_PICTURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct sl__picture {
  int64_t height, width, channels;
  uint8_t *pixels; /* [height, width, channels]; owned */
} sl__picture;

/* Largest number of pixels of a picture, and of bytes of its file; more is treated as an attack on memory. */
enum { SL__PICTURE_PIXELS = 1 << 28, SL__PICTURE_BYTES = 1 << 30 };

void sl__picture_clear(sl__picture *picture); /* frees the pixels; it is all zero then */
/* Allocates the pixels that the file's header promises, where n bytes can hold at most per_byte pixels each.
 * Returns NULL, or what is wrong. */
const char *sl__picture_reserve(sl__picture *picture, int64_t height, int64_t width, int64_t channels, size_t n,
                                int64_t per_byte);
/* Orientation (EXIF tag 0x0112), 1 to 8, of an EXIF block that begins with "Exif\0\0", as in a JPEG. */
int sl__exif_orientation(const uint8_t *block, size_t n);

#endif
