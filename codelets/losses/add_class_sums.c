/* add_class_sums: joins the class_sums of two sets of classes. The logs a and b of the sums of exponentials become sum
 * = log(exp a + exp b), whose derivatives are exp(a - sum) and exp(b - sum). The other two numbers are added. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(add_class_sums);
SL_KERNEL_DECLARE(add_class_sums_grad);

static int64_t rows(const sl_call *c) { return sl_shape_count(&c->in[0].shape) / SL_CLASS_SUMS; }
static int64_t tiles(const sl_call *c) { return sl_tiles_of(rows(c), sl_tile_rows(c, SL_CLASS_SUMS)); }

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, SL_CLASS_SUMS), rows(c));
  for (int64_t i = r.from; i < r.to; i++) {
    const double *a = (const double *)c->in[0].data + i * SL_CLASS_SUMS,
                 *b = (const double *)c->in[1].data + i * SL_CLASS_SUMS;
    double *sum = (double *)c->out[0].data + i * SL_CLASS_SUMS;
    const double max = a[0] > b[0] ? a[0] : b[0];
    sum[0] = max + sl_log_d(sl_exp_d(a[0] - max) + sl_exp_d(b[0] - max));
    sum[1] = a[1] + b[1];
    sum[2] = a[2] + b[2];
  }
}

/* Two F64 [B, ..., 3] -> F64 [B, ..., 3]. */
sl_status SL_KERNEL(add_class_sums)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), forward, (void *)c);
  return SL_OK;
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, SL_CLASS_SUMS), rows(c));
  for (int64_t i = r.from; i < r.to; i++) {
    const double *dsum = (const double *)c->in[0].data + i * SL_CLASS_SUMS,
                 *sum = (const double *)c->in[1].data + i * SL_CLASS_SUMS,
                 *part = (const double *)c->in[2].data + i * SL_CLASS_SUMS;
    double *d = (double *)c->out[0].data + i * SL_CLASS_SUMS;
    const double slope = sl_exp_d(part[0] - sum[0]);
    d[0] = dsum[0] * slope;
    d[1] = dsum[1];
    d[2] = dsum[2];
  }
}

/* dsum, sum, and one of its two parts -> the gradient of this part. */
sl_status SL_KERNEL(add_class_sums_grad)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(add_class_sums);
SL_CUDA_DECLARE(add_class_sums_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_out;
  for (int k = 0; k < n_in; k++) {
    const sl_shape *s = &in[k]->shape;
    char text[SL_SHAPE_TEXT];
    if (in[k]->dtype != SL_F64 || s->ndim < 1 || s->dim[s->ndim - 1] != SL_CLASS_SUMS ||
        !sl_shape_equal(s, &in[0]->shape))
      return sl_fail(SL_ESHAPE, "sums over classes are F64 [..., %d] of one shape, not %s %s", SL_CLASS_SUMS,
                     sl_dtype_name(in[k]->dtype), sl_shape_text(s, text, sizeof text));
  }
  out[0].shape = in[0]->shape;
  out[0].dtype = SL_F64;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 40 * (double)rows(c); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_run sum = graph->fold;
  for (int k = 0; k < 2; k++) {
    if (!need[k]) continue;
    const int producer = sl_graph_value(graph, node->in[k])->producer;
    if (producer >= 0) graph->fold = graph->node[producer]->fold; /* the folds that made the part need its gradient */
    din[k] = sl_graph_add1(graph, &sl_op_add_class_sums_grad, node->name, NULL,
                           (sl_value[]){dout[0], node->out[0], node->in[k]}, 3);
  }
  graph->fold = sum;
}

const sl_operation sl_op_add_class_sums = {
    .name = "add_class_sums",
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(add_class_sums),
    .cuda = SL_CUDA_KERNEL(add_class_sums),
    .inplace = {1},
};
const sl_operation sl_op_add_class_sums_grad = {
    .name = "add_class_sums_grad",
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(add_class_sums_grad),
    .cuda = SL_CUDA_KERNEL(add_class_sums_grad),
    .inplace = {1},
};
#endif
