/* Shared by linear layers and convolutions: scratch memory in whole cache lines, the check of types, the bytes that a
 * task moves, and the gradient rule, which adds one node for x and one for weights and bias together. */
#ifndef SL_WEIGHTS_KERNEL_H
#define SL_WEIGHTS_KERNEL_H

#include "codelets/kernels/product.h"

/* Bytes of n floats, rounded up to whole cache lines. */
static inline size_t sl_float_bytes(int64_t n) { return (size_t)sl_round_up(n, 16) * sizeof(float); }
/* A thread's own scratch memory, which begins `offset` bytes after the shared part. */
static inline float *sl_own_scratch(const sl_call *c, int thread, size_t offset) {
  return (float *)((char *)c->team->scratch[thread] + offset);
}

#ifdef SL_ISA_BASE
static sl_status weights_check(const sl_value_info *const *in, int n_in) {
  for (int i = 0; i < n_in; i++)
    if (in[i]->dtype != SL_F32) return sl_fail(SL_ESHAPE, "takes F32, not %s", sl_dtype_name(in[i]->dtype));
  return SL_OK;
}

/* All parts of the inputs are read once; outputs that the call adds to are read too. */
static double weights_bytes(const sl_call *c) {
  double sum = 0;
  for (int i = 0; i < c->n_in; i++)
    for (int part = 0; part < c->in[i].parts; part++) sum += (double)sl_shape_count(&c->in[i].part[part].shape);
  for (int i = 0; i < c->n_out; i++) sum += (1 + (c->accumulate >> i & 1)) * (double)sl_shape_count(&c->out[i].shape);
  return sum * sizeof(float);
}

/* node's inputs are x, weights and perhaps a bias; dx takes (dy, weights), dw takes (dy, x) and gives the gradients of
 * weights and bias. */
static void weights_gradient(sl_graph *graph, const sl_node *node, sl_value dy, const int *need, sl_value *din,
                             const sl_operation *dx, const sl_operation *dw) {
  const void *attr = dx->attr_bytes ? node->attr : NULL;
  sl_value sums[2] = {SL_NONE, SL_NONE};
  if (need[0]) din[0] = sl_graph_add1(graph, dx, node->name, attr, (sl_value[]){dy, node->in[1]}, 2);
  const int bias = node->n_in > 2 && need[2];
  if (!need[1] && !bias) return;
  sl_graph_add(graph, dw, node->name, attr, (sl_value[]){dy, node->in[0]}, 2, sums, 1 + bias);
  if (need[1]) din[1] = sums[0];
  if (bias) din[2] = sums[1];
}
#endif
#endif
