/* The main figures of one rank's whole steps: `starling trace` prints them, and a report opens with them. */
#ifndef SL_TOOLS_SUMS_H
#define SL_TOOLS_SUMS_H

#include <jansson.h>

#include "runtime/trace/idle.h"
#include "runtime/trace/overlap.h"
#include "runtime/trace/timeline.h"
#include "tasks/bounds/bound.h"

/* Copies from one memory to another. */
typedef struct sl__link {
  int from, to;
  int64_t copies, bytes;
} sl__link;
enum { SL__LINKS = 64 };

/* Copies that were made for the tasks of one operation; operation "": no task read them. */
typedef struct sl__moved {
  const char *operation;
  int64_t copies, bytes;
} sl__moved;
enum { SL__MOVED = 128 };

typedef struct sl__sums {
  const sl_timeline *t;
  int64_t from, to, first; /* the window, and its first step */
  int64_t steps, tasks, exchanges;
  int64_t first_copy; /* the first step all of whose copies are recorded */
  double copied;      /* factor by which sums of copies from first_copy on become those of the window */
  double step;        /* seconds per step: the window over its steps */
  sl_usage usage;
  double quiet; /* seconds of the window in which no worker was in a task */
  sl_overlap overlap;
  sl_bound bound;
  int bounded; /* 0: some task has no record */
  sl__link link[SL__LINKS];
  int n_links;
  sl__moved moved[SL__MOVED]; /* by bytes; the last one sums up all further operations */
  int n_moved;
} sl__sums;

/* Borrows the timeline. */
sl_status sl__sums_of(const sl_timeline *timeline, sl__sums *sums);
/* The least part of a step that a stage of the pipeline is idle, if all stages are as fast as each other and messages
 * take no time: (P - 1) / (V M + P - 1) for P stages, M micro-batches and V runs of layers on each stage (Huang et al.
 * 2019; Narayanan et al. 2021). 0: no pipeline. */
double sl__sums_bubble(const sl__sums *sums);
/* "stage 1, part 0": the rank's place among those with the same samples; "" if there are no others. Returns text. */
enum { SL__PLACE_TEXT = 48 };
const char *sl__sums_place(const sl_timeline *timeline, char *text);
/* NULL when out of memory. */
json_t *sl__sums_to_json(const sl__sums *sums);

#endif
