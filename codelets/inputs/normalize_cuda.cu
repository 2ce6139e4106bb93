/* normalize on a GPU; computes the same as normalize.c. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

/* Scale and shift of each of C channels: y = x scale + shift. */
struct affine {
  int C;
  float scale[SL_MAX_CHANNELS], shift[SL_MAX_CHANNELS];
  __device__ float of(uint8_t x, int64_t i) const {
    const int k = C == 1 ? 0 : (int)(i % C);
    return sl_fmaf((float)x, scale[k], shift[k]);
  }
};

static __global__ void normalize_kernel(int64_t n, int64_t n4, affine a, const uint8_t *x, float *y) {
  for (int64_t i = sl_cuda_index(); i < n4; i += sl_cuda_stride()) {
    uchar4 v = ((const uchar4 *)x)[i];
    ((float4 *)y)[i] = make_float4(a.of(v.x, 4 * i), a.of(v.y, 4 * i + 1), a.of(v.z, 4 * i + 2), a.of(v.w, 4 * i + 3));
  }
  for (int64_t i = 4 * n4 + sl_cuda_index(); i < n; i += sl_cuda_stride()) y[i] = a.of(x[i], i);
}

extern "C" sl_status sl__normalize_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_normalize_attr *attr = (const sl_normalize_attr *)c->attr;
  int64_t n = sl_shape_count(&c->out[0].shape);
  int64_t n4 =
      sl_cuda_aligned((const uint8_t *)c->in[0].data) && sl_cuda_aligned((const float *)c->out[0].data) ? n / 4 : 0;
  affine a = {attr->channels, {0}, {0}};
  for (int k = 0; k < a.C; k++)
    a.scale[k] = 1.0f / (255.0f * attr->deviation[k]), a.shift[k] = -attr->mean[k] / attr->deviation[k];
  normalize_kernel<<<sl_cuda_grid(n4 ? n4 : n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, n4, a, (const uint8_t *)c->in[0].data, (float *)c->out[0].data);
  return sl_cuda_launched("normalize");
}
