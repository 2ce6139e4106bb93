/* dropout on a GPU; the mask has the same bits as in dropout.c, since both use Philox. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

/* A thread takes the (up to) four elements of a Philox block; the piece may begin and end within a block. */
template <class T>
static __global__ void mask_kernel(int64_t n, uint64_t first, uint64_t seed, uint64_t number, uint32_t stream,
                                   uint64_t least, float scale, const T *x, T *y) {
  int64_t from = (int64_t)(first / 4), blocks = n ? (int64_t)((first + (uint64_t)n + 3) / 4) - from : 0;
  for (int64_t block = sl_cuda_index(); block < blocks; block += sl_cuda_stride()) {
    uint32_t word[4];
    sl_random_u32x4(seed, number, stream, (uint64_t)(from + block), word);
    int64_t begin = 4 * (from + block) - (int64_t)first;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int64_t i = begin + j;
      if (i >= 0 && i < n) sl_put(y + i, word[j] >= least ? sl_get(x + i) * scale : 0);
    }
  }
}

template <class T>
static sl_status dropout(const sl_call *c, sl_cuda *cuda) {
  const sl_dropout_attr *attr = (const sl_dropout_attr *)c->attr;
  int64_t n = sl_shape_count(&c->out[0].shape);
  if (n == 0) return SL_OK;
  mask_kernel<<<sl_cuda_grid((n + 3) / 4), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, (uint64_t)(c->row0 * sl_shape_row(&c->out[0].shape)), c->step->seed, (uint64_t)c->step->number,
      attr->fixed ? attr->key : c->key, (uint64_t)((double)attr->p * 4294967296.0), 1 / (1 - attr->p),
      (const T *)c->in[0].data, (T *)c->out[0].data);
  return sl_cuda_launched("dropout");
}

extern "C" sl_status sl__dropout_cuda(const sl_call *c, sl_cuda *cuda) {
  return (c->out[0].dtype == SL_BF16 ? dropout<sl_bf16> : dropout<float>)(c, cuda);
}
