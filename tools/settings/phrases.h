/* Reads option values that are more than a word or a number. */
#ifndef SL_TOOLS_PHRASES_H
#define SL_TOOLS_PHRASES_H

#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/data/augment.h"

/* --until: a measure of the validation split and the bound that ends training. */
typedef struct sl__until {
  enum { SL__UNTIL_NONE, SL__UNTIL_ACCURACY, SL__UNTIL_LOSS } measure;
  double bound; /* accuracy: reached from below; loss: from above */
} sl__until;
sl_status sl__until_parse(const char *text, sl__until *until);
/* --augment: "none", or "flip" and "crop=PIXELS" (1 to 1024) in any order, a comma between. */
sl_status sl__augment_parse(const char *text, sl_augment *augment);
/* --image: "28x28x1", height, width, channels. */
sl_status sl__image_parse(const char *text, int64_t size[3]);
/* --size: "224x224", height and width. */
sl_status sl__size_parse(const char *text, int64_t size[2]);

#endif
