/* count_targets on a GPU; computes the same as count_targets.c. */
#include "codelets/kernels/cuda.h"

namespace {
struct counts {
  const int32_t *target;
  __device__ double operator()(int64_t i) const { return target[i] >= 0; }
};
}  // namespace

extern "C" sl_status sl__count_targets_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_sum(cuda, "count_targets", 0, sl_shape_count(&c->in[0].shape), counts{(const int32_t *)c->in[0].data},
                     sl_cuda_output(c, 0));
}
