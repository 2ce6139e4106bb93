/* Lower bounds on the time of a step, whatever the scheduling policy: how far a run was from what is possible.
 *
 * A step ends before the next one begins, so K steps take at least K times the bound of one, and makespan (K drained
 * steps over K) is held against it. Tasks of one kind (operation and footprint) take the same time on workers of one
 * kind; transfers and the runtime's own cost count nothing. Three bounds, each at least as tight as the one before it
 * that it contains:
 *
 * - critical path: the longest path when each task takes its shortest time;
 * - area: min T with sum_k n_kw t_kw <= m_w T for each kind of worker w, sum_w n_kw = n_k for each kind of task k, n_kw
 *   >= 0: all work, divided as well as it can be without regard to dependencies;
 * - mixed: the area's linear program with T >= critical path and, for one path after another, what the program's own
 *   assignment makes of that path: p_kw of its tasks on w, p_kw <= n_kw, sum_kw p_kw t_kw <= T. Agullo et al.,
 * "Bridging the Gap between Performance and Bounds of Cholesky Factorization on Heterogeneous Platforms" (HCW 2015)
 * have this for the path of the diagonal's tasks; here the first path is the critical one, each further one the longest
 * by the mean times of the solution before, until none raises T. */
#ifndef SL_BOUND_H
#define SL_BOUND_H

#include "runtime/trace/timeline.h"
#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing in it is owned or kept. before[from[i]] ... before[from[i + 1] - 1] are the tasks that i waits for. */
typedef struct sl_bound_problem {
  int n_tasks;
  const int *kind; /* [n_tasks] */
  const int *from, *before;
  int n_kinds;
  int n_worker_kinds;
  const int *workers;    /* [n_worker_kinds]; 0: any number at once, as exchanges, which hold no worker */
  const double *seconds; /* [n_kinds][n_worker_kinds] of one task; INFINITY: it cannot run there */
} sl_bound_problem;

/* Seconds. */
typedef struct sl_bound {
  double critical_path, area;
  double mixed; /* the largest: no schedule is faster */
} sl_bound;

/* share: [n_kinds][n_worker_kinds], which part of each kind's tasks the mixed bound's program puts where; may be NULL.
 * SL_EINVAL: a kind that runs nowhere, tasks that wait for one another. */
sl_status sl_bound_solve(const sl_bound_problem *problem, sl_bound *bound, double *share);

/* Kinds of a step graph's nodes, numbered by their first node; of[] has room for a number a node. Returns how many. */
sl_status sl_bound_kinds(const sl_graph *step, int *of, int *n_kinds);

/* Median times of each kind on each kind of worker, from a timeline's records: seconds[n_kinds][n_worker_kinds], where
 * worker_kind[w] says what worker w is; INFINITY where nothing ran. Exchanges count for worker kind `exchange` (-1: not
 * at all). */
sl_status sl_bound_times(const sl_timeline *timeline, const int *worker_kind, int n_worker_kinds, int exchange,
                         double *seconds);

/* The bound of one rank's steps from its own recorded medians. What a kind of task never ran on cannot run there, as
 * far as this bound knows; SL_EINVAL when a node of the graph was not recorded at all. */
sl_status sl_bound_recorded(const sl_timeline *timeline, sl_bound *bound);
/* on_path[i] (room for a byte a node): whether node i is on that bound's critical path. Errors as above. */
sl_status sl_bound_critical(const sl_timeline *timeline, unsigned char *on_path);

#ifdef __cplusplus
}
#endif
#endif
