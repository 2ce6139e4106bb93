/* Decodes image files, in the formats of Makefile.am's IMAGE_FORMATS, recognised by content, not by name. The file's
 * bytes come from memory, so many threads can decode at once and a fuzzer can test it. */
#ifndef SL_TOOLS_DECODE_H
#define SL_TOOLS_DECODE_H

#include "runtime/base/status.h"
#include "tools/images/picture.h"

enum { SL__PICTURE_MARK = 8 }; /* bytes of a file's beginning that are enough to tell its format */
/* Whether the bytes begin like a format that can be decoded. */
int sl__is_picture(const void *bytes, size_t n);
/* Whether the name has an ending that files of a known format usually have, in upper or lower case. */
int sl__is_picture_name(const char *name);
/* Writes these endings, such as ".jpg, .jpeg, .png", to text[room]. */
void sl__picture_endings(char *text, size_t room);

/* Decodes into `channels` 1 (grey, ITU-R BT.601 luma) or 3 (red, green, blue), 8 bits each. Palettes, 16 bits and
 * CMYK are converted, alpha is dropped, colour profiles and gamma are ignored. The picture is turned by its EXIF
 * orientation. SL_EFORMAT names the file and the fault, also for pictures that a viewer would show in part;
 * SL_EUNSUPPORTED: none of the formats. On failure *picture is all zero. */
sl_status sl__decode(const char *name, const void *bytes, size_t n, int64_t channels, sl__picture *picture);

#endif
