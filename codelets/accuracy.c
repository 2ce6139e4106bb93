/* accuracy: how many targets the largest logit names; of equals the first counts, and a row with a NaN never does. */
#include "codelets/math.h"
#include "tasks/cuda_context.h"

SL_KERNEL_DECLARE(accuracy);

static int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
static int64_t tiles(const sl_call *c) {
  return sl_tiles_of(sl_shape_count(&c->in[1].shape), sl_tile_rows(c, classes(c)));
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
    const float *x = (const float *)c->in[0].data + i * V, best = sl_max_row(x, V);
    int64_t k = 0;
    while (k < target[i] && x[k] != best) k++;
    hits += k == target[i] && x[k] == best;
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
  (void)attr, (void)n_in, (void)n_out;
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
    .shape = shape,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(accuracy),
    .cuda = SL_CUDA_KERNEL(accuracy),
};

sl_value sl_accuracy(sl_graph *graph, const char *layer, sl_value logits, sl_value targets) {
  return sl_graph_add1(graph, &sl_op_accuracy, layer, NULL, (sl_value[]){logits, targets}, 2);
}
#endif
