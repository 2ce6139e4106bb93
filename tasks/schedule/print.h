/* Shows a step graph to people as a table, as JSON, or as a drawing for dot. The tasks that one node of the logical
 * graph became form a group, shown as one line. */
#ifndef SL_PRINT_H
#define SL_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tasks/graph/graph.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/residence.h"
#include "tasks/schedule/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_group {
  const sl_operation *op;
  const char *layer; /* the graph's */
  sl_phase phase;
  int tasks;
  sl_dtype dtype; /* shape of the first output ... */
  sl_shape shape; /* ... over the whole batch */
  sl_cost cost;   /* sum over all its tasks */
  double seconds; /* predicted, sum over all its tasks */
} sl_group;

typedef struct sl_groups {
  int n;
  sl_group *group; /* in the order of the step graph */
  int *of;         /* [step->n_nodes] group of each task */
} sl_groups;

sl_status sl_groups_create(const sl_graph *logical, const sl_graph *step, const sl_schedule *schedule,
                           sl_groups **groups);
void sl_groups_destroy(sl_groups *groups); /* NULL is allowed */
const char *sl_phase_name(sl_phase phase); /* "forward" */
/* "[64, 784] [128, 784] -> [64, 128]": the shapes of a node's inputs and outputs, as many as fit into text[n]. */
void sl_node_shapes(const sl_graph *step, const sl_node *node, char *text, size_t n);

/* What to show; all pointers are borrowed. */
typedef struct sl_picture {
  const char *title;
  const sl_graph *logical, *step;
  const sl_schedule *schedule;
  const sl_memory *memory; /* NULL: memory is not shown */
  sl_tiles tiles;
  int workers, threads;     /* threads and workers for scratch memory and predictions */
  int gpus;                 /* for predictions */
  sl_residence **residence; /* [gpus] plans of their memories; NULL: not shown */
  size_t inputs;            /* bytes of batches read ahead */
  size_t process;           /* bytes of the process without a program */
  int tasks;                /* 1: every task; 0: groups */
} sl_picture;

/* Bytes of scratch memory per thread. */
size_t sl_graph_scratch(const sl_graph *step, const sl_tiles *tiles);

sl_status sl_print_table(const sl_picture *picture, FILE *file);
sl_status sl_print_dot(const sl_picture *picture, FILE *file);
/* *json is the caller's to json_decref(). */
sl_status sl_picture_to_json(const sl_picture *picture, json_t **json);

#ifdef __cplusplus
}
#endif
#endif
