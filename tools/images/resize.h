/* Brings pictures to one size: resizes them by an antialiased bilinear filter, then cuts out the middle. PIL and
 * torchvision do the same, so a model trained with them sees the same pixels. */
#ifndef SL_TOOLS_RESIZE_H
#define SL_TOOLS_RESIZE_H

#include "tools/images/decode.h"

/* Zeros leave a step out. */
typedef struct sl__fit {
  int64_t height, width; /* resize to this, whatever that does to the proportions; or ... */
  int64_t shorter;       /* ... the shorter side to this, the other to floor(shorter * other side / shorter side) */
  int64_t crop_height, crop_width; /* then cut this out of the middle; half of an odd rest is rounded to even */
} sl__fit;

/* In place. SL_ESHAPE when the crop is larger than the picture. On failure the picture is as it was. */
sl_status sl__fit_picture(const char *name, const sl__fit *fit, sl__picture *picture);

#endif
