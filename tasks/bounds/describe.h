/* What a timeline says of a step graph, whoever runs or predicts the step. */
#ifndef SL_BOUNDS_DESCRIBE_H
#define SL_BOUNDS_DESCRIBE_H

#include "runtime/trace/timeline.h"
#include "tasks/schedule/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills in the timeline's tasks (their kinds, shapes, costs, and microseconds of urgency as priorities), their
 * dependencies and flows. `t` has room for the step's nodes and for the schedule's dependencies. kept[n_values]: 1 for
 * values that must be in host memory at the end of a step; NULL: none. Errors: SL_ENOMEM. */
sl_status sl_timeline_describe(sl_timeline *t, const sl_graph *step, const sl_schedule *schedule, const char *kept);

#ifdef __cplusplus
}
#endif
#endif
