/* Lower bounds on the time of a step under any scheduling policy. They show how far a run is from the optimum.
 *
 * A step ends before the next begins, so K steps take at least K times the bound of one step. Compare the bound with
 * the makespan of K steps divided by K, where each step has ended before the next begins. Tasks of one kind (operation
 * and footprint) take the same time on workers of one kind; the runtime's own cost counts as 0. There are three bounds;
 * the mixed bound is at least as large as the other two:
 *
 * - critical path: the longest path, with each task on the kind of worker that makes the path shortest. A value that is
 *   written in one memory and read in another is copied in between;
 * - area: min T with sum_k n_kw t_kw <= m_w T for each kind of worker w, sum_w n_kw = n_k for each kind of task k,
 *   n_kw >= 0, and the bytes that must cross the links each way <= their bytes/s T: all work, divided optimally,
 *   dependencies ignored;
 * - mixed: the area's linear program with T >= critical path and, for several paths in turn, the time of that path
 *   under the program's own assignment: p_kw of its tasks on w, p_kw <= n_kw, sum_kw p_kw t_kw <= T. Agullo et al.,
 *   "Bridging the Gap between Performance and Bounds of Cholesky Factorization on Heterogeneous Platforms" (HCW 2015)
 *   do this for the path of the diagonal's tasks; here the first path is the critical path. Each further path is the
 *   longest one by the mean task times of the last solution. The search ends when T no longer rises.
 *
 * Which bytes must cross: parameters and state may lie in any memory when the step begins, so they do not count. The
 * values that the step itself writes count, and so do its batch (read from the host's memory) and its results (written
 * to it). If n readers of one kind of value run on devices but only m of its writers do, at least n - m of these values
 * cross. All devices' memories count as one: copies between them are ignored. */
#ifndef SL_BOUND_H
#define SL_BOUND_H

#include "runtime/trace/timeline.h"
#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies between memories: that of the host, and one for each worker of a device kind. Borrowed arrays. */
typedef struct sl_bound_copies {
  const unsigned char *device; /* [n_worker_kinds] 1: its workers have memories of their own */
  double link;                 /* bytes/s between the host's memory and that of each device, each way */
  double latency;              /* seconds a copy */
  const sl_timeline_flow *flow;
  int n_flows;
} sl_bound_copies;

/* Borrowed arrays. Task i waits for the tasks before[from[i]] ... before[from[i + 1] - 1]. */
typedef struct sl_bound_problem {
  int n_tasks;
  const int *kind; /* [n_tasks] */
  const int *from, *before;
  int n_kinds;
  int n_worker_kinds;
  const int *workers;            /* [n_worker_kinds]; 0: unlimited, for exchanges, which hold no worker */
  const double *seconds;         /* [n_kinds][n_worker_kinds] time of one task; INFINITY: it cannot run there */
  const sl_bound_copies *copies; /* NULL: they take no time */
} sl_bound_problem;

/* Seconds. */
typedef struct sl_bound {
  double critical_path, area;
  double mixed; /* the largest of the three: no schedule is faster */
} sl_bound;

/* share: [n_kinds][n_worker_kinds], the fraction of each kind's tasks that the mixed bound's program puts on each
 * kind of worker; may be NULL. SL_EINVAL: a kind that runs nowhere, a cycle of dependencies, or a flow without a
 * dependency. */
sl_status sl_bound_solve(const sl_bound_problem *problem, sl_bound *bound, double *share);

/* Numbers the kinds of a step graph's nodes by their first node; of[] has room for one number per node. */
sl_status sl_bound_kinds(const sl_graph *step, int *of, int *n_kinds);

/* Median time of each kind of task on each kind of worker, from a timeline's records:
 * seconds[n_kinds][n_worker_kinds]; worker_kind[w] is the kind of worker w; INFINITY where none ran. Exchanges count
 * as worker kind `exchange` (-1: ignored). */
sl_status sl_bound_times(const sl_timeline *timeline, const int *worker_kind, int n_worker_kinds, int exchange,
                         double *seconds);

/* The bound of one rank's steps from its own recorded medians (of exchanges: least times). A kind of task counts as
 * unable to run on a kind of worker that never ran it. SL_EINVAL if some node of the graph has no record. */
sl_status sl_bound_recorded(const sl_timeline *timeline, sl_bound *bound);
/* on_path[i] (one byte per node): whether node i is on that bound's critical path. Errors as above. */
sl_status sl_bound_critical(const sl_timeline *timeline, unsigned char *on_path);

#ifdef __cplusplus
}
#endif
#endif
