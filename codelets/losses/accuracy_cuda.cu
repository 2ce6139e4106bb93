/* accuracy on a GPU; computes the same as accuracy.c. The first pass marks each row whose target is among the k largest
 * logits (one byte a row, after the partial sums in scratch memory). The second pass counts the marks. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
/* The place of a target in a row with a NaN. It is larger than any k. */
constexpr int64_t NEVER = (int64_t)1 << 32;

struct compare {
  const float *logits;
  const int32_t *target;
  int64_t V;
  int k;
  uint8_t *hit;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = logits + i * V;
    const int64_t at = target[i];
    const bool counts = at >= 0 && at < V;
    const float mine = counts ? x[at] : INFINITY;
    int64_t before = 0;
    for (int64_t j = thread; counts && j < V; j += T)
      before += x[j] != x[j] ? NEVER : x[j] > mine || (x[j] == mine && j < at);
    before = sl_cuda_reduce<T>(before, sl_cuda_plus());
    if (thread == 0) hit[i] = counts && before < k;
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
                      compare{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, V,
                              ((const sl_accuracy_attr *)c->attr)->k, hit}));
  return sl_cuda_sum(cuda, "accuracy", 0, rows, hits{hit}, sl_cuda_output(c, 0));
}
