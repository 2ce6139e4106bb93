/* The plan holds everything that decides the bits of a run. It is saved with the run, compared across ranks before step
 * 1, and kept on resume. Facts outside the plan (scheduling policy, number of workers and ranks, memory layout, timing)
 * change no bit. */
#ifndef SL_PLAN_H
#define SL_PLAN_H

#include <jansson.h>

#include "runtime/base/status.h"
#include "runtime/processors/isa.h"
#include "tasks/graph/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_plan {
  int64_t batch;  /* samples of a step, over all ranks */
  int leaves;     /* runs of consecutive samples that the reduction tree sums over */
  int shards;     /* in total; a multiple of leaves */
  int row_blocks; /* number of row blocks of large weights; 1: not cut */
  sl_tiles tiles; /* tiles of work inside kernels */
  uint64_t seed;
  char kernels[16]; /* instruction set of the CPU kernels, sl_isa_name */
  /* Whose products of matrices linear layers and convolutions use: "own", or OpenBLAS's with version and kernels
   * ("openblas 0.3.21 Zen"). Empty: own. sl_plan_complete sets tiles.blas by it. */
  char products[48];
  /* Number of groups of leaves that run one after another in the memory of one group; divides leaves. It changes no
   * bit, so it is neither saved with the plan nor compared. */
  int micro_batches;
  /* Number of parts in which samples cross between stages of a pipeline, along their first dimension (positions, rows
   * of images, features); 0 or 1: whole. Neither saved nor compared, as micro_batches. */
  int message_parts;
} sl_plan;

/* Replaces fields that are 0 or empty by defaults (micro_batches 1; as many leaves; shards of 64 samples or more, at
 * most 8 per leaf; row_blocks 1; tiles; this process's kernels) and checks all. SL_EINVAL names the
 * field and its range. */
sl_status sl_plan_complete(sl_plan *plan);
json_t *sl_plan_to_json(const sl_plan *plan);
sl_status sl_plan_from_json(const json_t *json, sl_plan *plan);
/* SL_EPLAN names the first field that differs, with both values. */
sl_status sl_plan_compare(const sl_plan *mine, const sl_plan *other, const char *whose);
/* The samples [first, first + rows) of the global batch that a leaf or a shard covers; shards are numbered over all
 * leaves. Sizes differ by at most one sample. */
void sl_plan_leaf(const sl_plan *plan, int leaf, int64_t *first, int64_t *rows);
void sl_plan_shard(const sl_plan *plan, int shard, int64_t *first, int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
