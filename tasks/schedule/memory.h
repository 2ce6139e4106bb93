/* Memory planning: decides which temporaries of a step share memory, so the peak is known before the run.
 *
 * Every slot becomes one buffer and one StarPU handle. Values whose lifetimes do not overlap in the predicted schedule
 * share a slot; the order that this forces becomes a dependency. Within a turn (the pass of a micro-batch), two values
 * share a slot only if one lifetime ends at least `slack` before the other begins: else the forced order would cost
 * parallelism. StarPU copies whole buffers between memories, so with GPUs a small value never gets a large slot, and
 * values that the predicted schedule makes in different memories never share a slot. */
#ifndef SL_MEMORY_H
#define SL_MEMORY_H

#include "tasks/graph/graph.h"
#include "tasks/schedule/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_memory {
  int n_slots;
  size_t *bytes;      /* [n_slots] */
  int *slot;          /* [values]; -1: parameters, state, unused values */
  size_t temporaries; /* bytes of all slots */
  size_t persistent;  /* bytes of parameters and state */
  size_t unshared;    /* bytes of the temporaries if no two shared a slot */
  int added;          /* number of dependencies added by sharing */
} sl_memory;

/* Plans the slots and adds dependencies to the schedule. keep[v] != 0: value v is read after the step (the loss), so
 * it shares with no other; keep may be NULL. slack is a fraction of the predicted makespan divided by the number of
 * turns; 0.02 is usual. */
sl_status sl_memory_plan(const sl_graph *step, sl_schedule *schedule, const char *keep, double slack,
                         sl_memory **memory);
/* Bytes that a program of this step graph takes: buffers, parameters, state, and the descriptions of tasks and handles
 * (StarPU's and Starling's); without scratch memory. */
size_t sl_memory_of_program(const sl_graph *step, const sl_memory *memory);
void sl_memory_destroy(sl_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
