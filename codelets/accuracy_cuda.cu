/* accuracy on a GPU; the meaning is accuracy.c's. A first pass says of each row whether it is a hit (a byte, behind the
 * partial sums in the scratch memory), a second counts them. */
#include "codelets/cuda.h"

namespace {
struct least {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};
struct compare {
  const float *logits;
  const int32_t *target;
  int64_t V;
  uint8_t *hit;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = logits + i * V;
    float best = -INFINITY;
    for (int64_t k = thread; k < V; k += T) best = sl_cuda_greater()(best, x[k]);
    best = sl_cuda_reduce<T>(best, sl_cuda_greater());
    int64_t first = V; /* stays so where the best is NaN */
    for (int64_t k = thread; k < V && first == V; k += T)
      if (x[k] == best) first = k;
    first = sl_cuda_reduce<T>(first, least());
    if (thread == 0) hit[i] = first < V && first == target[i];
  }
};
struct hits {
  const uint8_t *hit;
  __device__ double operator()(int64_t i) const { return hit[i]; }
};
}  // namespace

extern "C" sl_status sl__accuracy_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t rows = sl_shape_count(&c->in[1].shape), V = c->in[0].shape.dim[c->in[0].shape.ndim - 1];
  uint8_t *hit = (uint8_t *)cuda->scratch + SL_CUDA_SUM_BYTES;
  SL_TRY(sl_cuda_scratch(cuda, SL_CUDA_SUM_BYTES + (size_t)rows, "accuracy"));
  SL_TRY(sl_cuda_rows(cuda, "accuracy", rows, V,
                      compare{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, V, hit}));
  return sl_cuda_sum(cuda, "accuracy", 0, rows, hits{hit}, sl_cuda_output(c, 0));
}
