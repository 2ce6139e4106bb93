/* Carries out memory plans (tasks/schedule/residence.h) at run time: binds tasks to GPUs, and moves buffers out of a
 * GPU's memory when tasks have ended. On request, binds tasks to the workers of the predicted schedule. Private to
 * tasks/. */
#ifndef SL_STARPU_RESIDENCE_H
#define SL_STARPU_RESIDENCE_H

#include "runtime/machine/runtime.h"
#include "tasks/schedule/residence.h"
#include "tasks/starpu/codelet.h"

typedef struct sl__residences sl__residences; /* NULL: there are no GPUs */

/* Plans the memory of each GPU. planned: 1: sl__residences_bind binds all tasks as the predicted schedule places them,
 * to a GPU or to the CPU workers; 0: it binds only the tasks of GPUs whose memory is too small. lru: 0: adds to the
 * schedule the dependencies that the plans of such GPUs need; 1: StarPU chooses evictions, and the plans have no moves.
 * SL_EINVAL: a task needs more memory than a GPU has, and there are no CPU workers; names the layer. */
sl_status sl__residences_create(sl_runtime *runtime, const sl_graph *graph, sl_schedule *schedule,
                                const sl_memory *memory, const sl_machine *machine, const char *keep, int planned,
                                int lru, sl__residences **residences);
void sl__residences_destroy(sl__residences *residences);

/* Binds the tasks to the plan's workers. handle[b]: StarPU handle of buffer b (numbered as in
 * tasks/schedule/residence.h). */
sl_status sl__residences_bind(sl__residences *residences, sl__task *task, int n, const starpu_data_handle_t *handle);
/* Releases the tasks from the plan: any worker may run them, and StarPU chooses evictions. The plan's order no longer
 * holds, so all its moves are dropped. */
void sl__residences_unbind(sl__residences *residences, sl__task *task, int n);
/* Binds a task for the next step. A task of a memory plan also gets its place in the order of its worker's tasks. Call
 * before submitting each task, in the order of the schedule. */
void sl__residences_order(sl__residences *residences, sl__task *task);
/* Begins a step. Call before submitting its first task. */
void sl__residences_begin(sl__residences *residences);
/* Makes the moves of a task that has ended on its GPU, before its successors may start. */
void sl__residences_after(const sl__task *task);

/* Bytes that the plans leave free on every GPU; SIZE_MAX if the memory is unknown. */
size_t sl__residences_room(const sl__residences *residences);

/* The plan of GPU i; NULL: there is none. */
const sl_residence *sl__residences_of(const sl__residences *residences, int gpu);

#endif
