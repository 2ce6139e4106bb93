/* The joint predicted schedule of the ranks of a mesh that share the same samples: stages of a pipeline, and ranks that
 * divide the products of a layer. The schedule of one rank alone (schedule.h) knows nothing of the others, so it lacks
 * the time in which the rank waits for them.
 *
 * The step graphs of all ranks are scheduled together, greedily, each rank's tasks by its own urgencies. A message
 * begins when its sender has the value, its receiver has a buffer for it, and the message before it on the same lane
 * has ended; a lane leads from one rank to another. A rank sends one message at a time and receives one at a time: the
 * one that has been ready longest. (The exchange itself moves the most urgent one first, by segments: exchange.h.) Sums
 * over the other dimension of the mesh (data) run one after another on a lane of each rank. Only the ranks of one data
 * replica are scheduled; they stand for the ranks of all replicas.
 *
 * An exchange takes its processor time from the tasks of its rank's CPU workers (contention.h).
 *
 * With GPUs each task runs on the worker that its rank's own schedule has chosen. A value in another memory arrives
 * after the latency of a copy and the time for its bytes. Copies from a GPU run one after another, and so do copies to
 * it. */
#ifndef SL_MESH_H
#define SL_MESH_H

#include "tasks/graph/graph.h"
#include "tasks/schedule/machine.h"
#include "tasks/schedule/prediction.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_mesh_exchange {
  int node;       /* of the step graph */
  int peer;       /* a message: the rank of the mesh at its other end; -1: no message */
  double seconds; /* duration; of a message the receiver's entry is ignored */
  double work;    /* processor seconds of the rank's exchange thread (contention.h) */
} sl_mesh_exchange;

/* What one rank computes; all is borrowed. */
typedef struct sl_mesh_rank {
  const sl_graph *step;
  const sl_schedule *schedule; /* with the dependencies that its plan of the memory has added */
  const sl_machine *machine;
  const sl_mesh_exchange *exchange; /* [exchanges] all exchange nodes, in the order in which the rank declares them */
  int exchanges;
} sl_mesh_rank;

/* How a rank spends the step, in seconds. exposed and bubble divide the time in which it runs no task. */
typedef struct sl_mesh_share {
  double busy;    /* in tasks, mean over its workers; `taken` counts */
  double taken;   /* of busy: what exchanges took from tasks */
  double exposed; /* no task runs, and a message to the rank or a sum is under way */
  double bubble;  /* no task runs, and no such exchange is under way: other ranks compute */
  double *start;  /* [nodes] start of each task and exchange */
  double *later;  /* [nodes] seconds by which a task ends later because of exchanges */
  int *worker;    /* [nodes] CPU workers first, then GPUs; -1: an exchange */
} sl_mesh_share;

typedef struct sl_mesh_schedule {
  int ranks;
  sl_mesh_share *rank;          /* [ranks] */
  double makespan;              /* seconds of the step */
  double busy, exposed, bubble; /* shares of the step, means over the ranks: 0 to 1 */
} sl_mesh_schedule;

/* SL_EINVAL, with ranks and layers: an exchange node is missing in a rank's list; a message that one rank sends and the
 * other does not receive, or not in this order; ranks that wait for each other. SL_ENOMEM. */
sl_status sl_mesh_schedule_create(const sl_mesh_rank *rank, int n, sl_mesh_schedule **mesh);
void sl_mesh_schedule_destroy(sl_mesh_schedule *mesh); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
