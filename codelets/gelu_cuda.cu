/* gelu on a GPU; the meaning is gelu.c's. */
#include "codelets/attributes.h"
#include "codelets/cuda.h"

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
/* (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3) */
__device__ inline float tanh_factor(float x) {
  return 1.0f / (1.0f + expf(x * (x * x * (-2 * 0.044715f * SQRT_2_BY_PI) - 2 * SQRT_2_BY_PI)));
}
struct tanh_forward {
  __device__ float operator()(float x) const { return x * tanh_factor(x); }
};
struct tanh_backward {
  __device__ float operator()(float dy, float x) const {
    x = x > 16 ? 16 : x < -16 ? -16 : x; /* beyond, the slope is 0 or 1; a NaN stays */
    float s = tanh_factor(x), slope2 = x * x * (6 * 0.044715f * SQRT_2_BY_PI) + 2 * SQRT_2_BY_PI; /* 2 du/dx */
    return dy * (s + x * slope2 * (s * (1.0f - s)));
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
