/* What the tasks of a step read that other tasks of the step wrote, and how much of it must cross from one memory to
 * another. */
#ifndef SL_FLOWS_H
#define SL_FLOWS_H

#include "runtime/trace/timeline.h"
#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The flows of a step graph, by their readers. result[n_values]: 1 for each value that must be in the host's memory at
 * the end; NULL: none. The caller frees *flow. */
sl_status sl_flows_find(const sl_graph *step, const char *result, sl_timeline_flow **flow, int *n);

/* Values of one writer's kind and one size. */
typedef struct sl_crossing_class {
  int writer; /* kind; -1: the host's memory */
  double bytes;
} sl_crossing_class;

/* Pairs of a writer and a reader, no two of which have a value, writer or reader in common. All readers are of one
 * kind. If X of this kind's tasks run on one side and Y of the writers' kinds do, at least X - others - Y of these
 * values cross to that side. */
typedef struct sl_crossing_row {
  int reader; /* kind; -1: results, which the host reads */
  int pairs;  /* all; `written` of them have a task as their writer */
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
