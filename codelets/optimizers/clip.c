/* Gradient clipping by global norm. One node for each gradient gives the sum of squares of each row; one small node
 * adds these sums by a fixed binary tree. So the norm has the same bits however the plan cuts gradients and wherever
 * the pieces are. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"
#include "codelets/kernels/tree.h"

SL_KERNEL_DECLARE(row_norms);
SL_KERNEL_DECLARE(clip_factor);

static int64_t rows_of(const sl_shape *shape) { return shape->ndim > 0 ? shape->dim[0] : 1; }

static double squares(const float *x, int64_t n) {
  sl_sum_d sum[4] = {{{{0}}}};
  int64_t i = 0;
  for (; i + 4 * SL_SUM_LANES_D <= n; i += 4 * SL_SUM_LANES_D)
    for (int j = 0; j < 4; j++) sl_sum_squares_d(&sum[j], x + i + j * SL_SUM_LANES_D);
  double total = sl_sum_lanes_d(sl_sum_add_d(sl_sum_add_d(sum[0], sum[1]), sl_sum_add_d(sum[2], sum[3])));
  for (; i < n; i++) total += (double)x[i] * (double)x[i];
  return total;
}

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t rows = rows_of(&c->in[0].shape), n = sl_shape_count(&c->in[0].shape) / rows;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, n), rows);
  for (int64_t i = r.from; i < r.to; i++)
    ((double *)c->out[0].data)[i] = squares((const float *)c->in[0].data + i * n, n);
}

/* gradient -> F64 [rows]. */
sl_status SL_KERNEL(row_norms)(const sl_call *c) {
  const int64_t rows = rows_of(&c->in[0].shape), n = sl_shape_count(&c->in[0].shape) / rows;
  sl_team_for(c->team, sl_tiles_of(rows, sl_tile_rows(c, n)), body, (void *)c);
  return SL_OK;
}

/* Row norms of all gradients, maybe the loss scale S -> min(1, bound / norm), or with S min(1, bound S / norm) / S. A
 * norm that is not finite gives NaN, so that the error shows. With S, such a norm means that gradients overflowed; it
 * gives 0. */
sl_status SL_KERNEL(clip_factor)(const sl_call *c) {
  const sl_clip_attr *attr = c->attr;
  tree_sum total = {0};
  for (int i = 0; i < c->n_in - (int)attr->scaled; i++) {
    tree_sum value = {0};
    for (int p = 0; p < c->in[i].parts; p++) {
      const sl_array *part = &c->in[i].part[p];
      const double *x = part->data;
      for (int64_t k = 0; k < part->shape.dim[0]; k++) tree_add(&value, x[k]);
    }
    tree_add(&total, tree_total(&value));
  }
  const double scale = attr->scaled ? *(const double *)c->in[c->n_in - 1].data : 1,
               norm = sqrt(tree_total(&total)) / scale;
  *(double *)c->out[0].data =
      !isfinite(norm) ? (attr->scaled ? 0 : NAN) : (norm > attr->bound ? attr->bound / norm : 1) / scale;
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(row_norms);
SL_CUDA_DECLARE(clip_factor);

static sl_status norms_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  if (in[0]->dtype != SL_F32) return sl_fail(SL_ESHAPE, "gradients are F32, not %s", sl_dtype_name(in[0]->dtype));
  out[0].shape = SL_SHAPE(rows_of(&in[0]->shape));
  out[0].dtype = SL_F64;
  return SL_OK;
}

static sl_status factor_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)in, (void)n_in, (void)n_out;
  const sl_clip_attr *a = attr;
  if (!(a->bound > 0)) return sl_fail(SL_EINVAL, "a norm bound of %g: it must be above 0", a->bound);
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  return SL_OK;
}

/* CUDA: one total for each input, then one number for each row of the inputs. */
static size_t factor_scratch_cuda(const sl_call *c) {
  int64_t n = c->n_in;
  for (int i = 0; i < c->n_in; i++)
    for (int p = 0; p < c->in[i].parts; p++) n += c->in[i].part[p].shape.dim[0];
  return (size_t)n * sizeof(double);
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 2 * (double)sl_shape_count(&c->in[0].shape); }

const sl_operation sl_op_row_norms = {
    .name = "row_norms",
    .shape = norms_shape,
    .cost = cost,
    .cpu = SL_KERNELS(row_norms),
    .cuda = SL_CUDA_KERNEL(row_norms),
    .map_in = 1,
    .map_out = 1,
};
const sl_operation sl_op_clip_factor = {
    .name = "clip_factor",
    .attr_bytes = sizeof(sl_clip_attr),
    .shape = factor_shape,
    .scratch_cuda = factor_scratch_cuda,
    .cpu = SL_KERNELS(clip_factor),
    .cuda = SL_CUDA_KERNEL(clip_factor),
    .all_in = UINT32_MAX,
};

sl_value sl_clip_factor(sl_graph *graph, const char *layer, const sl_value *gradients, int n, double bound,
                        sl_value scale) {
  sl_phase before = graph->phase;
  graph->phase = SL_PHASE_UPDATE;
  sl_value norms[n + 1]; /* one input per parameter of the model */
  for (int i = 0; i < n; i++) norms[i] = sl_graph_add1(graph, &sl_op_row_norms, layer, NULL, &gradients[i], 1);
  norms[n] = scale;
  const sl_clip_attr attr = {bound, scale != SL_NONE};
  sl_value factor = sl_graph_add1(graph, &sl_op_clip_factor, layer, &attr, norms, n + (int)attr.scaled);
  graph->phase = before;
  return factor;
}
#endif
