/* Where the chains of convolutions end, on CPUs and GPUs alike. conv2d_dw sums over blocks of output pixels; conv2d and
 * conv2d_dx sum over pieces of channels. */
#ifndef SL_CONV2D_BLOCKS_H
#define SL_CONV2D_BLOCKS_H

#include <stdint.h>

/* Approximate number of pixels in a block: several images, one image, or some rows of an image. */
enum { SL_CONV2D_BLOCK = 256 };

/* Numbers of groups of images, rows and columns; blocks are numbered with columns the fastest. */
typedef struct sl_conv2d_blocks {
  int64_t images, rows, columns;
} sl_conv2d_blocks;

/* The blocks of B images of OH x OW output pixels. taps: number of taps of the kernel. A product of matrices has one
 * tap, and all its pixels are in one row of one image. */
static inline sl_conv2d_blocks sl_conv2d_blocks_of(int64_t B, int64_t OH, int64_t OW, int64_t taps) {
  const int64_t pixels = OH * OW > 1 ? OH * OW : 1,
                together = SL_CONV2D_BLOCK / pixels > 1 ? SL_CONV2D_BLOCK / pixels : 1;
  const int64_t images = (B + together - 1) / together, rows = (pixels + SL_CONV2D_BLOCK - 1) / SL_CONV2D_BLOCK;
  const int64_t columns = taps == 1 && B * OH == 1 ? (OW + SL_CONV2D_BLOCK - 1) / SL_CONV2D_BLOCK : 1;
  const int64_t lines = rows < OH ? rows : OH;
  sl_conv2d_blocks g = {images > 1 ? images : 1, lines > 1 ? lines : 1, columns > 1 ? columns : 1};
  return g;
}
static inline int64_t sl_conv2d_blocks_count(const sl_conv2d_blocks *g) { return g->images * g->rows * g->columns; }

/* Number of pieces of C channels under `taps` taps, each of about `depth` terms. */
static inline int64_t sl_conv2d_pieces(int64_t taps, int64_t C, int64_t depth) {
  const int64_t n = (taps * C + depth - 1) / depth, most = n < C ? n : C;
  return most > 1 ? most : 1;
}

#endif
