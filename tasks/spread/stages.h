/* Ranks that share the same samples: which nodes of a logical graph each of them computes, and the order of its passes.
 * They are the stages of a pipeline; in each stage `tensor` ranks divide the folds. Where this file has a number or a
 * set of stages, each of these ranks counts as a stage of its own: rank t of stage s is number s * tensor + t.
 *
 * The forward nodes are cut into runs, one for each stage, so that the slowest stage, the values that it sends and
 * receives included, is as fast as can be. A backward node belongs to the stage of the forward node of the same layer.
 * A parameter lies where a forward node reads it first, and its update and its state with it. A node that concerns
 * several parameters, such as the factor of clipping, is computed by every stage, and so is a node without inputs by
 * every stage that reads it.
 *
 * Within a step each stage runs its passes, forward or backward of one micro-batch, one after another. The order is
 * that of a timetable of all stages (sl__stage_turns), in which whatever a pass receives was sent in an earlier slot.
 * Whatever a pass waits for, on its own stage or on another one, is in an earlier slot or in its own pass; so the
 * stages cannot wait for each other in a circle. Private to tasks/. */
#ifndef SL_STAGES_H
#define SL_STAGES_H

#include <limits.h>

#include "tasks/graph/graph.h"
#include "tasks/spread/placement.h"

/* computes[logical nodes], keeps[logical values]: sets of stages (bit s: stage s) that compute a node, and that have a
 * parameter or state between two steps. SL_EINVAL: fewer layers than stages. SL_ENOMEM. */
sl_status sl__stages_find(const sl_graph *logical, int stages, int tensor, uint32_t *computes, uint32_t *keeps);

/* Slot of a pass in the timetable of all stages: phase FORWARD or any other. What a stage sends in a slot, another one
 * uses in a later slot. */
int sl__stage_slot(sl_pipe_order order, int stages, int stage, int micro_batches, sl_phase phase, int m);
enum { SL__EARLY = -1, SL__LATE = INT_MAX }; /* before all passes, after all passes */

/* The place of each pass in the order of a stage: forward[m] and backward[m] for micro-batch m, each from 0 to
 * 2 * micro_batches - 1.
 * SL_PIPE_1F1B: a backward pass follows as soon as it can, so that stage s holds the values of at most stages - s
 * micro-batches (Narayanan et al. 2019). SL_PIPE_GPIPE: all forward passes come first (Huang et al. 2019). */
void sl__stage_turns(sl_pipe_order order, int stages, int stage, int micro_batches, int *forward, int *backward);
/* The first turn of a stage in a later slot than this one, in which it may receive what was sent then; the last turn if
 * there is none. */
int sl__stage_turn_after(sl_pipe_order order, int stages, int stage, int micro_batches, int slot);

#endif
