/* cross_entropy: the sum over the rows of log(sum exp x) - x[target], divided by the number of targets in the whole
 * batch. So the results of shards, leaves and ranks add up to the mean.
 *
 * With label smoothing s (Szegedy et al. 2016, section 7) the target distribution is s / V at every class, plus 1 - s
 * at the target. Then the loss is log(sum exp x) - (1 - s) x[target] - s mean(x).
 *
 * The loss takes one pass over the logits, which also finds the maximum (Milakov and Gimelshein 2018). A second output
 * keeps the log-sum-exp (lse) of each row in double. The gradient takes one more pass: dx = (exp(x - lse) - target
 * distribution) / count. A logit that is not finite makes the loss NaN, even if its probability would be negligible, so
 * that the error is noticed. */
#include "codelets/attributes.h"
#include "codelets/losses/classes.h"
#include "codelets/losses/rows.h"

SL_KERNEL_DECLARE(cross_entropy);
SL_KERNEL_DECLARE(cross_entropy_grad);

/* Inputs: logits [B, ..., V], targets [B, ...], count. The gradient also has lse and, unless the loss is the root,
 * dloss.
 */
static double smoothing(const sl_call *c) { return ((const sl_cross_entropy_attr *)c->attr)->smoothing; }

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = sl__classes(c);
  const int32_t *target = c->in[1].data;
  const double count = *(const double *)c->in[2].data, smooth = smoothing(c);
  double *lse = c->out[1].data, sum = 0;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    lse[i] = 0;
    if (target[i] < 0) continue;
    const sl_real *x = (const sl_real *)c->in[0].data + i * V;
    lse[i] = sl__log_sum_exp(x, V);
    const double aim = (double)sl_get(x + target[i]);
    sum += (lse[i] - (smooth > 0 ? sl_fmad(smooth, sl__row_sum(x, V) / (double)V, (1 - smooth) * aim) : aim)) / count;
  }
  ((double *)c->team->scratch[0])[tile] = sum;
}

sl_status SL_KERNEL(cross_entropy)(const sl_call *c) {
  SL_TRY(sl__targets_check(c, sl__classes(c)));
  sl_team_for(c->team, sl__row_tiles(c), forward, (void *)c);
  sl_sum_partials(c, sl__row_tiles(c), 0);
  return SL_OK;
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = sl__classes(c);
  const int32_t *target = c->in[1].data;
  const double *lse = c->in[3].data;
  const double scale = (c->n_in > 4 ? *(const double *)c->in[4].data : 1.0) / *(const double *)c->in[2].data;
  const double smooth = smoothing(c);
  const float even = (float)(scale * smooth / (double)V);
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  for (int64_t row = r.from; row < r.to; row++) {
    const sl_real *x = (const sl_real *)c->in[0].data + row * V;
    sl_real *dx = (sl_real *)c->out[0].data + row * V;
    if (target[row] < 0) {
      memset(dx, 0, (size_t)V * sizeof *dx);
      continue;
    }
    sl__row_slopes(x, V, target[row], lse[row], scale, even, (float)(scale * (1 - smooth)), dx);
  }
}

sl_status SL_KERNEL(cross_entropy_grad)(const sl_call *c) {
  sl_team_for(c->team, sl__row_tiles(c), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(cross_entropy);
SL_CUDA_DECLARE(cross_entropy_grad);

static size_t scratch(const sl_call *c) { return (size_t)sl__row_tiles(c) * sizeof(double); }
/* CUDA: the part of the loss of each row, then the part of each tile. */
static size_t scratch_cuda(const sl_call *c) {
  return (size_t)(sl_shape_count(&c->in[1].shape) + sl__row_tiles(c)) * sizeof(double);
}

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  SL_TRY(sl__classes_check(in));
  SL_TRY(sl__loss_check(((const sl_cross_entropy_attr *)attr)->smoothing, in[2]));
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  out[1].shape = in[1]->shape;
  out[1].dtype = SL_F64;
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 20 * (double)sl_shape_count(&c->in[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  sl_value in[5] = {node->in[0], node->in[1], node->in[2], node->out[1], dout[0]};
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_cross_entropy_grad, node->name, node->attr, in, dout[0] == SL_NONE ? 4 : 5);
}

static void reduce(sl_graph *graph, const sl_node *node, const sl_value *fold, const sl_value *in, sl_value *out) {
  const sl_class_loss_attr attr = {((const sl_cross_entropy_attr *)node->attr)->smoothing,
                                   sl__classes_of(graph, fold, 0).all};
  const sl_value sums = sl__class_sums(graph, node->name, fold, in[1]);
  out[0] = sl_graph_add1(graph, &sl_op_class_loss, node->name, &attr, (sl_value[]){sums, in[1], in[2]}, 3);
}
static const sl_folding folding = {.reduce = reduce};

const sl_operation sl_op_cross_entropy = {
    .name = "cross_entropy",
    .folding = &folding,
    .attr_bytes = sizeof(sl_cross_entropy_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(cross_entropy),
    .cpu_bf16 = SL_KERNELS_BF16(cross_entropy),
    .cuda = SL_CUDA_KERNEL(cross_entropy),
};
const sl_operation sl_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .attr_bytes = sizeof(sl_cross_entropy_attr),
    .shape = grad_shape,
    .cost = cost,
    .cpu = SL_KERNELS(cross_entropy_grad),
    .cpu_bf16 = SL_KERNELS_BF16(cross_entropy_grad),
    .cuda = SL_CUDA_KERNEL(cross_entropy_grad),
    .inplace = {1},
};

sl_value sl_cross_entropy_smoothed(sl_graph *graph, const char *layer, sl_value logits, sl_value targets,
                                   sl_value count, double smoothing) {
  sl_value out[2];
  sl_graph_add(graph, &sl_op_cross_entropy, layer, &(sl_cross_entropy_attr){smoothing},
               (sl_value[]){logits, targets, count}, 3, out, 2);
  return out[0];
}

sl_value sl_cross_entropy(sl_graph *graph, const char *layer, sl_value logits, sl_value targets, sl_value count) {
  return sl_cross_entropy_smoothed(graph, layer, logits, targets, count, 0);
}
#endif
