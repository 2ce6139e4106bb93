/* Plans, before the run, which buffers leave a GPU's memory and when, if not all buffers of its tasks fit. The GPU's
 * tasks run in the order of the predicted schedule, and steps repeat, so the next use of every buffer is known. Evicts
 * the buffer with the furthest next use (Belady 1966); a modified buffer must also be copied out, so its distance
 * counts half. Dead buffers go first and cost nothing. A task may start copying its inputs while the task before it
 * runs, if the data of both fit in half the memory. */
#ifndef SL_RESIDENCE_H
#define SL_RESIDENCE_H

#include "tasks/graph/graph.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_move_kind {
  SL_MOVE_FORGET,     /* the content is dead: drop it in all memories */
  SL_MOVE_WRITE_BACK, /* copy it to the host's memory; an eviction follows later */
  SL_MOVE_EVICT       /* remove it from the GPU's memory */
} sl_move_kind;

/* A move, to be made when node `after` has ended (-1: before the step begins). Buffer b < memory->n_slots is slot b;
 * others are the parameter or state b - memory->n_slots. */
typedef struct sl_move {
  int after, buffer;
  sl_move_kind kind;
} sl_move;

typedef struct sl_residence {
  int gpu;       /* from 0 */
  size_t all;    /* bytes of all buffers that the GPU's tasks use */
  size_t most;   /* bytes of the buffers of the GPU's largest task */
  int node;      /* that task; -1: the GPU has no tasks */
  size_t peak;   /* most bytes in the GPU's memory under the plan; `all` if all buffers fit, or `most` does not */
  int n_moves;   /* 0: all buffers fit, or those of one task do not */
  sl_move *move; /* in the order of `after` */
  int n_pairs;   /* dependencies: node pairs[2 i] before pairs[2 i + 1] */
  int *pairs;
  double in, out;             /* bytes copied to the GPU and back in each step */
  double least_in, least_out; /* lower bounds of these for any evictions, given this order of tasks */
} sl_residence;

/* Plans `bytes` bytes of memory of the machine's GPU `gpu`. If `most` exceeds `bytes`, there are no moves. keep[v] !=
 * 0: value v is read after the step; keep may be NULL. */
sl_status sl_residence_plan(const sl_graph *step, const sl_schedule *schedule, const sl_memory *memory,
                            const sl_machine *machine, int gpu, size_t bytes, const char *keep,
                            sl_residence **residence);
/* Returns SL_EINVAL and names the task that needs more than `bytes` at once. */
sl_status sl_residence_too_large(const sl_residence *residence, const sl_graph *step, size_t bytes);
void sl_residence_destroy(sl_residence *residence);

#ifdef __cplusplus
}
#endif
#endif
