/* softmax on a GPU; computes the same as softmax.c. */
#include "codelets/kernels/cuda.h"

namespace {
struct forward {
  const float *from;
  float *to;
  int64_t V;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = from + i * V;
    float *y = to + i * V, max = -INFINITY;
    for (int64_t k = thread; k < V; k += T) max = sl_cuda_greater()(max, x[k]);
    max = sl_cuda_reduce<T>(max, sl_cuda_greater());
    const double sum = sl_cuda_sum_runs<T>(
        V, thread, [=](int64_t k) { return x[k]; },
        [=](int64_t k, float of_x, float part) {
          const float e = sl_exp(of_x - max);
          y[k] = e;
          return part + e;
        });
    const float scale = (float)(1 / sum);
    for (int64_t k = thread; k < V; k += T) y[k] *= scale;
  }
};

struct backward {
  const float *dout, *out;
  float *to;
  int64_t V;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *dy = dout + i * V, *y = out + i * V;
    float *dx = to + i * V;
    const float inner = (float)sl_cuda_sum_runs<T>(
        V, thread, [=](int64_t k) { return make_float2(dy[k], y[k]); },
        [](int64_t, float2 of_k, float part) { return sl_fmaf(of_k.x, of_k.y, part); });
    for (int64_t k = thread; k < V; k += T) dx[k] = y[k] * (dy[k] - inner);
  }
};

int64_t width(const sl_call *c) { return c->out[0].shape.dim[c->out[0].shape.ndim - 1]; }
int64_t rows(const sl_call *c) { return width(c) ? sl_shape_count(&c->out[0].shape) / width(c) : 0; }
}  // namespace

extern "C" sl_status sl__softmax_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(cuda, "softmax", rows(c), width(c),
                      forward{(const float *)c->in[0].data, (float *)c->out[0].data, width(c)});
}

extern "C" sl_status sl__softmax_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(
      cuda, "softmax_grad", rows(c), width(c),
      backward{(const float *)c->in[0].data, (const float *)c->in[1].data, (float *)c->out[0].data, width(c)});
}
