/* The predicted schedule on two kinds of workers. Private to tasks/schedule; schedule.h is the interface. */
#ifndef SL_PLACING_H
#define SL_PLACING_H

#include "tasks/schedule/machine.h"
#include "tasks/schedule/prediction.h"

/* on[n][SL_KINDS]: seconds of each task on each kind of worker, INFINITY where the machine has none. */

/* Urgency by HEFT's upward rank: rank(i) = mean(i) + max over i's successors j of transfer(i, j) + rank(j). mean(i) is
 * the mean over the kinds; transfer(i, j) is the time to copy the values that i writes and j reads, times the
 * probability that two workers of random kinds have different memories. Needs the schedule's dependencies. Topcuoglu,
 * Hariri and Wu, "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous Computing" (IEEE TPDS
 * 2002). */
void sl__upward_ranks(sl_schedule *schedule, const sl_graph *graph, const sl_machine *machine, const double *on);

/* HEFT: places tasks by descending urgency, each on the worker where it ends first, in a gap between other tasks if it
 * fits there. Missing inputs are copied as soon as the link is free. Parameters start where the step before left them.
 * Exchanges run one after another, on values in host memory.
 *
 * With several GPUs and at least as many folds (folds.h), each GPU computes its share of the folds, and so has the
 * weights of these alone; if that is slower by more than a tenth, folds are placed like other tasks. Sets start,
 * seconds, worker, order, makespan and moved. */
sl_status sl__place(sl_schedule *schedule, const sl_graph *graph, const sl_machine *machine, const double *on);

#endif
