/* Which buffers lie in a GPU's memory when not all of its tasks' buffers fit: what leaves it and when, before anything
 * runs.
 *
 * The order of the GPU's tasks is that of the predicted schedule, and steps repeat, so the next use of every buffer is
 * known. Room is made by what is used last (Belady 1966), at half of the distance for what must be copied out as well;
 * what nobody reads any more goes first and moves nothing. A task may be given to the GPU while the one before it runs
 * if the data of both take half of the memory at most. */
#ifndef SL_RESIDENCE_H
#define SL_RESIDENCE_H

#include "tasks/graph/graph.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_move_kind {
  SL_MOVE_FORGET,     /* nobody reads the content again: drop it everywhere */
  SL_MOVE_WRITE_BACK, /* copy it to the host's memory: it leaves later */
  SL_MOVE_EVICT       /* take it out of the GPU's memory */
} sl_move_kind;

/* After node `after` has ended (-1: before the step begins). Buffer b < memory->n_slots: a slot; else the parameter or
 * state b - memory->n_slots. */
typedef struct sl_move {
  int after, buffer;
  sl_move_kind kind;
} sl_move;

typedef struct sl_residence {
  int gpu;       /* from 0 */
  size_t all;    /* bytes of all buffers that its tasks use */
  size_t most;   /* bytes of the task that uses most at once */
  int node;      /* that task; -1: it has none */
  size_t peak;   /* bytes in its memory at most; `all` if they fit */
  int n_moves;   /* 0: all buffers fit */
  sl_move *move; /* in the order of `after` */
  int n_pairs;   /* dependencies: node pairs[2 i] before pairs[2 i + 1] */
  int *pairs;
  double in, out;             /* bytes a step to the GPU and back */
  double least_in, least_out; /* lower bounds of these, for any choice of what stays, in this order of tasks */
} sl_residence;

/* Plans the memory of GPU `gpu` of the machine for `bytes`. If `most` exceeds `bytes`, there are no moves. keep[v] !=
 * 0: value v is read after the step; keep may be NULL. */
sl_status sl_residence_plan(const sl_graph *step, const sl_schedule *schedule, const sl_memory *memory,
                            const sl_machine *machine, int gpu, size_t bytes, const char *keep,
                            sl_residence **residence);
/* SL_EINVAL, with a text that names the task which needs more than a GPU's `bytes` at once. */
sl_status sl_residence_too_large(const sl_residence *residence, const sl_graph *step, size_t bytes);
void sl_residence_destroy(sl_residence *residence);

#ifdef __cplusplus
}
#endif
#endif
