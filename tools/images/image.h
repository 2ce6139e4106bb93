/* Images from files: IDX (any number per file) and those that decode.h knows, as bytes in the layout that a model
 * takes. */
#ifndef SL_TOOLS_IMAGE_H
#define SL_TOOLS_IMAGE_H

#include <stdint.h>

#include "runtime/base/status.h"

typedef struct sl__images {
  int64_t n;
  int indexed;     /* the file may hold several */
  uint8_t *pixels; /* [n, height, width, channels] */
} sl__images;

/* Converts a picture to the model's grey or colour. Sizes must fit; with resize > 0, a picture of another
 * size is resized so that its shorter side is `resize`, and its middle is cut out. SL_EFORMAT, SL_ESHAPE,
 * SL_ENOTFOUND, SL_EIO name the file. The caller calls sl__images_clear. */
sl_status sl__images_read(const char *path, int64_t height, int64_t width, int64_t channels, int64_t resize,
                          sl__images *images);
void sl__images_clear(sl__images *images);

#endif
