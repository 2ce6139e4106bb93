/* Runs a step graph without StarPU, one node at a time, in any order that the dependencies allow. So dependencies and
 * shared memory can be tested against all orders, not only those of this machine. */
#ifndef SL_TESTS_EXECUTE_H
#define SL_TESTS_EXECUTE_H

#include "runtime/exchange/leaves.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/schedule.h"

typedef struct execution {
  const sl_graph *g;
  void **data; /* [values] */
  void **slot;
  const sl_memory *memory;
} execution;

/* Allocates memory for all values: separate, or in the slots of a memory plan. Initialises parameters. */
execution *execution_create(const sl_graph *step, const sl_memory *memory);
/* Fills temporaries with garbage and runs all nodes: in order (schedule NULL) or in a random order that respects the
 * schedule's dependencies. */
void execution_run(execution *e, const sl_schedule *schedule, unsigned seed);
/* Runs the step graphs of n ranks together, in order, and carries out their exchange nodes. Rank r owns leaves mine[r].
 */
void execution_run_ranks(execution *const *e, const sl_leaves *mine, int n, int leaves);
void execution_destroy(execution *e);

#endif
