/* mask_tokens on a GPU; the same bits as mask_tokens.c, since both use Philox. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

static __global__ void mask_tokens_kernel(int64_t n, int64_t T, uint64_t first, uint64_t seed, uint64_t number,
                                          uint32_t stream, sl_masking m, const int32_t *window, const int32_t *label,
                                          int32_t *token, int32_t *target) {
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) {
    uint32_t word[4];
    sl_random_u32x4(seed, number, stream, first + (uint64_t)i, word);
    const int32_t id = window[i];
    token[i] = sl_masked_token(&m, id, word);
    target[i] = label[i / T] >= 0 && sl_masking_chosen(&m, id, word) ? id : -1;
  }
}

extern "C" sl_status sl__mask_tokens_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_count(&c->out[0].shape), T = c->out[0].shape.dim[1];
  if (n == 0) return SL_OK;
  mask_tokens_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, T, (uint64_t)(c->row0 * T), c->step->seed, (uint64_t)c->step->number, c->key, *(const sl_masking *)c->attr,
      (const int32_t *)c->in[0].data, (const int32_t *)c->in[1].data, (int32_t *)c->out[0].data,
      (int32_t *)c->out[1].data);
  return sl_cuda_launched("mask_tokens");
}
