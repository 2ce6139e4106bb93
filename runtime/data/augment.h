/* Augmentation of training images: a crop out of the image with a border of zeros, and mirroring left to right (as in
 * K. He et al., "Deep residual learning", 2016, section 4.2). What is drawn is Philox of seed, epoch and the sample's
 * number alone, so it is the same for any number of ranks and any batch, a resumed run repeats it, and each epoch
 * draws anew. The border has the pixel value 0 (black) before normalisation, as in the usual recipes. */
#ifndef SL_AUGMENT_H
#define SL_AUGMENT_H

#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_augment {
  int pad;  /* pixels of border on each side, out of which an image of the old size is cut; 0: not cut */
  int flip; /* 1: mirrored, every second time */
} sl_augment;

/* What one image gets: its pixel (y, x) is that at (y + dy, x + dx) of the original (outside of it: 0), and after that
 * the rows are mirrored if flip. */
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
