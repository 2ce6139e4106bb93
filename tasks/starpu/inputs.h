/* Copies batches to GPUs a step ahead: the rows that an input task reads become StarPU data, and StarPU copies them
 * while the step before still runs. */
#ifndef SL_INPUTS_H
#define SL_INPUTS_H

#include "tasks/schedule/schedule.h"
#include "tasks/starpu/codelet.h"
#include "tasks/starpu/copies.h"

typedef struct sl__inputs sl__inputs;

/* Prepares the input tasks among task[nodes], which must outlive it. *inputs is NULL if there are none, or if three
 * steps' rows do not fit into `room` bytes of a GPU's memory. */
sl_status sl__inputs_create(const sl_graph *graph, sl__task *task, size_t room, sl__inputs **inputs);
/* Call between steps. NULL is allowed, here and below. */
void sl__inputs_destroy(sl__inputs *inputs);

/* Asks StarPU to copy the rows of the next step's arrays, each to the GPU that last ran their task. This is a hint: if
 * memory is short, nothing happens. A later call replaces an earlier one. */
void sl__inputs_announce(sl__inputs *inputs, const sl_step *next);
/* Waits for the copies in flight; the arrays are not read afterwards. Call between steps. */
void sl__inputs_forget(sl__inputs *inputs);
/* Makes tasks whose array was announced for this step read the copied rows, and the others the array. Call before the
 * step's tasks are submitted. */
void sl__inputs_bind(sl__inputs *inputs, const sl_step *step);

/* Bytes of batches that a worker's memory holds at most, if tasks run where the predicted schedule puts them: the rows
 * of the worker's input tasks, once for each of a loader's three arrays. */
size_t sl__inputs_bytes(const sl__inputs *inputs, const sl_schedule *schedule, int worker);

/* Fills read[] (unless it is NULL) with the data that each task reads, and returns the number of entries. */
size_t sl__inputs_reads(const sl__inputs *inputs, sl__read *read);

#endif
