/* sequence_part and sequence_join on a GPU; compute the same as sequence.c. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

static size_t sample_bytes(const sl_array *a) { return (size_t)sl_shape_row(&a->shape) * sl_dtype_bytes(a->dtype); }

/* Copies `width` bytes of each sample, from byte `first` of a sample of `from` to byte `at` of a sample of `to`. */
static sl_status copy(const sl_array *to, size_t at, const sl_array *from, size_t first, size_t width, sl_cuda *cuda,
                      const char *operation) {
  const size_t samples = (size_t)to->shape.dim[0];
  if (samples == 0 || width == 0) return SL_OK;
  return sl_cuda_check(cudaMemcpy2DAsync((char *)to->data + at, sample_bytes(to), (const char *)from->data + first,
                                         sample_bytes(from), width, samples, cudaMemcpyDeviceToDevice, cuda->stream),
                       operation);
}

extern "C" sl_status sl__sequence_part_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t positions = c->in[0].shape.dim[1];
  const size_t position = sample_bytes(&c->in[0]) / (size_t)positions;
  const int64_t first = sl_sequence_from((const sl_sequence_attr *)c->attr, positions);
  return copy(&c->out[0], 0, &c->in[0], (size_t)first * position, sample_bytes(&c->out[0]), cuda, "sequence_part");
}

extern "C" sl_status sl__sequence_join_cuda(const sl_call *c, sl_cuda *cuda) {
  size_t at = 0;
  for (int k = 0; k < c->n_in; k++) {
    const size_t width = sample_bytes(&c->in[k]);
    const sl_status status = copy(&c->out[0], at, &c->in[k], 0, width, cuda, "sequence_join");
    if (status != SL_OK) return status;
    at += width;
  }
  return SL_OK;
}
