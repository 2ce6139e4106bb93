/* Augmentation of training images: a random crop from the image with a black border, and random mirroring (K. He et
 * al., "Deep residual learning", 2016, section 4.2). The Philox numbers depend only on seed, epoch and the sample's
 * number: ranks, batch size and resuming do not change them, and each epoch draws new ones. The border has the pixel
 * value 0 before normalisation, as in the usual recipes. */
#ifndef SL_AUGMENT_H
#define SL_AUGMENT_H

#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_augment {
  int pad;  /* border on each side, in pixels, from which an image of the old size is cropped; 0: no crop */
  int flip; /* 1: mirrors images with probability 1/2 */
} sl_augment;

/* The change of one image: pixel (y, x) becomes the original's (y + dy, x + dx), or 0 outside; then flip mirrors it
 * left to right. */
typedef struct sl_augment_draw {
  int dy, dx; /* each uniform over -pad to pad */
  int flip;
} sl_augment_draw;

/* epoch, sample: 0 to below 2^48. */
sl_augment_draw sl_augment_at(const sl_augment *augment, uint64_t seed, int64_t epoch, int64_t sample);
/* from, to: [height, width, channels], in different memory. */
void sl_augment_apply(const sl_augment_draw *draw, int64_t height, int64_t width, int64_t channels, const uint8_t *from,
                      uint8_t *to);

#ifdef __cplusplus
}
#endif
#endif
