/* Planned residence (tasks/schedule/residence.h) at run time: which tasks are bound to a GPU, and what leaves its
 * memory when they have ended. Private to tasks/. */
#ifndef SL_STARPU_RESIDENCE_H
#define SL_STARPU_RESIDENCE_H

#include "runtime/machine/runtime.h"
#include "tasks/schedule/residence.h"
#include "tasks/starpu/codelet.h"

typedef struct sl__residences sl__residences; /* NULL: there are no GPUs */

/* Plans the memory of each GPU. Where its tasks' buffers do not fit, and lru is 0, adds the dependencies that the plan
 * needs to the schedule. SL_EINVAL: a task needs more than a GPU has, and there are no CPU workers; the text names the
 * layer. */
sl_status sl__residences_create(sl_runtime *runtime, const sl_graph *graph, sl_schedule *schedule,
                                const sl_memory *memory, const sl_machine *machine, const char *keep, int lru,
                                sl__residences **residences);
void sl__residences_destroy(sl__residences *residences);

/* Binds the tasks to the workers of the plan. handle[b]: the handle of each buffer of residence.h. */
sl_status sl__residences_bind(sl__residences *residences, sl__task *task, int n, const starpu_data_handle_t *handle);
/* Any worker may take the tasks from now on, and StarPU decides what leaves. The order that a plan relies on is gone: a
 * task that forgets a buffer must be the last to use it. */
void sl__residences_unbind(sl__residences *residences, sl__task *task, int n);
/* Before a task is submitted, in the order of the schedule: gives a bound task its place among those of its worker. */
void sl__residences_order(sl__residences *residences, sl__task *task);
/* Before a step's first task is submitted. */
void sl__residences_begin(sl__residences *residences);
/* Carries out what follows a task that has ended on its GPU, before its successors may start. */
void sl__residences_after(const sl__task *task);

/* Bytes that the plans leave free on every GPU; SIZE_MAX where the memory is not known. */
size_t sl__residences_room(const sl__residences *residences);

/* The plan of GPU i; NULL: there is none. */
const sl_residence *sl__residences_of(const sl__residences *residences, int gpu);

#endif
