/* Random crops and mirroring of images, row by row. */
#include "runtime/data/augment.h"

#include <string.h>

#include "runtime/numbers/philox.h"

/* Philox key in place of an operation's number; operations' numbers are hashes of layers' names. */
static const uint32_t STREAM = 0x61756721;

static int below(uint32_t word, int n) { return (int)((uint64_t)word * (uint64_t)n >> 32); }

sl_augment_draw sl_augment_at(const sl_augment *a, uint64_t seed, int64_t epoch, int64_t sample) {
  uint32_t word[4];
  sl_random_u32x4(seed, (uint64_t)epoch, STREAM, (uint64_t)sample, word);
  return (sl_augment_draw){.dy = below(word[0], 2 * a->pad + 1) - a->pad,
                           .dx = below(word[1], 2 * a->pad + 1) - a->pad,
                           .flip = a->flip && word[2] >> 31};
}

/* Copies n pixels in reverse order. Callers pass a constant `channels`, so that the compiler unrolls the inner loop. */
static inline void mirror(const uint8_t *restrict from, uint8_t *restrict to, int64_t n, int64_t channels) {
  for (int64_t x = 0; x < n; x++)
    for (int64_t c = 0; c < channels; c++) to[x * channels + c] = from[(n - 1 - x) * channels + c];
}

void sl_augment_apply(const sl_augment_draw *d, int64_t H, int64_t W, int64_t C, const uint8_t *from, uint8_t *to) {
  /* Columns [first, first + n) of a row come from the image; the others are border. */
  const int64_t cut = d->dx < 0 ? -(int64_t)d->dx : d->dx, n = cut < W ? W - cut : 0;
  const int64_t source = d->dx > 0 ? d->dx : 0, left = d->dx < 0 && n ? cut : 0, first = d->flip ? W - n - left : left;
  for (int64_t y = 0; y < H; y++) {
    uint8_t *row = to + y * W * C;
    const int64_t other = y + d->dy;
    if (other < 0 || other >= H || !n) {
      memset(row, 0, (size_t)(W * C));
      continue;
    }
    const uint8_t *pixels = from + (other * W + source) * C;
    memset(row, 0, (size_t)(first * C));
    memset(row + (first + n) * C, 0, (size_t)((W - first - n) * C));
    row += first * C;
    if (!d->flip)
      memcpy(row, pixels, (size_t)(n * C));
    else if (C == 1)
      mirror(pixels, row, n, 1);
    else if (C == 3)
      mirror(pixels, row, n, 3);
    else
      mirror(pixels, row, n, C);
  }
}
