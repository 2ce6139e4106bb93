/* count_ranks on a GPU; computes the same as count_ranks.c. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct counts {
  const double *rank;
  const int32_t *target;
  int k;
  __device__ double operator()(int64_t i) const { return target[i] >= 0 && rank[i] < k; }
};
}  // namespace

extern "C" sl_status sl__count_ranks_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_sum(
      cuda, "count_ranks", 0, sl_shape_count(&c->in[1].shape),
      counts{(const double *)c->in[0].data, (const int32_t *)c->in[1].data, ((const sl_accuracy_attr *)c->attr)->k},
      sl_cuda_output(c, 0));
}
