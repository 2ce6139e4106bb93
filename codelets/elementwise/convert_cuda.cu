/* convert on a GPU; computes the same as convert.c. */
#include "codelets/kernels/cuda.h"

extern "C" sl_status sl__convert_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape);
  const sl_dtype from = c->in[0].dtype, to = c->out[0].dtype;
  if (from == SL_F32 && to == SL_BF16)
    return sl_cuda_map(cuda, "convert", sl_cuda_same(), n, (sl_bf16 *)c->out[0].data, (const float *)c->in[0].data);
  if (from == SL_BF16 && to == SL_F32)
    return sl_cuda_map(cuda, "convert", sl_cuda_same(), n, (float *)c->out[0].data, (const sl_bf16 *)c->in[0].data);
  if (from == SL_F32 && to == SL_F16)
    return sl_cuda_map(cuda, "convert", sl_cuda_same(), n, (sl_fp16 *)c->out[0].data, (const float *)c->in[0].data);
  if (from == SL_F16 && to == SL_F32)
    return sl_cuda_map(cuda, "convert", sl_cuda_same(), n, (float *)c->out[0].data, (const sl_fp16 *)c->in[0].data);
  return sl_fail(SL_EUNSUPPORTED, "convert cannot make %s of %s", sl_dtype_name(to), sl_dtype_name(from));
}
