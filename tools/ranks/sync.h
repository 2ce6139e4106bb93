/* Ranks that train apart and meet every H steps (--sync): for slow links. Between two meetings each rank runs its own
 * steps, on its samples of each batch, with its own gradients. At a meeting parameters and state become their mean over
 * the ranks, weighted by samples:
 *
 *   local:H   local SGD (Stich 2019): the ranks continue with the mean.
 *   diloco:H  DiLoCo (Douillard et al. 2023): an outer optimizer with Nesterov momentum (rate 0.7, momentum 0.9)
 *             moves the parameters of the last meeting. Its gradient is the way from these to the mean.
 *
 * So a step exchanges only its loss. The result depends on the number of ranks. After a meeting all ranks are alike;
 * whatever reads the model (validation, checkpoints, the end) comes right after one. */
#ifndef SL_TOOLS_SYNC_H
#define SL_TOOLS_SYNC_H

#include "runtime/machine/store.h"
#include "tasks/graph/plan.h"
#include "tasks/graph/precision.h"
#include "tools/ranks/ranks.h"
#include "tools/settings/options.h"

typedef struct sl__sync {
  int64_t every; /* steps between two meetings; 0: each step sums its gradients over the ranks */
  int outer;     /* 1: diloco */
  int begun;     /* 1: a step has run since the last meeting, whose parameters `start` holds */
  int64_t met;   /* step of the last meeting */
  float **start; /* [tensors of the store] of parameters; NULL for others */
  int n;         /* number of tensors of the store when it was opened */
  double weight; /* this rank's share of the samples */
  uint64_t sent; /* bytes that this rank sent to others */
} sl__sync;

/* Reads --sync. SL_EINVAL: what is wrong with it, or what it cannot be combined with. */
sl_status sl__sync_parse(const sl__options *o, const sl__ranks *ranks, sl_precision precision, sl__sync *sync);
/* The plan of this rank's own steps: its leaves and shards of `plan`. */
sl_status sl__sync_plan(const sl_plan *plan, const sl__ranks *ranks, sl_plan *own);
/* After the store has all tensors of the training: adds those of the outer optimizer, which checkpoints then hold. */
sl_status sl__sync_open(sl__sync *sync, const sl_plan *plan, const sl__ranks *ranks, sl_store *store);
void sl__sync_close(sl__sync *sync);
size_t sl__sync_bytes(const sl__sync *sync, const sl_store *store); /* memory beside the store's */
/* After the store's tensors were read from the checkpoint of this step: the next meeting moves on from these. */
void sl__sync_restart(sl__sync *sync, int64_t step);
/* Call it before each step. Keeps the parameters that the next meeting moves on from, if it is the first step after
 * sl__sync_open or sl__sync_restart. */
sl_status sl__sync_begin(sl__sync *sync, sl_store *store);
/* Whether all ranks have the same parameters and state after this step: without --sync always, else after a meeting. */
static inline int sl__sync_alike(const sl__sync *sync, int64_t step) { return sync->every == 0 || sync->met == step; }
/* The meeting after a step; collective. Does nothing at the step of the last one. */
sl_status sl__sync_meet(sl__sync *sync, const sl__ranks *ranks, sl_store *store, int64_t step);

#endif
