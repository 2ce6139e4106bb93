/* add on a GPU; computes the same as add.c. */
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
  if (c->out[0].dtype != SL_F64) return sl_cuda_map2(c, cuda, "add", plus());
  const int64_t n = sl_shape_count(&c->out[0].shape);
  add_f64_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, (const double *)c->in[0].data, (const double *)c->in[1].data, (double *)c->out[0].data);
  return sl_cuda_launched("add");
}
