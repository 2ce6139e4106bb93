/* softsign: y = x / (1 + |x|). You write four pieces, TO DO 1 to 4: the gradient rule (at the end of this file; without
 * it there is nothing to train), the two kernels, and the cost rule. */
#include "operation.h"

#include <math.h>

/* ---- kernels: in and out are arrays of a shard's samples; a tile is one thread's part of them ---- */

/* Elements [*from, *to) of output 0 that this tile covers. */
static void range(const sl_call *c, int64_t tile, int64_t *from, int64_t *to) {
  const int64_t n = sl_shape_count(&c->out[0].shape), size = c->tiles.elements;
  *from = tile * size;
  *to = *from + size < n ? *from + size : n;
}

static int64_t tiles(const sl_call *c) {
  return (sl_shape_count(&c->out[0].shape) + c->tiles.elements - 1) / c->tiles.elements;
}

static void forward_tile(void *arg, int64_t tile, int thread) {
  const sl_call *c = arg;
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  int64_t from, to;
  (void)thread;
  range(c, tile, &from, &to);
  for (int64_t i = from; i < to; i++) y[i] = x[i]; /* TO DO 2 */
}

static sl_status forward(const sl_call *c) {
  sl_team_for(c->team, tiles(c), forward_tile, (void *)c);
  return SL_OK;
}

static void backward_tile(void *arg, int64_t tile, int thread) {
  const sl_call *c = arg;
  const float *dy = c->in[0].data, *y = c->in[1].data;
  float *dx = c->out[0].data;
  int64_t from, to;
  (void)thread, (void)y;
  range(c, tile, &from, &to);
  for (int64_t i = from; i < to; i++) dx[i] = dy[i]; /* TO DO 3 */
}

static sl_status backward(const sl_call *c) {
  sl_team_for(c->team, tiles(c), backward_tile, (void *)c);
  return SL_OK;
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

/* The output has the input's shape; its type, F32, and its scope are set already. */
static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (in[0]->dtype != SL_F32) return sl_fail(SL_ESHAPE, "takes F32, not %s", sl_dtype_name(in[0]->dtype));
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) {
  (void)c;
  cost->flops = 0; /* TO DO 4: additions, multiplications, divisions; sl_shape_count(&c->out[0].shape) elements */
}

/* The same kernel serves all instruction sets. Inputs: dy and y. */
static const sl_operation softsign_grad = {
    .name = "softsign_grad", .shape = shape, .cost = cost, .cpu = {backward, backward, backward}, .inplace = {1}};

/* The gradient rule adds a node to the graph: the operation of the backward pass, and its inputs. */
static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  (void)graph, (void)node, (void)dout, (void)need, (void)din, (void)softsign_grad;
  /* TO DO 1: if input 0's gradient is needed (need[0]), add a node (sl_graph_add1, as softsign() does below; its name
   * is that of the node whose gradient it computes) and set din[0]. dout[0] is dy, node->out[0] is y. */
}

static const sl_operation softsign_operation = {.name = "softsign",
                                                .shape = shape,
                                                .gradient = gradient,
                                                .cost = cost,
                                                .cpu = {forward, forward, forward},
                                                .inplace = {1}}; /* the output may lie where the input was */

sl_value softsign(sl_graph *graph, const char *layer, sl_value x) {
  return sl_graph_add1(graph, &softsign_operation, layer, NULL, &x, 1);
}
