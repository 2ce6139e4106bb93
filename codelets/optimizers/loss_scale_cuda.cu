/* loss_scale on a GPU; computes the same as loss_scale.c. */
#include "codelets/kernels/cuda.h"
#include "codelets/optimizers/formulas.h"

static int first_of(const sl_call *c) { return (int)((const sl_loss_scale_attr *)c->attr)->first; }

static __global__ void scale_kernel(const float *state, int first, double *scale) {
  const int exponent = (int)state[0] + first;
  *scale = sl_of_bits_d((int64_t)(exponent + 1023) << 52);
}
static __global__ void update_kernel(float *state, int first, const double *guard, const double *clip) {
  sl_loss_scale_step(state, (float)first, *guard, *clip);
}

extern "C" sl_status sl__loss_scale_cuda(const sl_call *c, sl_cuda *cuda) {
  scale_kernel<<<1, 1, 0, cuda->stream>>>((const float *)c->in[0].data, first_of(c), (double *)c->out[0].data);
  return sl_cuda_launched("loss_scale");
}

extern "C" sl_status sl__loss_scale_update_cuda(const sl_call *c, sl_cuda *cuda) {
  update_kernel<<<1, 1, 0, cuda->stream>>>((float *)c->out[0].data, first_of(c), (const double *)c->in[1].data,
                                           (const double *)c->in[2].data);
  return sl_cuda_launched("loss_scale_update");
}
