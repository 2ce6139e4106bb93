/* The predicted schedule, and helpers that its makers (schedule.c, placing.c, mesh.c) share. */
#ifndef SL_PREDICTION_H
#define SL_PREDICTION_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Node i waits for the nodes before[from[i]] ... before[from[i + 1] - 1]. */
typedef struct sl_schedule {
  int n;           /* nodes */
  int *from;       /* [n + 1] */
  int *before;     /* ascending for each node, without duplicates */
  int *onto;       /* [values] input whose buffer this output of an in-place operation takes over; -1: none */
  sl_cost *cost;   /* [n] */
  double *seconds; /* [n] predicted, on its worker */
  double *urgency; /* [n] seconds on the longest path from the node's start to the end of its turn, plus `turn` for each
                      later turn (a pass of a micro-batch through a stage) */
  double turn;     /* the longest of these paths */
  double *start;   /* [n] in the predicted schedule, seconds from the step's start */
  int *worker;     /* [n] likewise: CPU workers first, then GPUs; -1: an exchange */
  int *order;      /* [n] nodes by predicted start: an order of execution */
  double makespan, critical_path; /* critical_path: the longest, each task on the kind of worker that is faster */
  int cpus, gpus;                 /* workers of the machine */
  double moved;                   /* bytes between the host's memory and GPUs' in the predicted schedule */
} sl_schedule;

/* A heap of nodes: the one with the greatest key first, then the lowest number. */
typedef struct sl_heap {
  int *at, n;
  const double *key;
} sl_heap;
void sl__heap_push(sl_heap *heap, int node);
int sl__heap_pop(sl_heap *heap);
/* The nodes that wait for node i are after[first[i]] ... after[first[i + 1] - 1]; the caller frees both. */
sl_status sl__successors(const sl_schedule *schedule, int **first, int **after);
/* Bytes of the values that node a writes and node b reads. */
double sl__bytes_between(const sl_graph *graph, const sl_node *a, const sl_node *b);

#ifdef __cplusplus
}
#endif
#endif
