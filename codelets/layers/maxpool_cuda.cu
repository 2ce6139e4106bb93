/* maxpool on a GPU; computes the same as maxpool.c. */
#include "codelets/kernels/pool_cuda.h"

template <class I>
static __global__ void forward_kernel(sl_pool_shape<I> s, I n, const float *x, float *y, uint8_t *index) {
  for (I e = (I)sl_cuda_index(); e < n; e += (I)sl_cuda_stride()) {
    I pixel = e / s.C, c = e - pixel * s.C, line = pixel / s.columns, b = line / s.rows;
    int i = (int)(line - b * s.rows), j = (int)(pixel - line * s.columns);
    sl_cuda_range h = sl_cuda_pixels(i, s.kernel, s.stride, s.pad, (int)s.height);
    sl_cuda_range w = sl_cuda_pixels(j, s.kernel, s.stride, s.pad, (int)s.width);
    const float *image = x + b * s.height * s.width * s.C + c;
    float best = 0;
    int at = -1;
    for (int p = h.from; p < h.to; p++)
      for (int q = w.from; q < w.to; q++) {
        float v = image[((I)p * s.width + (I)q) * s.C];
        if (at < 0 || v > best || v != v) {
          best = v;
          at = (p - (i * s.stride - s.pad)) * s.kernel + (q - (j * s.stride - s.pad));
        }
      }
    y[e] = best;
    index[e] = (uint8_t)at;
  }
}

template <class I>
static __global__ void backward_kernel(sl_pool_shape<I> s, I n, const float *dy, const uint8_t *index, float *dx) {
  for (I e = (I)sl_cuda_index(); e < n; e += (I)sl_cuda_stride()) {
    I pixel = e / s.C, c = e - pixel * s.C, line = pixel / s.width, b = line / s.height;
    int h = (int)(line - b * s.height), w = (int)(pixel - line * s.width);
    sl_cuda_range rows = sl_cuda_windows(h, s.kernel, s.stride, s.pad, (int)s.rows);
    sl_cuda_range columns = sl_cuda_windows(w, s.kernel, s.stride, s.pad, (int)s.columns);
    const bool disjoint = s.stride == s.kernel && s.pad == 0; /* then dy is copied, with the sign of a zero */
    float sum = 0;
    for (int i = rows.from; i < rows.to; i++)
      for (int j = columns.from; j < columns.to; j++) {
        I from = ((b * s.rows + (I)i) * s.columns + (I)j) * s.C + c;
        if (index[from] == (h + s.pad - i * s.stride) * s.kernel + (w + s.pad - j * s.stride))
          sum = disjoint ? dy[from] : sum + dy[from];
      }
    dx[e] = sum;
  }
}

extern "C" sl_status sl__maxpool_cuda(const sl_call *c, sl_cuda *cuda) {
  SL_POOL_LAUNCH("maxpool", forward_kernel, c, cuda, &c->out[0].shape, sl_shape_count(&c->out[0].shape),
                 (const float *)c->in[0].data, (float *)c->out[0].data, (uint8_t *)c->out[1].data);
}

extern "C" sl_status sl__maxpool_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  SL_POOL_LAUNCH("maxpool_grad", backward_kernel, c, cuda, &c->in[0].shape, sl_shape_count(&c->out[0].shape),
                 (const float *)c->in[0].data, (const uint8_t *)c->in[1].data, (float *)c->out[0].data);
}
