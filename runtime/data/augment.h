/* Augmentation of training images: a crop out of the image with a border of zeros, and mirroring left to right (as in
 * K. He et al., "Deep residual learning", 2016, section 4.2). The random numbers are Philox of seed, epoch and the
 * sample's number alone: the same for any number of ranks, any batch and a resumed run, and new in each epoch. The
 * border has the pixel value 0 (black) before normalisation, as in the usual recipes. */
#ifndef SL_AUGMENT_H
#define SL_AUGMENT_H

#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_augment {
  int pad;  /* pixels of border on each side before an image of the old size is cut out; 0: no crop */
  int flip; /* 1: mirrors images with probability 1/2 */
} sl_augment;

/* The change of one image: pixel (y, x) becomes the original's (y + dy, x + dx), or 0 outside of it; then flip mirrors
 * the rows. */
typedef struct sl_augment_draw {
  int dy, dx; /* each uniform over -pad to pad */
  int flip;
} sl_augment_draw;

/* epoch, sample: 0 to below 2^48. */
sl_augment_draw sl_augment_at(const sl_augment *augment, uint64_t seed, int64_t epoch, int64_t sample);
/* from, to: [height, width, channels], not the same memory. */
void sl_augment_apply(const sl_augment_draw *draw, int64_t height, int64_t width, int64_t channels, const uint8_t *from,
                      uint8_t *to);

#ifdef __cplusplus
}
#endif
#endif
