/* cross_entropy: sum over the rows of log(sum exp x) - x[target], divided by the number of targets in the whole batch,
 * so that the results of shards, leaves and ranks simply add up to the mean.
 *
 * With label smoothing s (Szegedy et al. 2016, section 7) the target is s / V everywhere and 1 - s more at x[target]:
 * the loss is log(sum exp x) - (1 - s) x[target] - s mean(x).
 *
 * One pass over the logits (the maximum is found as it goes: Milakov and Gimelshein 2018); a second output keeps each
 * row's log-sum-exp in double, and the gradient is one more pass: dx = (exp(x - lse) - target distribution) / count. A
 * logit that is not finite makes the loss NaN, even if its probability would not matter, so that it is noticed. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(cross_entropy);
SL_KERNEL_DECLARE(cross_entropy_grad);

/* Inputs: logits [B, ..., V], targets [B, ...], count. The gradient also has lse and, unless the loss is the root,
 * dloss.
 */
static int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
static int64_t tiles(const sl_call *c) {
  return sl_tiles_of(sl_shape_count(&c->in[1].shape), sl_tile_rows(c, classes(c)));
}

static double smoothing(const sl_call *c) { return ((const sl_cross_entropy_attr *)c->attr)->smoothing; }

static double log_sum_exp(const sl_real *x, int64_t V) {
  enum { RUN = 256 }; /* elements summed in floats; the runs' sums are added in double */
  float max = -INFINITY;
  double sum = 0;
  sl_sum odd = {{{0}}}; /* stays 0 while all are finite */
  for (int64_t from = 0; from < V; from += RUN) {
    const int64_t n = sl_min64(RUN, V - from);
    const float here = sl_max_row(x + from, n);
    if (!(here <= max)) {
      sum *= sl_exp_d((double)max - (double)here);
      max = here;
    }
    sl_sum part = {{{0}}};
    int64_t i = from;
    for (; i + SL_SUM_LANES <= from + n; i += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++) {
        sl_vec v = sl_load(x + i + w * SL_LANES);
        odd.v[w] += v - v;
        part.v[w] += sl_exp(v - max);
      }
    for (int w = 0; i + w * SL_LANES < from + n; w++) {
      const int64_t at = i + w * SL_LANES, left = from + n - at;
      sl_vec v = sl_load_left(x + at, left, 0);
      odd.v[w] += v - v;
      part.v[w] += sl_exp(sl_load_left(x + at, left, -INFINITY) - max);
    }
    sum += (double)sl_sum_lanes(part);
  }
  return (double)max + sl_log_d(sum) + (double)sl_sum_lanes(odd);
}

static double mean(const sl_real *x, int64_t V) {
  enum { RUN = 256 };
  double sum = 0;
  for (int64_t from = 0; from < V; from += RUN) {
    const int64_t to = sl_min64(V, from + RUN);
    sl_sum part = {{{0}}};
    for (int64_t i = from; i < to; i += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++)
        part.v[w] += sl_load_left(x + i + w * SL_LANES, to - i - w * SL_LANES, 0);
    sum += (double)sl_sum_lanes(part);
  }
  return sum / (double)V;
}

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = classes(c);
  const int32_t *target = c->in[1].data;
  const double count = *(const double *)c->in[2].data, smooth = smoothing(c);
  double *lse = c->out[1].data, sum = 0;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    lse[i] = 0;
    if (target[i] < 0) continue;
    const sl_real *x = (const sl_real *)c->in[0].data + i * V;
    lse[i] = log_sum_exp(x, V);
    const double aim = (double)sl_get(x + target[i]);
    sum += (lse[i] - (smooth > 0 ? sl_fmad(smooth, mean(x, V), (1 - smooth) * aim) : aim)) / count;
  }
  ((double *)c->team->scratch[0])[tile] = sum;
}

sl_status SL_KERNEL(cross_entropy)(const sl_call *c) {
  const int64_t V = classes(c), rows = sl_shape_count(&c->in[1].shape), each = sl_shape_row(&c->in[1].shape);
  const int32_t *target = c->in[1].data;
  for (int64_t i = 0; i < rows; i++)
    if (target[i] >= V)
      return sl_fail(SL_EINVAL, "target %d of sample %lld is beyond the %lld classes", (int)target[i],
                     (long long)(c->row0 + i / each), (long long)V);
  sl_team_for(c->team, tiles(c), forward, (void *)c);
  sl_sum_partials(c, tiles(c), 0);
  return SL_OK;
}

/* The gradient but for the part at the target. */
static sl_vec slope(sl_vec x, float high, float factor, float even) {
  return sl_fma(sl_exp(x - high), sl_splat(factor), sl_splat(-even));
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = classes(c);
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
    const float high = (float)lse[row]; /* the rounding error of lse goes into the factor */
    const float factor = (float)(sl_exp_d((double)high - lse[row]) * scale);
    const float aim = (float)(scale * (1 - smooth));
#ifdef SL_STORE_BF16 /* dx is rounded, so the target's element is computed from x, before dx overwrites it */
    const float at_target = slope(sl_splat(sl_get(x + target[row])), high, factor, even)[0] - aim;
#endif
    int64_t i = 0;
    for (; i + SL_LANES <= V; i += SL_LANES) sl_store(dx + i, slope(sl_load(x + i), high, factor, even));
    if (i < V) sl_store_n(dx + i, slope(sl_load_n(x + i, V - i, 0), high, factor, even), V - i);
#ifdef SL_STORE_BF16
    sl_put(dx + target[row], at_target);
#else
    dx[target[row]] -= aim;
#endif
  }
}

sl_status SL_KERNEL(cross_entropy_grad)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(cross_entropy);
SL_CUDA_DECLARE(cross_entropy_grad);

static size_t scratch(const sl_call *c) { return (size_t)tiles(c) * sizeof(double); }
/* The rows' parts of the loss, and the tiles'. */
static size_t scratch_cuda(const sl_call *c) {
  return (size_t)(sl_shape_count(&c->in[1].shape) + tiles(c)) * sizeof(double);
}

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const double smooth = ((const sl_cross_entropy_attr *)attr)->smoothing;
  if (!(smooth >= 0 && smooth <= 1)) return sl_fail(SL_EINVAL, "label smoothing of %g: it must be from 0 to 1", smooth);
  const sl_shape *x = &in[0]->shape, *target = &in[1]->shape;
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  if (in[1]->dtype != SL_I32 || x->ndim != target->ndim + 1 ||
      memcmp(x->dim, target->dim, (size_t)target->ndim * sizeof *x->dim))
    return sl_fail(SL_ESHAPE, "logits %s and targets %s %s: targets are I32, with one dimension less",
                   sl_shape_text(x, a, sizeof a), sl_dtype_name(in[1]->dtype), sl_shape_text(target, b, sizeof b));
  if (in[2]->dtype != SL_F64 || sl_shape_count(&in[2]->shape) != 1)
    return sl_fail(SL_ESHAPE, "the number of targets is F64 [1], not %s %s", sl_dtype_name(in[2]->dtype),
                   sl_shape_text(&in[2]->shape, a, sizeof a));
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  out[1].shape = *target;
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

const sl_operation sl_op_cross_entropy = {
    .name = "cross_entropy",
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
