/* The state of a running step: tasks left, first failure, and a check that the scheduling policy hands out ready tasks.
 * Private to tasks/. */
#ifndef SL_TASKS_RUN_H
#define SL_TASKS_RUN_H

#include <config.h>
#include <starpu.h>
#include <stdatomic.h>

#include "runtime/base/status.h"

struct sl__task;

enum { SL__WAITING, SL__BEGUN, SL__ENDED }; /* a task's state */

/* One per program. The first kernel that fails writes the text; later tasks are skipped. */
typedef struct sl__run {
  atomic_int status;    /* sl_status */
  atomic_int claimed;   /* a task is writing the text */
  atomic_int first_bad; /* lowest node whose output is not finite, in a checking step; INT_MAX: none */
  atomic_int last;      /* node that ended last; -1: none yet */
  atomic_int left;      /* number of tasks that have not ended, without exchanges */
  int yields;           /* 1: idle workers yield their cores during a step, too, to the threads of exchanges */
  starpu_pthread_mutex_t mutex;
  starpu_pthread_cond_t none_left;
#if SL_SIMULATED
  starpu_pthread_t watch;
  int stands, ends; /* stands: 1: no task has ended for a long time; ends: 1: the program is being destroyed */
#endif
  char text[1024];
} sl__run;

sl_status sl__run_create(sl__run *run);
void sl__run_destroy(sl__run *run);

/* Call before submitting the first of a step's tasks: task[n], exchanges included. */
void sl__run_begin(sl__run *run, struct sl__task *task, int n);
/* Call on the thread that ran the task, or that StarPU told of its end. */
void sl__run_end(struct sl__task *task);

/* Waits until all tasks but exchanges have ended. Fails if the step stands still: no kernel runs and no exchange is
 * under way, but tasks or exchanges are ready.
 * SL_EPOLICY: for `patience` seconds (on a busy machine up to six times as long) no worker started a ready task. The
 * text names `policy`, the number of ready tasks, the first of them in order[n], and the memories that hold its data.
 * Or, after 10 s (on a busy machine up to 60): a task that has not begun needs more memory than a GPU has; the text
 * names its layer. SL_ESTARPU: for six times `patience` StarPU has not brought the data of a ready exchange to host
 * memory. */
sl_status sl__run_wait(sl__run *run, const struct sl__task *task, const int *order, int n, const char *policy,
                       double patience);

#endif
