/* count_targets: the number of targets >= 0 in the batch; losses divide by it. */
#include "codelets/kernels/cuda_sums.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(count_targets);

sl_status SL_KERNEL(count_targets)(const sl_call *c) {
  const int32_t *target = c->in[0].data;
  int64_t n = sl_shape_count(&c->in[0].shape), count = 0;
  for (int64_t i = 0; i < n; i++) count += target[i] >= 0;
  double *out = c->out[0].data;
  *out = c->accumulate & 1 ? *out + (double)count : (double)count;
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(count_targets);

static size_t scratch_cuda(const sl_call *c) { return (void)c, SL_CUDA_SUM_BYTES; }

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (in[0]->dtype != SL_I32) return sl_fail(SL_ESHAPE, "targets are I32, not %s", sl_dtype_name(in[0]->dtype));
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

const sl_operation sl_op_count_targets = {
    .name = "count_targets",
    .shape = shape,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(count_targets),
    .cuda = SL_CUDA_KERNEL(count_targets),
};

sl_value sl_count_targets(sl_graph *graph, const char *layer, sl_value targets) {
  return sl_graph_add1(graph, &sl_op_count_targets, layer, NULL, &targets, 1);
}
#endif
