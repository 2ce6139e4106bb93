/* accuracy: the number of targets among the k largest logits of their rows. Of equal logits the smaller index comes
 * first; a row with a NaN never counts. A target's place is the number of logits before it, so one pass serves any k.
 */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda_sums.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(accuracy);

static int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
static int64_t tiles(const sl_call *c) {
  return sl_tiles_of(sl_shape_count(&c->in[1].shape), sl_tile_rows(c, classes(c)));
}

/* Whether fewer than k of x [V] come before x[target]. */
static int hit(const float *x, int64_t V, int64_t target, int k) {
  const float mine = x[target];
  int64_t before = 0, nan = 0;
  for (int64_t from = 0; from < V; from += 1 << 20) { /* sums of 32 bits have as many lanes as floats */
    const int64_t to = V - from < 1 << 20 ? V : from + (1 << 20), equal = target < from ? from
                                                                          : target < to ? target
                                                                                        : to;
    int32_t larger = 0, same = 0, broken = 0;
    for (int64_t j = from; j < to; j++) larger += x[j] > mine, broken += x[j] != x[j];
    for (int64_t j = from; j < equal; j++) same += x[j] == mine;
    before += larger + same, nan += broken;
  }
  return !nan && before < k;
}

/* A tile is a run of rows. */
static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = classes(c);
  const int32_t *target = c->in[1].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  int64_t hits = 0;
  for (int64_t i = r.from; i < r.to; i++) {
    if (target[i] < 0 || target[i] >= V) continue;
    hits += hit((const float *)c->in[0].data + i * V, V, target[i], ((const sl_accuracy_attr *)c->attr)->k);
  }
  ((double *)c->team->scratch[0])[tile] = (double)hits;
}

sl_status SL_KERNEL(accuracy)(const sl_call *c) {
  sl_team_for(c->team, tiles(c), body, (void *)c);
  sl_sum_partials(c, tiles(c), 0);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(accuracy);

static size_t scratch(const sl_call *c) { return (size_t)tiles(c) * sizeof(double); }
static size_t scratch_cuda(const sl_call *c) { return SL_CUDA_SUM_BYTES + (size_t)sl_shape_count(&c->in[1].shape); }

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const int k = ((const sl_accuracy_attr *)attr)->k;
  if (k < 1) return sl_fail(SL_EINVAL, "the %d largest logits: at least 1 is needed", k);
  const sl_shape *x = &in[0]->shape, *target = &in[1]->shape;
  if (in[1]->dtype != SL_I32 || x->ndim != target->ndim + 1 ||
      memcmp(x->dim, target->dim, (size_t)target->ndim * sizeof *x->dim)) {
    char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
    return sl_fail(SL_ESHAPE, "logits %s and targets %s %s: targets are I32, with one dimension less",
                   sl_shape_text(x, a, sizeof a), sl_dtype_name(in[1]->dtype), sl_shape_text(target, b, sizeof b));
  }
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->in[0].shape); }

const sl_operation sl_op_accuracy = {
    .name = "accuracy",
    .attr_bytes = sizeof(sl_accuracy_attr),
    .shape = shape,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(accuracy),
    .cuda = SL_CUDA_KERNEL(accuracy),
};

sl_value sl_accuracy_top(sl_graph *graph, const char *layer, sl_value logits, sl_value targets, int k) {
  return sl_graph_add1(graph, &sl_op_accuracy, layer, &(sl_accuracy_attr){k}, (sl_value[]){logits, targets}, 2);
}

sl_value sl_accuracy(sl_graph *graph, const char *layer, sl_value logits, sl_value targets) {
  return sl_accuracy_top(graph, layer, logits, targets, 1);
}
#endif
