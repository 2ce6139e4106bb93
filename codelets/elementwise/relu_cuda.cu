/* relu on a GPU; computes the same as relu.c. */
#include "codelets/kernels/cuda.h"

namespace {
struct forward {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }
};
struct backward {
  __device__ float operator()(float dy, float y) const { return y > 0 ? dy : 0; }
};
}  // namespace

extern "C" sl_status sl__relu_cuda(const sl_call *c, sl_cuda *cuda) { return sl_cuda_map1(c, cuda, "relu", forward()); }

extern "C" sl_status sl__relu_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_map2(c, cuda, "relu_grad", backward());
}
