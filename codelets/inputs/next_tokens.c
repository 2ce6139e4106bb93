/* next_tokens: input and targets of a language model, from windows that hold one token more than the model reads.
 * Position t reads token t, and its target is token t + 1. A sample with a negative label (padding) has the targets
 * -1. */
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(next_tokens);

/* in: windows I32 [B, T + 1], labels I32 [B]; out: tokens, targets I32 [B, T]. The work is too little to divide among a
 * team of threads. */
sl_status SL_KERNEL(next_tokens)(const sl_call *c) {
  const int32_t *window = c->in[0].data, *label = c->in[1].data;
  const int64_t B = c->out[0].shape.dim[0], T = c->out[0].shape.dim[1];
  int32_t *token = c->out[0].data, *target = c->out[1].data;
  for (int64_t b = 0; b < B; b++, window += T + 1, token += T, target += T) {
    memcpy(token, window, (size_t)T * sizeof *token);
    if (label[b] >= 0)
      memcpy(target, window + 1, (size_t)T * sizeof *target);
    else
      for (int64_t t = 0; t < T; t++) target[t] = -1;
  }
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(next_tokens);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in;
  const sl_shape *windows = &in[0]->shape, *labels = &in[1]->shape;
  if (in[0]->dtype != SL_I32 || in[1]->dtype != SL_I32 || windows->ndim != 2 || windows->dim[1] < 2 ||
      labels->ndim != 1) {
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    return sl_fail(SL_ESHAPE, "takes windows I32 [B, T + 1] with T > 0 and labels I32 [B], not %s %s and %s %s",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(windows, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(labels, b, sizeof b));
  }
  for (int j = 0; j < n_out; j++) {
    out[j].dtype = SL_I32;
    out[j].shape = SL_SHAPE(windows->dim[0], windows->dim[1] - 1);
  }
  return SL_OK;
}

const sl_operation sl_op_next_tokens = {
    .name = "next_tokens",
    .shape = shape,
    .cpu = SL_KERNELS(next_tokens),
    .cuda = SL_CUDA_KERNEL(next_tokens),
};

sl_value sl_next_tokens(sl_graph *graph, const char *layer, sl_value windows, sl_value labels, sl_value *targets) {
  sl_value out[2];
  sl_graph_add(graph, &sl_op_next_tokens, layer, NULL, (sl_value[]){windows, labels}, 2, out, 2);
  *targets = out[1];
  return out[0];
}
#endif
