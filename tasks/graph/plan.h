/* The plan: all that decides the bits of a run. It is saved with the run, compared across ranks before step 1, and kept
 * on resume; what is not in it (scheduling policy, number of workers and ranks, memory layout, timing) changes no bit.
 */
#ifndef SL_PLAN_H
#define SL_PLAN_H

#include <jansson.h>

#include "runtime/base/status.h"
#include "runtime/machine/isa.h"
#include "tasks/graph/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_plan {
  int64_t batch;  /* samples of a step, over all ranks */
  int leaves;     /* runs of consecutive samples that the reduction tree sums over */
  int shards;     /* in all; a multiple of leaves */
  int row_blocks; /* large weights are cut into so many blocks of rows; 1: not */
  sl_tiles tiles; /* of work inside kernels */
  uint64_t seed;
  char precision[8]; /* "f32" */
  char kernels[16];  /* instruction set of the CPU kernels, sl_isa_name */
  /* Leaves run in so many groups, one after another, so that memory is that of one group; it divides leaves. The one
   * field that changes no bit: it is neither saved with the plan nor compared. */
  int micro_batches;
} sl_plan;

/* Fills in what is 0 or empty (micro_batches 1; leaves as many; shards of 64 samples or more, at most 8 a leaf;
 * row_blocks 1; tiles; precision f32; kernels of this process) and checks the rest. SL_EINVAL names the field and what
 * it may be. */
sl_status sl_plan_complete(sl_plan *plan);
json_t *sl_plan_to_json(const sl_plan *plan);
sl_status sl_plan_from_json(const json_t *json, sl_plan *plan);
/* SL_EPLAN names the first field that differs, with both values. */
sl_status sl_plan_compare(const sl_plan *mine, const sl_plan *other, const char *whose);
/* Leaf l covers samples [first, first + rows) of the global batch; a shard likewise, numbered over all leaves. Both as
 * even as whole samples allow. */
void sl_plan_leaf(const sl_plan *plan, int leaf, int64_t *first, int64_t *rows);
void sl_plan_shard(const sl_plan *plan, int shard, int64_t *first, int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
