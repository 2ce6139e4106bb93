/* Memory planning: which temporaries of a step share a buffer, and so the peak before anything runs.
 *
 * Every slot becomes one buffer and one StarPU handle. Values whose lifetimes do not overlap in the predicted schedule
 * share a slot, and the order that this takes for granted is added to the dependencies; sharing that would leave less
 * than `slack` between the one's end and the other's start in that schedule is not worth its parallelism. */
#ifndef SL_MEMORY_H
#define SL_MEMORY_H

#include "tasks/graph/graph.h"
#include "tasks/graph/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_memory {
  int n_slots;
  size_t *bytes;      /* [n_slots] */
  int *slot;          /* [values] -1: parameters, state, values that nobody touches */
  size_t temporaries; /* bytes of all slots */
  size_t persistent;  /* bytes of parameters and state */
  size_t unshared;    /* bytes of the temporaries if none shared a slot */
  int added;          /* dependencies that sharing added */
} sl_memory;

/* keep[v] != 0: value v is read after the step (the loss): it shares with nobody. keep may be NULL. slack is a part of
 * the predicted makespan; 0.02 is usual. Adds its dependencies to the schedule. */
sl_status sl_memory_plan(const sl_graph *step, sl_schedule *schedule, const char *keep, double slack,
                         sl_memory **memory);
/* Bytes that a program of this step graph takes: buffers, StarPU's and our own descriptions of tasks and handles,
 * parameters and state. Scratch memory is not in it. */
size_t sl_memory_of_program(const sl_graph *step, const sl_memory *memory);
void sl_memory_destroy(sl_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
