/* target_rank on a GPU; computes the same as target_rank.c. */
#include "codelets/losses/rows_cuda.h"

namespace {
/* The number that a NaN adds to the count of logits before a target. It exceeds every possible count. */
constexpr int64_t NEVER = (int64_t)1 << 32;

struct compare {
  const float *logits;
  const int32_t *target;
  const double *sums;
  double *rank;
  int64_t V, from;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = logits + i * V, mine = (float)sums[i * SL_CLASS_SUMS + 1];
    const int64_t at = target[i] - from;
    const bool counts = target[i] >= 0;
    int64_t before = 0;
    for (int64_t j = thread; counts && j < V; j += T)
      before += x[j] != x[j] ? NEVER : x[j] > mine || (x[j] == mine && j < at);
    before = sl_cuda_reduce<T>(before, sl_cuda_plus());
    if (thread == 0) rank[i] = before >= NEVER ? (double)NAN : (double)before;
  }
};
}  // namespace

extern "C" sl_status sl__target_rank_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t V = c->in[0].shape.dim[c->in[0].shape.ndim - 1];
  return sl_cuda_rows(
      cuda, "target_rank", sl_shape_count(&c->in[1].shape), V,
      compare{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, (const double *)c->in[2].data,
              (double *)c->out[0].data, V, ((const sl_classes_attr *)c->attr)->from});
}
