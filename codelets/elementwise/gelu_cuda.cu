/* gelu on a GPU; the meaning is gelu.c's. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
constexpr float SQRT_HALF = 0.70710678118654752f, SQRT_2_BY_PI = 0.79788456080286536f;

struct erf_forward {
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * SQRT_HALF)); }
};
struct erf_backward {
  __device__ float operator()(float dy, float x) const {
    float density = 0.39894228040143268f * expf(-0.5f * x * x);
    return dy * (0.5f + 0.5f * erff(x * SQRT_HALF) + x * density);
  }
};
/* exp(-2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
__device__ inline float tanh_exp(float x) {
  return expf(x * (x * x * (-2 * 0.044715f * SQRT_2_BY_PI) - 2 * SQRT_2_BY_PI));
}
struct tanh_forward {
  __device__ float operator()(float x) const { return x * (1.0f / (1.0f + tanh_exp(x))); }
};
/* s + 2 x u' s (1 - s), s = 1 / (1 + e), where 1 - s = e s. Beyond 9 s is 0 or 1, and e stays finite before; a NaN
 * stays. */
struct tanh_backward {
  __device__ float operator()(float dy, float x) const {
    x = x > 9 ? 9 : x < -9 ? -9 : x;
    float e = tanh_exp(x), s = 1.0f / (1.0f + e), slope2 = x * x * (6 * 0.044715f * SQRT_2_BY_PI) + 2 * SQRT_2_BY_PI;
    return dy * (s + x * slope2 * (e * s) * s);
  }
};

sl_gelu_form form(const sl_call *c) { return ((const sl_gelu_attr *)c->attr)->form; }
}  // namespace

extern "C" sl_status sl__gelu_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t n = sl_shape_count(&c->out[0].shape);
  const float *x = (const float *)c->in[0].data;
  float *y = (float *)c->out[0].data;
  return form(c) == SL_GELU_ERF ? sl_cuda_map(cuda, "gelu", erf_forward(), n, y, x)
                                : sl_cuda_map(cuda, "gelu", tanh_forward(), n, y, x);
}

extern "C" sl_status sl__gelu_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t n = sl_shape_count(&c->out[0].shape);
  const float *dy = (const float *)c->in[0].data, *x = (const float *)c->in[1].data;
  float *dx = (float *)c->out[0].data;
  return form(c) == SL_GELU_ERF ? sl_cuda_map(cuda, "gelu_grad", erf_backward(), n, dx, dy, x)
                                : sl_cuda_map(cuda, "gelu_grad", tanh_backward(), n, dx, dy, x);
}
