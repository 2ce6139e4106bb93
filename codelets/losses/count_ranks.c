/* count_ranks: the number of targets >= 0 that have fewer than k logits before them (target_rank). */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda_sums.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(count_ranks);

/* ranks F64 [B, ...], targets I32 [B, ...] -> F64 [1]. */
sl_status SL_KERNEL(count_ranks)(const sl_call *c) {
  const double *rank = c->in[0].data;
  const int32_t *target = c->in[1].data;
  const int k = ((const sl_accuracy_attr *)c->attr)->k;
  int64_t count = 0;
  for (int64_t i = 0; i < sl_shape_count(&c->in[1].shape); i++) count += target[i] >= 0 && rank[i] < k;
  double *out = c->out[0].data;
  *out = c->accumulate & 1 ? *out + (double)count : (double)count;
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(count_ranks);

static size_t scratch_cuda(const sl_call *c) { return (void)c, SL_CUDA_SUM_BYTES; }

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  if (in[0]->dtype != SL_F64 || in[1]->dtype != SL_I32 || !sl_shape_equal(&in[0]->shape, &in[1]->shape))
    return sl_fail(SL_ESHAPE, "ranks %s %s and targets %s %s: takes F64 and I32 of one shape",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(&in[0]->shape, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(&in[1]->shape, b, sizeof b));
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

const sl_operation sl_op_count_ranks = {
    .name = "count_ranks",
    .attr_bytes = sizeof(sl_accuracy_attr),
    .shape = shape,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(count_ranks),
    .cuda = SL_CUDA_KERNEL(count_ranks),
};
#endif
