/* A plan that suits the machine (--plan machine): leaves and shards by the predicted step, since GPUs want few large
 * tasks, CPUs many, and each GPU leaves of its own, so that no sum of gradients goes back and forth. */
#ifndef SL_TOOLS_PLAN_CHOICE_H
#define SL_TOOLS_PLAN_CHOICE_H

#include "models/models.h"
#include "tasks/graph/plan.h"
#include "tasks/schedule/machine.h"
#include "tools/settings/options.h"

/* Replaces the leaves and shards of *plan that no option gives by those whose step is predicted shortest on rank 0's
 * machine. *gain: the predicted time of the plan as it came in over that of the result; 1: it stays as it is. The plan
 * is part of what decides the bits, so it is chosen once, saved with the run, and must be the same on all ranks. */
sl_status sl__plan_choose(const sl__options *o, const sl_model *model, const sl_training *training,
                          const sl_machine *machine, int ranks, sl_plan *plan, double *gain);

#endif
