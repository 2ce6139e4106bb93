/* Visits the pixels of every window, for the references of max- and average-pooling. */
#ifndef TESTS_POOL_H
#define TESTS_POOL_H

#include "tests/codelets/cases.h"

static const sl_pool_attr pool_2x2 = {2, 2, 0, 7, 10}, pool_3x3 = {3, 2, 1, 7, 9}, pool_overlap = {3, 1, 1, 5, 6},
                          pool_gaps = {2, 3, 0, 7, 9}, pool_whole = {5, 5, 0, 5, 5}, pool_lenet = {2, 2, 0, 24, 24},
                          pool_resnet = {3, 2, 1, 112, 112};

/* visit(arg, index of the output element, index of the input element or -1 in the padding, place in the window). */
static inline void pool_windows(const sl_pool_attr *a, const sl_shape *x, const sl_shape *y,
                                void (*visit)(void *arg, int64_t out, int64_t in, int place), void *arg) {
  const int64_t H = x->dim[1], W = x->dim[2], C = x->dim[3];
  int64_t out = 0;
  for (int64_t b = 0; b < y->dim[0]; b++)
    for (int64_t i = 0; i < y->dim[1]; i++)
      for (int64_t j = 0; j < y->dim[2]; j++)
        for (int64_t c = 0; c < C; c++, out++)
          for (int p = 0; p < a->kernel * a->kernel; p++) {
            int64_t h = i * a->stride - a->pad + p / a->kernel, w = j * a->stride - a->pad + p % a->kernel;
            visit(arg, out, h < 0 || h >= H || w < 0 || w >= W ? -1 : ((b * H + h) * W + w) * C + c, p);
          }
}

#endif
