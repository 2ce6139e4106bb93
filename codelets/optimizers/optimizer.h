/* Shared by the optimizers: the shape rule of their updates, and the function that adds an update node. An update is
 * (parameter, gradient, states..., guard[, clip]) -> (parameter, states...), in place; all but guard and clip may be
 * cut into row blocks. */
#ifndef SL_OPTIMIZER_H
#define SL_OPTIMIZER_H

#include "codelets/kernels/math.h"
#include "codelets/optimizers/formulas.h"
#include "codelets/training.h"

/* Number of elements that a kernel's chunk function computes at once. The end of an array is padded and goes through
 * the same function, so the bits of an element never depend on how the array is cut. */
enum { SL_CHUNK = 64 };

/* For a call with `states` state arrays: returns 1 if loss and clip factor are finite and the factor is not 0 (an
 * overflow in fp16), so that the step may update; sets *clip to the factor of gradients. */
static inline int sl_optimizer_may(const sl_call *c, int states, float *clip) {
  const double factor = c->n_in > states + 3 ? *(const double *)c->in[states + 3].data : 1.0;
  *clip = (float)factor;
  return sl_may_update(*(const double *)c->in[states + 2].data, &factor);
}

#ifdef SL_ISA_BASE
static sl_status optimizer_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                                 int n_out) {
  (void)attr;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  if (in[0]->dtype != SL_F32 || in[1]->dtype != SL_F32 || !sl_shape_equal(&in[0]->shape, &in[1]->shape))
    return sl_fail(SL_ESHAPE, "parameter '%s' %s %s and its gradient %s %s must be F32 of one shape", in[0]->name,
                   sl_dtype_name(in[0]->dtype), sl_shape_text(&in[0]->shape, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(&in[1]->shape, b, sizeof b));
  for (int i = n_out + 1; i < n_in; i++)
    if (in[i]->dtype != SL_F64 || sl_shape_count(&in[i]->shape) != 1)
      return sl_fail(SL_ESHAPE, "%s is F64 [1], not %s %s", i == n_out + 1 ? "the guard" : "the clip factor",
                     sl_dtype_name(in[i]->dtype), sl_shape_text(&in[i]->shape, a, sizeof a));
  for (int j = 0; j < n_out; j++) out[j].shape = in[0]->shape;
  return SL_OK;
}

/* Adds an update node for `parameter`, with the state tensors of the rule, whose initial values are zeros. */
static inline void optimizer_add(sl_graph *graph, const sl_optimizer_rule *rule, const sl_operation *op,
                                 const void *attr, sl_value parameter, sl_value gradient, sl_value guard,
                                 sl_value clip) {
  const sl_value_info *info = sl_graph_value(graph, parameter);
  if (!info) return;
  sl_value in[8] = {parameter, gradient}, out[SL_MAX_OUT];
  int n = 0;
  for (; rule->state[n]; n++)
    in[2 + n] = sl_graph_tensor(graph, SL_ROLE_STATE, info->name, rule->state[n], SL_F32, info->shape,
                                (sl_init){SL_INIT_CONSTANT, 0});
  in[2 + n] = guard;
  in[3 + n] = clip;
  sl_phase before = graph->phase;
  graph->phase = SL_PHASE_UPDATE;
  sl_graph_add(graph, op, info->name, attr, in, clip == SL_NONE ? n + 3 : n + 4, out, n + 1);
  graph->phase = before;
}
#endif
#endif
