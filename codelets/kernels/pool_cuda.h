/* What max-pooling and average-pooling share on a GPU: one thread per element; neighbouring threads work on
 * neighbouring channels. The gradients gather: the thread of a pixel adds up the windows of the pixel in order. So no
 * two threads write the same element. */
#ifndef SL_POOL_CUDA_H
#define SL_POOL_CUDA_H

#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

/* I is uint32_t if the arrays have fewer than 2^31 elements (its divisions are much cheaper), else int64_t. */
template <class I>
struct sl_pool_shape {
  int kernel, stride, pad;
  I height, width, rows, columns, C; /* image [height, width, C], result [rows, columns, C] */
};

template <class I>
static sl_pool_shape<I> sl_pool_shape_of(const sl_call *c, const sl_shape *result) {
  const sl_pool_attr *a = (const sl_pool_attr *)c->attr;
  return {a->kernel,         a->stride,         a->pad,           (I)a->height, (I)a->width,
          (I)result->dim[1], (I)result->dim[2], (I)result->dim[3]};
}

/* Launches kernel<I> with the smallest I that holds both arrays' elements and the grid's stride. */
#define SL_POOL_LAUNCH(name, kernel, c, cuda, result, n, ...)                                                          \
  do {                                                                                                                 \
    if ((n) == 0) return SL_OK;                                                                                        \
    if (sl_shape_count(&(c)->in[0].shape) < INT32_MAX && sl_shape_count(&(c)->out[0].shape) < INT32_MAX)               \
      kernel<uint32_t><<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, (cuda)->stream>>>(sl_pool_shape_of<uint32_t>(c, result), \
                                                                                (uint32_t)(n), __VA_ARGS__);           \
    else                                                                                                               \
      kernel<int64_t><<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, (cuda)->stream>>>(sl_pool_shape_of<int64_t>(c, result),   \
                                                                               (n), __VA_ARGS__);                      \
    return sl_cuda_launched(name);                                                                                     \
  } while (0)

#endif
