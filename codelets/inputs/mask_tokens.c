/* mask_tokens: input and targets of a masked language model (Devlin et al. 2019, section 3.1). The operation chooses
 * 15% of the ordinary tokens. Of these, 80% become the mask token, 10% become a random ordinary token, and 10% stay.
 * The target of a chosen token is the token itself. Other tokens, and samples with a negative label (padding), have the
 * target -1. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(mask_tokens);

/* in: windows I32 [B, T], labels I32 [B]; out: tokens, targets I32 [B, T]. The work is too little to divide among a
 * team of threads. */
sl_status SL_KERNEL(mask_tokens)(const sl_call *c) {
  const sl_masking *m = c->attr;
  const int32_t *window = c->in[0].data, *label = c->in[1].data;
  const int64_t B = c->out[0].shape.dim[0], T = c->out[0].shape.dim[1];
  int32_t *token = c->out[0].data, *target = c->out[1].data;
  for (int64_t b = 0; b < B; b++)
    for (int64_t t = 0; t < T; t++) {
      uint32_t word[4];
      const int64_t i = b * T + t;
      sl_random_u32x4(c->step->seed, (uint64_t)c->step->number, c->key, (uint64_t)(c->row0 * T + i), word);
      const int32_t id = window[i];
      token[i] = sl_masked_token(m, id, word);
      target[i] = label[b] >= 0 && sl_masking_chosen(m, id, word) ? id : -1;
    }
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(mask_tokens);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in;
  const sl_masking *m = attr;
  const sl_shape *windows = &in[0]->shape, *labels = &in[1]->shape;
  if (in[0]->dtype != SL_I32 || in[1]->dtype != SL_I32 || windows->ndim != 2 || labels->ndim != 1) {
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    return sl_fail(SL_ESHAPE, "takes windows I32 [B, T] and labels I32 [B], not %s %s and %s %s",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(windows, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(labels, b, sizeof b));
  }
  if (m->mask < 0 || m->from < 0 || m->to <= m->from)
    return sl_fail(SL_EINVAL, "mask %d and ordinary tokens from %d up to %d: there must be a mask and some tokens",
                   (int)m->mask, (int)m->from, (int)m->to);
  for (int j = 0; j < n_out; j++) {
    out[j].dtype = SL_I32;
    out[j].shape = *windows;
  }
  return SL_OK;
}

const sl_operation sl_op_mask_tokens = {
    .name = "mask_tokens",
    .attr_bytes = sizeof(sl_masking),
    .shape = shape,
    .cpu = SL_KERNELS(mask_tokens),
    .cuda = SL_CUDA_KERNEL(mask_tokens),
};

sl_value sl_mask_tokens(sl_graph *graph, const char *layer, sl_value windows, sl_value labels,
                        const sl_masking *masking, sl_value *targets) {
  sl_value out[2];
  sl_graph_add(graph, &sl_op_mask_tokens, layer, masking, (sl_value[]){windows, labels}, 2, out, 2);
  *targets = out[1];
  return out[0];
}
#endif
