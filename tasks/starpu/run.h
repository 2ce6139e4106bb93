/* One run through a step's tasks: how many of them are left, how it failed, and whether anyone still hands out what is
 * ready. Private to tasks/. */
#ifndef SL_TASKS_RUN_H
#define SL_TASKS_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/status.h"

struct sl__task;

enum { SL__WAITING, SL__BEGUN, SL__ENDED }; /* a task's state */

/* Of one program; the first kernel to fail writes the text, later tasks are skipped. */
typedef struct sl__run {
  atomic_int status;    /* sl_status */
  atomic_int claimed;   /* a task is writing the text */
  atomic_int first_bad; /* least node with an output that is not finite, in a checking step; INT_MAX: none */
  atomic_int last;      /* the node that ended last; -1: none has */
  atomic_int left;      /* tasks that have not ended, exchanges aside */
  pthread_mutex_t mutex;
  pthread_cond_t none_left;
  char text[1024];
} sl__run;

sl_status sl__run_create(sl__run *run);
void sl__run_destroy(sl__run *run);

/* Before the first of a step's tasks is submitted: task[n], exchanges among them. */
void sl__run_begin(sl__run *run, struct sl__task *task, int n);
/* By whoever ran the task, or knows that it has ended. */
void sl__run_end(struct sl__task *task);

/* Waits until no task is left, exchanges aside. SL_EPOLICY, naming `policy`, how many tasks and the first of order[n]:
 * for SL__PATIENCE seconds tasks were ready, none of them was begun, and no kernel ran. */
enum { SL__PATIENCE = 10 };
sl_status sl__run_wait(sl__run *run, const struct sl__task *task, const int *order, int n, const char *policy);

#endif
