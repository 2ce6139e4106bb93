/* embedding on a GPU; computes the same as embedding.c. One difference: a kernel cannot make the step fail at once, so
 * a token beyond the vocabulary gives NaN, and the check of the loss stops the run. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
/* Writes the rows of y for tokens row0 to row0 + rows - 1. With the table's first part, the kernel also writes NaN for
 * tokens beyond the vocabulary, and zeros for tokens of other folds. */
struct gather {
  const int32_t *token;
  const float *W;
  float *out;
  int64_t C, V, row0, rows, from, to; /* from, to: tokens of the table */
  bool first;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const int64_t at = token[i] - row0;
    const bool nowhere = first && (token[i] < 0 || token[i] >= V),
               elsewhere = first && !nowhere && (token[i] < from || token[i] >= to);
    if (!nowhere && !elsewhere && (at < 0 || at >= rows)) return;
    for (int64_t k = thread; k < C; k += T) out[i * C + k] = nowhere ? NAN : elsewhere ? 0 : W[at * C + k];
  }
};

/* If position i is the first with its id, block i adds up all positions with that id, in order. So one thread forms
 * each element. */
__global__ void grad_kernel(const int32_t *token, const float *dy, int64_t n, int64_t C, int64_t row0, int64_t rows,
                            float *dw) {
  __shared__ uint8_t same[SL_CUDA_THREADS];
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    const int32_t mine = token[i];
    const int64_t at = mine - row0;
    if (at < 0 || at >= rows) continue; /* the same for all threads of the block, as are the loops below */
    int earlier = 0;
    for (int64_t j = threadIdx.x; j < i; j += SL_CUDA_THREADS) earlier |= token[j] == mine;
    if (__syncthreads_or(earlier)) continue;
    for (int64_t from = i; from < n; from += SL_CUDA_THREADS) {
      const int64_t count = n - from < SL_CUDA_THREADS ? n - from : SL_CUDA_THREADS;
      const bool here = threadIdx.x < count && token[from + threadIdx.x] == mine;
      if (!__syncthreads_or(here)) continue;
      same[threadIdx.x] = here;
      __syncthreads();
      for (int64_t j = 0; j < count; j++)
        for (int64_t k = threadIdx.x; same[j] && k < C; k += SL_CUDA_THREADS) dw[at * C + k] += dy[(from + j) * C + k];
    }
  }
}
}  // namespace

extern "C" sl_status sl__embedding_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = c->out[0].shape.dim[c->out[0].shape.ndim - 1];
  const sl_embedding_attr *table = (const sl_embedding_attr *)c->attr;
  for (int p = 0; p < c->in[1].parts; p++) {
    const sl_array *W = &c->in[1].part[p];
    SL_TRY(sl_cuda_rows(
        cuda, "embedding", sl_shape_count(&c->in[0].shape), C,
        gather{(const int32_t *)c->in[0].data, (const float *)W->data, (float *)c->out[0].data, C, table->all,
               table->from + W->row0, W->shape.dim[0], table->from, table->from + table->rows, p == 0}));
  }
  return SL_OK;
}

extern "C" sl_status sl__embedding_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = c->in[0].shape.dim[c->in[0].shape.ndim - 1], n = sl_shape_count(&c->in[1].shape);
  float *dw = (float *)c->out[0].data;
  if (!(c->accumulate & 1))
    SL_TRY(sl_cuda_check(cudaMemsetAsync(dw, 0, (size_t)sl_shape_count(&c->out[0].shape) * sizeof *dw, cuda->stream),
                         "embedding_grad"));
  if (n == 0) return SL_OK;
  grad_kernel<<<sl_cuda_grid(n * SL_CUDA_THREADS), SL_CUDA_THREADS, 0, cuda->stream>>>(
      (const int32_t *)c->in[1].data, (const float *)c->in[0].data, n, C,
      ((const sl_embedding_attr *)c->attr)->from + c->out[0].row0, c->out[0].shape.dim[0], dw);
  return sl_cuda_launched("embedding_grad");
}
