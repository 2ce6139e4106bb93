/* Dynamic loss scaling for fp16 (Micikevicius et al. 2018, "Mixed precision training", section 3.2): the backward pass
 * starts from a power of two, the scale, instead of 1, so that small gradients do not vanish in fp16, whose least
 * positive number is 2^-24. clip_factor divides by the scale before the update. If gradients overflow, the step halves
 * the scale and changes nothing else. After SL_LOSS_SCALE_GROWS steps without an overflow the scale doubles.
 *
 * The state, F32 [2]: the binary logarithm of the quotient of the scale and the first scale; the number of steps since
 * the scale changed. */
#include <math.h>

#include "codelets/attributes.h"
#include "codelets/kernels/math.h"
#include "codelets/optimizers/formulas.h"

SL_KERNEL_DECLARE(loss_scale);
SL_KERNEL_DECLARE(loss_scale_update);

static int64_t first_of(const sl_call *c) { return ((const sl_loss_scale_attr *)c->attr)->first; }

/* state -> F64 [1] */
sl_status SL_KERNEL(loss_scale)(const sl_call *c) {
  *(double *)c->out[0].data = ldexp(1, (int)((const float *)c->in[0].data)[0] + (int)first_of(c));
  return SL_OK;
}

/* state, guard, clip factor -> state, in place */
sl_status SL_KERNEL(loss_scale_update)(const sl_call *c) {
  sl_loss_scale_step(c->out[0].data, (float)first_of(c), *(const double *)c->in[1].data,
                     *(const double *)c->in[2].data);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(loss_scale);
SL_CUDA_DECLARE(loss_scale_update);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (in[0]->dtype != SL_F32 || sl_shape_count(&in[0]->shape) != 2)
    return sl_fail(SL_ESHAPE, "the state of a loss scale is F32 [2]");
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  return SL_OK;
}

static sl_status update_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)n_out;
  for (int i = 1; i < n_in; i++)
    if (in[i]->dtype != SL_F64 || sl_shape_count(&in[i]->shape) != 1)
      return sl_fail(SL_ESHAPE, "guard and clip factor are F64 [1], not %s", sl_dtype_name(in[i]->dtype));
  out[0].shape = in[0]->shape;
  return SL_OK;
}

const sl_operation sl_op_loss_scale = {
    .name = "loss_scale",
    .attr_bytes = sizeof(sl_loss_scale_attr),
    .shape = shape,
    .cpu = SL_KERNELS(loss_scale),
    .cuda = SL_CUDA_KERNEL(loss_scale),
};
const sl_operation sl_op_loss_scale_update = {
    .name = "loss_scale_update",
    .attr_bytes = sizeof(sl_loss_scale_attr),
    .shape = update_shape,
    .cpu = SL_KERNELS(loss_scale_update),
    .cuda = SL_CUDA_KERNEL(loss_scale_update),
    .update = {1},
};

static const char layer[] = "loss_scale";

sl_value sl_loss_scale(sl_graph *graph, int first, sl_value *state) {
  *state = sl_graph_tensor(graph, SL_ROLE_STATE, layer, "state", SL_F32, SL_SHAPE(2), (sl_init){SL_INIT_CONSTANT, 0});
  return sl_graph_add1(graph, &sl_op_loss_scale, layer, &(sl_loss_scale_attr){first}, state, 1);
}

void sl_loss_scale_update(sl_graph *graph, int first, sl_value state, sl_value guard, sl_value clip) {
  const sl_phase before = graph->phase;
  graph->phase = SL_PHASE_UPDATE;
  sl_graph_add1(graph, &sl_op_loss_scale_update, layer, &(sl_loss_scale_attr){first}, (sl_value[]){state, guard, clip},
                3);
  graph->phase = before;
}
#endif
