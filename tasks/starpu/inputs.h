/* Batches on GPUs a step ahead. The rows that an input task reads become StarPU data, and StarPU copies them to the GPU
 * while the step before still runs. */
#ifndef SL_INPUTS_H
#define SL_INPUTS_H

#include "tasks/graph/schedule.h"
#include "tasks/starpu/codelet.h"
#include "tasks/starpu/copies.h"

typedef struct sl__inputs sl__inputs;

/* For the input tasks among task[nodes], which must outlive it. *inputs is NULL if there are none, or if the
 * rows of three steps do not fit into `room` bytes of a GPU's memory. */
sl_status sl__inputs_create(const sl_graph *graph, sl__task *task, size_t room, sl__inputs **inputs);
/* Call between steps. NULL is allowed, here and below. */
void sl__inputs_destroy(sl__inputs *inputs);

/* Asks StarPU to copy the rows of the next step's arrays, each to the GPU that ran their task last. It is a hint:
 * without memory for it, nothing happens. A later call takes the place of an earlier one. */
void sl__inputs_announce(sl__inputs *inputs, const sl_step *next);
/* Between steps: waits for the copies in flight, and reads none of the arrays any more. */
void sl__inputs_forget(sl__inputs *inputs);
/* Before the step's tasks are submitted: tasks whose array was announced for this step read the copied rows, the
 * others read the array. */
void sl__inputs_bind(sl__inputs *inputs, const sl_step *step);

/* Bytes of the batches that lie on a worker of the predicted schedule at most: each array of a loader keeps its copy.
 */
size_t sl__inputs_bytes(const sl__inputs *inputs, const sl_schedule *schedule, int worker);

/* Writes which task reads which data to read[], unless it is NULL; returns their number. */
size_t sl__inputs_reads(const sl__inputs *inputs, sl__read *read);

#endif
