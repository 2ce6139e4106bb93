/* Measured times of kinds of tasks (operation and footprint) on each kind of worker. Predictions and simulations take
 * them in place of the cost rules' estimates. */
#ifndef SL_TIMES_H
#define SL_TIMES_H

#include <stdint.h>

#include "runtime/base/status.h"
#include "tasks/schedule/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_times sl_times;

typedef struct sl_time {
  char operation[32];
  uint32_t footprint;         /* sl_node_footprint */
  double seconds[SL_KINDS];   /* of a task, on average; 0: not measured */
  double deviation[SL_KINDS]; /* standard deviation of a task's seconds, over their average */
} sl_time;

sl_status sl_times_create(sl_times **times);
void sl_times_destroy(sl_times *times); /* NULL is allowed */
/* Adds a kind of task or, if it is there already, replaces its times by those of `time` that are not 0. SL_ENOMEM. */
sl_status sl_times_put(sl_times *times, const sl_time *time);
/* Seconds of such a task on a worker of this kind; 0: not measured, or times is NULL. */
double sl_times_find(const sl_times *times, const char *operation, uint32_t footprint, int kind);
/* The deviation of such a task's time; 0: not measured, or times is NULL. */
double sl_times_deviation(const sl_times *times, const char *operation, uint32_t footprint, int kind);
/* Seconds that an idle worker of this kind needs to start a ready task; 0: not measured, or times is NULL. */
double sl_times_overhead(const sl_times *times, int kind);
void sl_times_set_overhead(sl_times *times, int kind, double seconds);
int sl_times_count(const sl_times *times);
const sl_time *sl_times_at(const sl_times *times, int i); /* in the order in which they were put first */

#ifdef __cplusplus
}
#endif
#endif
