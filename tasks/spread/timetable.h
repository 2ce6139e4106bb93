/* The order of a pipeline's passes: a timetable of all stages, in slots. In a slot each stage carries out at most one
 * pass of one micro-batch through one of its runs of layers (stages.h), and a pass receives only messages that were
 * sent in an earlier slot. So the stages cannot wait for each other in a circle. Private to tasks/. */
#ifndef SL_TIMETABLE_H
#define SL_TIMETABLE_H

#include <limits.h>

#include "tasks/spread/placement.h"

enum { SL__EARLY = -1, SL__LATE = INT_MAX }; /* slots before all passes, after all passes */

typedef enum sl__pass_kind { SL__PASS_FORWARD, SL__PASS_BACKWARD, SL__PASS_WEIGHTS, SL__PASS_KINDS } sl__pass_kind;

/* SL_PIPE_1F1B: a backward pass follows as soon as it can, so that stage s holds the values of at most stages - s
 * micro-batches (Narayanan et al. 2019); with several chunks micro-batches go through the runs of a stage in groups of
 * as many as there are stages, which divides the bubble by the number of chunks (Narayanan et al. 2021).
 * SL_PIPE_EAGER_1F1B: as 1F1B, but stage s holds the values of up to 2 (stages - s) - 1 micro-batches. So an input
 * comes a slot before the pass that reads it, and messages are hidden that take no longer than half of a micro-batch's
 * passes (Zhuang et al. 2023). With several chunks this is the order of 1F1B.
 * SL_PIPE_GPIPE: all forward passes come first (Huang et al. 2019).
 * SL_PIPE_ZERO_BUBBLE: gradients of weights, for which no other stage waits, have passes of their own. They run where a
 * stage would wait. Each stage holds the values of as many micro-batches as the first stage does by 1F1B (ZB-H1, Qi et
 * al. 2023). In the other orders the gradients of weights belong to the backward pass. */
typedef struct sl__timetable {
  int stages, chunks, parts; /* stages of the pipeline, runs of each, micro-batches */
  int kinds;                 /* of passes: 2, or 3 with passes for gradients of weights */
  int *slot;                 /* [kinds][stages * chunks][parts] */
} sl__timetable;

/* SL_EINVAL: chunks > 1, an order other than SL_PIPE_GPIPE, and `parts` is no multiple of `stages`.
 * SL_ENOMEM. */
sl_status sl__timetable_create(sl_pipe_order order, int stages, int chunks, int parts, sl__timetable **table);
void sl__timetable_destroy(sl__timetable *table); /* NULL is allowed */
/* The slot of a pass. In an order without passes for gradients of weights, SL__PASS_WEIGHTS gives the slot of the
 * backward pass. */
int sl__timetable_slot(const sl__timetable *table, sl__pass_kind kind, int run, int m);
int sl__timetable_passes(const sl__timetable *table); /* number of a stage's passes */
/* The place of each pass in the order of a stage, from 0. turn[SL__PASS_KINDS][chunks][parts]: by kind, run of the
 * stage, micro-batch. */
void sl__timetable_turns(const sl__timetable *table, int stage, int *turn);
/* The turn of a stage's pass in this slot. */
int sl__timetable_turn(const sl__timetable *table, int stage, int slot);
/* A stage's first turn (place in its order of passes) after this slot, the earliest in which it can receive a message
 * that is sent in the slot. The last turn if no turn is later. */
int sl__timetable_turn_after(const sl__timetable *table, int stage, int slot);

#endif
