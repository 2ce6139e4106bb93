/* class_loss: the cross-entropy of rows whose classes were divided into folds, from the class_sums of the rows. The
 * formula is that of cross_entropy.c. The gradient by a row's three sums is (1, -(1 - s), -s / V) / count, with label
 * smoothing s. */
#include "codelets/kernels/kernel.h"
#include "codelets/losses/classes.h"

SL_KERNEL_DECLARE(class_loss);
SL_KERNEL_DECLARE(class_loss_grad);

static int64_t tile_rows(const sl_call *c) { return sl_tile_rows(c, SL_CLASS_SUMS); }

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_class_loss_attr *attr = c->attr;
  const int32_t *target = c->in[1].data;
  const double count = *(const double *)c->in[2].data, smooth = attr->smoothing;
  double sum = 0;
  sl_range r = sl_tile_range(tile, tile_rows(c), sl_shape_count(&c->in[1].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    const double *sums = (const double *)c->in[0].data + i * SL_CLASS_SUMS;
    if (target[i] < 0) continue;
    sum +=
        (sums[0] - (smooth > 0 ? sl_fmad(smooth, sums[2] / (double)attr->classes, (1 - smooth) * sums[1]) : sums[1])) /
        count;
  }
  ((double *)c->team->scratch[0])[tile] = sum;
}

static int64_t tiles(const sl_call *c) { return sl_tiles_of(sl_shape_count(&c->in[1].shape), tile_rows(c)); }

/* sums F64 [B, ..., 3], targets [B, ...], count -> F64 [1]. */
sl_status SL_KERNEL(class_loss)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), forward, (void *)c);
  sl_sum_partials(c, tiles(c), 0);
  return SL_OK;
}

/* targets, count and, unless the loss is the root, dloss -> dsums. */
sl_status SL_KERNEL(class_loss_grad)(const sl_call *c) {
  const sl_class_loss_attr *attr = c->attr;
  const int32_t *target = c->in[0].data;
  const double scale = (c->n_in > 2 ? *(const double *)c->in[2].data : 1.0) / *(const double *)c->in[1].data;
  const double d[SL_CLASS_SUMS] = {scale, -(scale * (1 - attr->smoothing)),
                                   -(scale * attr->smoothing / (double)attr->classes)};
  double *dsums = c->out[0].data;
  for (int64_t i = 0; i < sl_shape_count(&c->in[0].shape); i++)
    for (int k = 0; k < SL_CLASS_SUMS; k++) dsums[i * SL_CLASS_SUMS + k] = target[i] < 0 ? 0 : d[k];
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(class_loss);
SL_CUDA_DECLARE(class_loss_grad);

static size_t scratch(const sl_call *c) { return (size_t)tiles(c) * sizeof(double); }
/* CUDA: the part of the loss of each row, then the part of each tile. */
static size_t scratch_cuda(const sl_call *c) {
  return (size_t)(sl_shape_count(&c->in[1].shape) + tiles(c)) * sizeof(double);
}

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  const sl_shape *sums = &in[0]->shape, *target = &in[1]->shape;
  if (in[0]->dtype != SL_F64 || in[1]->dtype != SL_I32 || sums->ndim != target->ndim + 1 ||
      memcmp(sums->dim, target->dim, (size_t)target->ndim * sizeof *sums->dim) ||
      sums->dim[target->ndim] != SL_CLASS_SUMS)
    return sl_fail(SL_ESHAPE, "sums over classes %s %s and targets %s %s: takes F64 [..., %d] and I32 [...]",
                   sl_dtype_name(in[0]->dtype), sl_shape_text(sums, a, sizeof a), sl_dtype_name(in[1]->dtype),
                   sl_shape_text(target, b, sizeof b), SL_CLASS_SUMS);
  SL_TRY(sl__loss_check(((const sl_class_loss_attr *)attr)->smoothing, in[2]));
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

static sl_status grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].shape.dim[out[0].shape.ndim++] = SL_CLASS_SUMS;
  out[0].dtype = SL_F64;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 5 * (double)sl_shape_count(&c->in[1].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_value in[] = {node->in[1], node->in[2], dout[0]};
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_class_loss_grad, node->name, node->attr, in, dout[0] == SL_NONE ? 2 : 3);
}

const sl_operation sl_op_class_loss = {
    .name = "class_loss",
    .attr_bytes = sizeof(sl_class_loss_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(class_loss),
    .cuda = SL_CUDA_KERNEL(class_loss),
};
const sl_operation sl_op_class_loss_grad = {
    .name = "class_loss_grad",
    .attr_bytes = sizeof(sl_class_loss_attr),
    .shape = grad_shape,
    .cpu = SL_KERNELS(class_loss_grad),
    .cuda = SL_CUDA_KERNEL(class_loss_grad),
};
#endif
