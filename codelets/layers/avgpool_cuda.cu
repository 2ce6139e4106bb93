/* avgpool on a GPU; computes the same as avgpool.c. */
#include "codelets/kernels/pool_cuda.h"

template <class I>
static __global__ void forward_kernel(sl_pool_shape<I> s, I n, const float *x, float *y) {
  const float scale = 1.0f / (float)(s.kernel * s.kernel);
  for (I e = (I)sl_cuda_index(); e < n; e += (I)sl_cuda_stride()) {
    I pixel = e / s.C, c = e - pixel * s.C, line = pixel / s.columns, b = line / s.rows;
    int i = (int)(line - b * s.rows), j = (int)(pixel - line * s.columns);
    sl_cuda_range h = sl_cuda_pixels(i, s.kernel, s.stride, s.pad, (int)s.height);
    sl_cuda_range w = sl_cuda_pixels(j, s.kernel, s.stride, s.pad, (int)s.width);
    const float *image = x + b * s.height * s.width * s.C + c;
    float sum = 0;
    for (int p = h.from; p < h.to; p++)
      for (int q = w.from; q < w.to; q++) sum += image[((I)p * s.width + (I)q) * s.C];
    y[e] = sum * scale;
  }
}

template <class I>
static __global__ void backward_kernel(sl_pool_shape<I> s, I n, const float *dy, float *dx) {
  const float scale = 1.0f / (float)(s.kernel * s.kernel);
  for (I e = (I)sl_cuda_index(); e < n; e += (I)sl_cuda_stride()) {
    I pixel = e / s.C, c = e - pixel * s.C, line = pixel / s.width, b = line / s.height;
    int h = (int)(line - b * s.height), w = (int)(pixel - line * s.width);
    sl_cuda_range rows = sl_cuda_windows(h, s.kernel, s.stride, s.pad, (int)s.rows);
    sl_cuda_range columns = sl_cuda_windows(w, s.kernel, s.stride, s.pad, (int)s.columns);
    float sum = 0;
    for (int i = rows.from; i < rows.to; i++)
      for (int j = columns.from; j < columns.to; j++)
        sum = sl_fma(dy[((b * s.rows + (I)i) * s.columns + (I)j) * s.C + c], scale, sum);
    dx[e] = sum;
  }
}

extern "C" sl_status sl__avgpool_cuda(const sl_call *c, sl_cuda *cuda) {
  SL_POOL_LAUNCH("avgpool", forward_kernel, c, cuda, &c->out[0].shape, sl_shape_count(&c->out[0].shape),
                 (const float *)c->in[0].data, (float *)c->out[0].data);
}

extern "C" sl_status sl__avgpool_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  SL_POOL_LAUNCH("avgpool_grad", backward_kernel, c, cuda, &c->in[0].shape, sl_shape_count(&c->out[0].shape),
                 (const float *)c->in[0].data, (float *)c->out[0].data);
}
