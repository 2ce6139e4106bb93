/* target_rank: for each row, the number of logits of a fold of the classes (tasks/graph/folds.h) that come before the
 * target's logit: larger logits, and equal logits of a smaller class. The target's logit comes from class_sums. The
 * numbers of all folds are added, and count_ranks counts the rows where the sum is below k. A row with a NaN gives NaN,
 * so it never counts; a row without a target gives 0. */
#include "codelets/attributes.h"
#include "codelets/losses/classes.h"
#include "codelets/losses/rows.h"

SL_KERNEL_DECLARE(target_rank);

/* A tile is a run of rows. */
static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t V = sl__classes(c), first = ((const sl_classes_attr *)c->attr)->from;
  const int32_t *target = c->in[1].data;
  double *rank = c->out[0].data;
  sl_range r = sl_tile_range(tile, sl_tile_rows(c, V), sl_shape_count(&c->in[1].shape));
  for (int64_t i = r.from; i < r.to; i++) {
    rank[i] = 0;
    if (target[i] < 0) continue;
    const double *sums = (const double *)c->in[2].data + i * SL_CLASS_SUMS;
    const int64_t before = sl__row_before((const sl_real *)c->in[0].data + i * V, V, (float)sums[1], target[i] - first);
    rank[i] = before < 0 ? (double)NAN : (double)before;
  }
}

/* logits [B, ..., V], targets [B, ...], sums F64 [B, ..., 3] of all classes -> F64 [B, ...]. */
sl_status SL_KERNEL(target_rank)(const sl_call *c) {
  sl_team_for(c->team, sl__row_tiles(c), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(target_rank);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  SL_TRY(sl__classes_check(in));
  out[0].shape = in[1]->shape;
  out[0].dtype = SL_F64;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->in[0].shape); }

const sl_operation sl_op_target_rank = {
    .name = "target_rank",
    .attr_bytes = sizeof(sl_classes_attr),
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(target_rank),
    .cpu_bf16 = SL_KERNELS_BF16(target_rank),
    .cuda = SL_CUDA_KERNEL(target_rank),
};
#endif
