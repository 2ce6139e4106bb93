/* Where the chains of convolutions end, on CPUs and GPUs alike. conv2d_dw sums over blocks of output pixels; conv2d and
 * conv2d_dx sum over pieces of channels. */
#ifndef SL_CONV2D_BLOCKS_H
#define SL_CONV2D_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "codelets/kernels/product_sizes.h"

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

/* The fast CUDA kernels write the pixels under the taps of some windows to the rows of a matrix, which takes at most
 * sl__fast_bytes of scratch memory. The functions return how many windows are done at once, if the longest row
 * for a window has `longest` bytes; and the bytes for their rows of `row` bytes. */
static inline int64_t sl_conv2d_stretch(int64_t windows, int64_t longest) {
  const int64_t n = sl__fast_bytes / (longest > 0 ? longest : 1);
  return n < 1 ? 1 : n < windows ? n : windows;
}
static inline size_t sl_conv2d_rows_bytes(int64_t windows, int64_t row, int64_t longest) {
  return ((size_t)(sl_conv2d_stretch(windows, longest) * row) + 255) / 256 * 256;
}
/* Scratch memory of a product of the gradient by x, in this order: the matrix, filters in another order, a part of the
 * result. taps, O: of the phase; C: channels; windows: pixels of the phase; number: bytes of a number. */
typedef struct sl_conv2d_dx_scratch {
  int64_t longest;
  size_t filters, part, all; /* offsets, total */
} sl_conv2d_dx_scratch;
static inline sl_conv2d_dx_scratch sl_conv2d_dx_scratch_of(int kernel, int stride, int64_t taps, int64_t O, int64_t C,
                                                           int64_t windows, int64_t number) {
  const int64_t row = taps * O * number, part = stride > 1 ? C * (int64_t)sizeof(float) : 0;
  sl_conv2d_dx_scratch s;
  s.longest = row > part ? row : part;
  s.filters = sl_conv2d_rows_bytes(windows, row, s.longest);
  s.part = s.filters + (kernel > 1 ? ((size_t)(row * C) + 255) / 256 * 256 : 0);
  s.all = s.part + sl_conv2d_rows_bytes(windows, part, s.longest);
  return s;
}

#endif
