/* Flows: values that tasks of a step read from other tasks of the step, and bounds on how many must cross between
 * memories. */
#ifndef SL_FLOWS_H
#define SL_FLOWS_H

#include "runtime/trace/timeline.h"
#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists the flows of a step graph, sorted by reader. result[n_values]: 1 for values that must be in host memory at the
 * end; NULL: none. The caller frees *flow. */
sl_status sl_flows_find(const sl_graph *step, const char *result, sl_timeline_flow **flow, int *n);

/* Values of one writer's kind and one size. */
typedef struct sl_crossing_class {
  int writer; /* kind; -1: the host's memory */
  double bytes;
} sl_crossing_class;

/* Disjoint writer-reader pairs (no value, writer or reader occurs twice), with readers of one kind; they bound the
 * number of values that must cross. Let R be the number of tasks of the readers' kind that are in no pair. If X tasks
 * of the readers' kind and Y tasks of the writers' kinds run on one side, at least X - R - Y of these values cross to
 * that side. */
typedef struct sl_crossing_row {
  int reader; /* kind of the readers; -1: the host, which reads results */
  int pairs;  /* number of pairs; `written` of them have a task as writer */
  int written;
  int first, n; /* of[first] ... of[first + n - 1]: classes of the values, each once */
} sl_crossing_row;

typedef struct sl_crossings {
  sl_crossing_class *class_of;
  sl_crossing_row *row;
  int *of;
  int n_classes, n_rows;
} sl_crossings;

/* kind[]: of each task. */
sl_status sl__crossings_find(const sl_timeline_flow *flow, int n, const int *kind, sl_crossings *crossings);
void sl__crossings_free(sl_crossings *crossings);

#ifdef __cplusplus
}
#endif
#endif
