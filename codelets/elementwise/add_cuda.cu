/* add on a GPU; the meaning is add.c's. */
#include "codelets/kernels/cuda.h"

namespace {
struct plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
}  // namespace

static __global__ void add_f64_kernel(int64_t n, const double *a, const double *b, double *y) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) y[i] = a[i] + b[i];
}

extern "C" sl_status sl__add_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t n = sl_shape_count(&c->out[0].shape);
  const void *a = c->in[0].data, *b = c->in[1].data;
  void *y = c->out[0].data;
  if (c->out[0].dtype == SL_F32)
    return sl_cuda_map(cuda, "add", plus(), n, (float *)y, (const float *)a, (const float *)b);
  add_f64_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(n, (const double *)a, (const double *)b,
                                                                        (double *)y);
  return sl_cuda_launched("add");
}
