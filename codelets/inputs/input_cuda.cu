/* input on a GPU: takes the samples of a shard from the copy made during the previous step, or from host memory. The
 * host array must not change until the step has ended. If it is in pinned memory, the copy runs in parallel with other
 * work; otherwise CUDA copies it through a staging buffer. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

extern "C" sl_status sl__input_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_input_attr *attr = (const sl_input_attr *)c->attr;
  const char *array = (const char *)c->step->input[attr->slot];
  if (!array) return sl_fail(SL_EINVAL, "input: the step has no array in slot %d", attr->slot);
  size_t row = (size_t)sl_shape_row(&c->out[0].shape) * sl_dtype_bytes(attr->dtype);
  const size_t bytes = (size_t)c->out[0].shape.dim[0] * row;
  if (c->batch)
    return sl_cuda_check(cudaMemcpyAsync(c->out[0].data, c->batch, bytes, cudaMemcpyDeviceToDevice, cuda->stream),
                         "input");
  return sl_cuda_check(cudaMemcpyAsync(c->out[0].data, array + (size_t)(c->row0 - c->step->input_row0) * row, bytes,
                                       cudaMemcpyHostToDevice, cuda->stream),
                       "input");
}
