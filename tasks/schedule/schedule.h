/* Dependencies and order of a step graph's tasks. Dependencies follow from the tasks' accesses and from computing in
 * place; predicted times from their costs; priorities from the longest path to the end. Greedy list scheduling by these
 * priorities (with GPUs: HEFT, placing.h) gives the predicted schedule. The memory planner relies on it; at run time
 * StarPU decides, unless the plan binds tasks to workers (docs/how-to/gpus.md). */
#ifndef SL_SCHEDULE_H
#define SL_SCHEDULE_H

#include "tasks/graph/graph.h"
#include "tasks/schedule/machine.h"
#include "tasks/schedule/prediction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* keep[v] != 0: value v is read after the step, so no other value may overwrite it; keep may be NULL. */
sl_status sl_schedule_create(const sl_graph *step, const char *keep, const sl_tiles *tiles, const sl_machine *machine,
                             sl_schedule **schedule);
void sl_schedule_destroy(sl_schedule *schedule);
/* Adds dependencies: node pairs[2 i] before node pairs[2 i + 1]. They must agree with `order`; predicted times do
 * not change. */
sl_status sl_schedule_add(sl_schedule *schedule, const int *pairs, int n);

#ifdef __cplusplus
}
#endif
#endif
