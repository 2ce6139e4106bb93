/* Runs a step graph without StarPU, one node at a time in any order that the dependencies allow: so that dependencies
 * and shared memory can be tested against every order, not only those that a machine happens to take. */
#ifndef SL_TESTS_EXECUTE_H
#define SL_TESTS_EXECUTE_H

#include "runtime/exchange/leaves.h"
#include "tasks/graph/memory.h"
#include "tasks/graph/schedule.h"

typedef struct execution {
  const sl_graph *g;
  void **data; /* [values] */
  void **slot;
  const sl_memory *memory;
} execution;

/* Memory for all values: of their own, or in the slots of a memory plan. Parameters start from their initialisation. */
execution *execution_create(const sl_graph *step, const sl_memory *memory);
/* Fills temporaries with garbage and runs all nodes: in order (schedule NULL) or in a random order that respects the
 * schedule's dependencies. */
void execution_run(execution *e, const sl_schedule *schedule, unsigned seed);
/* Runs the step graphs of several ranks (n of them, rank r's for leaves mine[r] of so many) together, in order, and
 * does what their exchange nodes say. */
void execution_run_ranks(execution *const *e, const sl_leaves *mine, int n, int leaves);
void execution_destroy(execution *e);

#endif
