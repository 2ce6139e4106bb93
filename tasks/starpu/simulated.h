/* Tasks of simulations: their times and their records. Private to tasks/. */
#ifndef SL_SIMULATED_TASK_H
#define SL_SIMULATED_TASK_H

#include "tasks/schedule/machine.h"
#include "tasks/starpu/codelet.h"

/* Gives the task its predicted time on each kind of worker. StarPU lets that time pass in place of a kernel; at its end
 * the task is recorded. */
void sl__simulated_task(sl__task *task, const sl_machine *machine, const sl_graph *graph, const sl_node *node,
                        const sl_cost *cost);
/* The performance model of every codelet: microseconds of such a task. */
double sl__simulated_time(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned implementation);

/* An exchange of the rank begins, or ends: it takes `work` processor seconds from tasks (contention.h). */
void sl__simulated_exchange_begins(double work, double seconds);
void sl__simulated_exchange_ends(double work, double seconds);

#endif
