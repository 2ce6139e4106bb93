/* Scratch memory of the fast CUDA kernels of convolutions. They write the pixels under the taps of some windows to the
 * rows of a matrix; the images themselves are the matrix of a 1 x 1 convolution without a stride. For conv2d_cuda.cu
 * and the rules of scratch memory in conv2d.c and conv2d_dw.c. */
#ifndef SL_CONV2D_SIZES_H
#define SL_CONV2D_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "codelets/kernels/product_sizes.h"

/* The matrix comes first; then the filters in another order and a part of the result, of the gradient by x. */
typedef struct sl_conv2d_scratch {
  int in_place;              /* the images are the matrix */
  int64_t windows;           /* done at once */
  size_t filters, part, all; /* offsets and total, in bytes */
} sl_conv2d_scratch;

/* channels: under a tap; number: bytes of one of them; result: channels of a row of the gradient by x, else 0. */
static inline sl_conv2d_scratch sl_conv2d_scratch_of(int kernel, int stride, int pad, int64_t taps, int64_t channels,
                                                     int64_t windows, int64_t number, int64_t result) {
  sl_conv2d_scratch s = {kernel == 1 && stride == 1 && pad == 0, windows, 0, 0, 0};
  const int64_t k = taps * channels * number, row = s.in_place ? 0 : k,
                part = stride > 1 ? result * (int64_t)sizeof(float) : 0, longest = row > part ? row : part;
  if (longest > 0 && s.windows > sl__fast_bytes / longest) s.windows = sl__fast_bytes / longest;
  if (s.windows < 1) s.windows = 1;
  s.filters = ((size_t)(s.windows * row) + 255) / 256 * 256;
  s.part = s.filters + (kernel > 1 ? ((size_t)(k * result) + 255) / 256 * 256 : 0);
  s.all = s.part + ((size_t)(s.windows * part) + 255) / 256 * 256;
  return s;
}

#endif
