/* convert on a GPU; the meaning is convert.c's. */
#include "codelets/kernels/cuda.h"

static __global__ void narrow_kernel(int64_t n, const float *x, uint16_t *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    const uint32_t u = __float_as_uint(x[i]);
    y[i] = (uint16_t)((x[i] != x[i] ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
}

static __global__ void widen_kernel(int64_t n, const uint16_t *x, float *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) y[i] = __uint_as_float((uint32_t)x[i] << 16);
}

extern "C" sl_status sl__convert_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  const sl_dtype from = c->in[0].dtype, to = c->out[0].dtype;
  if (from == SL_F32 && to == SL_BF16)
    narrow_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(n, (const float *)c->in[0].data,
                                                                         (uint16_t *)c->out[0].data);
  else if (from == SL_BF16 && to == SL_F32)
    widen_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(n, (const uint16_t *)c->in[0].data,
                                                                        (float *)c->out[0].data);
  else
    return sl_fail(SL_EUNSUPPORTED, "convert cannot make %s of %s", sl_dtype_name(to), sl_dtype_name(from));
  return sl_cuda_launched("convert");
}
