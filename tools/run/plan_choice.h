/* Chooses leaves and shards for the machine (--plan machine) by the predicted step time. GPUs are fastest with few
 * large tasks, CPUs with many. With leaves of its own a GPU need not exchange gradient sums with other workers. */
#ifndef SL_TOOLS_PLAN_CHOICE_H
#define SL_TOOLS_PLAN_CHOICE_H

#include "models/models.h"
#include "tasks/graph/plan.h"
#include "tasks/schedule/machine.h"
#include "tools/settings/options.h"
#include "tools/settings/workers.h"

/* Sets those of *plan's leaves and shards that no option sets, to the values with the shortest predicted step on rank
 * 0's machine. *gain: predicted step time of the given plan over that of the result; 1: unchanged. The plan decides the
 * bits, so it is chosen once, saved with the run, and equal on all ranks. SL_EINVAL: the mesh has more than data ranks.
 */
sl_status sl__plan_choose(const sl__options *o, const sl_model *model, const sl_training *training,
                          const sl_machine *machine, const sl__mesh *mesh, sl_plan *plan, double *gain);

#endif
