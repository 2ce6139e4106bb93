/* A format of image files, as decode.c sees it. To add one, write NAME.c, which ends with its descriptor
 * sl__format_NAME, and add it to IMAGE_FORMATS in Makefile.am. */
#ifndef SL_TOOLS_FORMAT_H
#define SL_TOOLS_FORMAT_H

#include "tools/images/decode.h"

typedef struct sl__format {
  const char *name;           /* "JPEG" */
  const char *const *endings; /* of files' names, with the dot, ended by NULL */
  const char *mark;           /* the file's first bytes */
  size_t mark_bytes;
  /* Decodes the n bytes into a picture of 1 (grey) or 3 (red, green, blue) channels, and sets *orientation (1 to 8, as
   * EXIF has it; it is 1 before). Returns NULL, or what is wrong, which begins with "no memory" where memory ran out;
   * the text is constant or lies in text[room]. */
  const char *(*decode)(const uint8_t *bytes, size_t n, sl__picture *picture, int *orientation, char *text,
                        size_t room);
} sl__format;

/* For decoders: allocates the pixels that the file's header promises, where n bytes can hold at most per_byte pixels
 * each. Returns NULL, or what is wrong. */
const char *sl__picture_reserve(sl__picture *picture, int64_t height, int64_t width, int64_t channels, size_t n,
                                int64_t per_byte);
/* For decoders: orientation (EXIF tag 0x0112), 1 to 8, of an EXIF block that begins with "Exif\0\0", as in a JPEG. */
int sl__exif_orientation(const uint8_t *block, size_t n);

#endif
