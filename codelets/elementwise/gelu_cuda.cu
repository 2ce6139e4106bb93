/* gelu on a GPU; computes the same as gelu.c. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct erf_forward {
  __device__ float operator()(float x) const { return sl_gelu_erf(x); }
};
struct erf_backward {
  __device__ float operator()(float dy, float x) const { return dy * sl_gelu_erf_slope(x); }
};
struct tanh_forward {
  __device__ float operator()(float x) const { return sl_gelu_tanh(x); }
};
struct tanh_backward {
  __device__ float operator()(float dy, float x) const { return dy * sl_gelu_tanh_slope(x); }
};

sl_gelu_form form(const sl_call *c) { return ((const sl_gelu_attr *)c->attr)->form; }
}  // namespace

extern "C" sl_status sl__gelu_cuda(const sl_call *c, sl_cuda *cuda) {
  return form(c) == SL_GELU_ERF ? sl_cuda_map1(c, cuda, "gelu", erf_forward())
                                : sl_cuda_map1(c, cuda, "gelu", tanh_forward());
}

extern "C" sl_status sl__gelu_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return form(c) == SL_GELU_ERF ? sl_cuda_map2(c, cuda, "gelu_grad", erf_backward())
                                : sl_cuda_map2(c, cuda, "gelu_grad", tanh_backward());
}
