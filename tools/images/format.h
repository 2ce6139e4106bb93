/* A format of image files, as decode.c sees it. To add one, write NAME.c, which ends with its descriptor
 * sl__format_NAME, and add it to IMAGE_FORMATS in Makefile.am. */
#ifndef SL_TOOLS_FORMAT_H
#define SL_TOOLS_FORMAT_H

#include "tools/images/picture.h"

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

#endif
