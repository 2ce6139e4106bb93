/* Dependencies and order of the tasks of a step graph: dependencies from the tasks' accesses (and from computing in
 * place), predicted times from their costs, priorities from the longest path to the end, and the schedule that
 * greedy list scheduling by these priorities gives. The memory planner relies on that schedule; at run time StarPU
 * decides. */
#ifndef SL_SCHEDULE_H
#define SL_SCHEDULE_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The machine that predicted times refer to. */
typedef struct sl_machine {
  int workers;
  double flops;    /* FLOP/s of one worker in matrix products */
  double bytes;    /* bytes/s of one worker */
  double exchange; /* bytes/s of sums over ranks */
  double overhead; /* seconds a task */
} sl_machine;
/* A machine whose workers have `threads` ordinary cores each. Priorities depend only on ratios of these numbers. */
sl_machine sl_machine_default(int workers, int threads);

/* Node i waits for the nodes before[from[i]] ... before[from[i + 1] - 1]. */
typedef struct sl_schedule {
  int n;           /* nodes */
  int *from;       /* [n + 1] */
  int *before;     /* ascending for each node, without duplicates */
  int *onto;       /* [values] input whose buffer this output of an in-place operation takes over; -1: none */
  sl_cost *cost;   /* [n] */
  double *seconds; /* [n] predicted */
  double *urgency; /* [n] seconds on the longest path from the node's start to the end of the step, plus one critical
                      path for each later micro-batch */
  double *start;   /* [n] in the predicted schedule, seconds from the step's start */
  int *order;      /* [n] nodes by predicted start: an order of execution */
  double makespan, critical_path;
} sl_schedule;

/* keep[v] != 0: value v is read after the step, so nothing may be computed in its place; keep may be NULL. */
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
