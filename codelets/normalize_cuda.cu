/* normalize on a GPU; the meaning is normalize.c's. */
#include "codelets/attributes.h"
#include "codelets/cuda.h"

static __global__ void normalize_kernel(int64_t n, int64_t n4, float scale, float shift, const uint8_t *x, float *y) {
  for (int64_t i = sl_cuda_index(); i < n4; i += sl_cuda_stride()) {
    uchar4 v = ((const uchar4 *)x)[i];
    ((float4 *)y)[i] = make_float4((float)v.x * scale + shift, (float)v.y * scale + shift, (float)v.z * scale + shift,
                                   (float)v.w * scale + shift);
  }
  for (int64_t i = 4 * n4 + sl_cuda_index(); i < n; i += sl_cuda_stride()) y[i] = (float)x[i] * scale + shift;
}

extern "C" sl_status sl__normalize_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_normalize_attr *attr = (const sl_normalize_attr *)c->attr;
  int64_t n = sl_shape_count(&c->out[0].shape);
  int64_t n4 = sl_cuda_aligned(c->in[0].data) && sl_cuda_aligned(c->out[0].data) ? n / 4 : 0;
  normalize_kernel<<<sl_cuda_grid(n4 ? n4 : n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, n4, 1.0f / (255.0f * attr->deviation), -attr->mean / attr->deviation, (const uint8_t *)c->in[0].data,
      (float *)c->out[0].data);
  return sl_cuda_launched("normalize");
}
