/* The watch over a job of several ranks. A thread of each rank reports the rank's state, and ends the job if an
 * exchange makes no progress for too long; the message names the ranks that it waits for. */
#ifndef SL_TOOLS_WATCH_H
#define SL_TOOLS_WATCH_H

#include "tasks/starpu/program.h"
#include "tools/run/ranks.h"

typedef struct sl__watch sl__watch;

/* Collective. programs[n] run one at a time and outlive the watch. patience: seconds; 0: wait for ever. On one rank
 * *watch is NULL. */
sl_status sl__watch_start(const sl__ranks *ranks, sl_program *const *programs, int n, double patience,
                          sl__watch **watch);
void sl__watch_stop(sl__watch *watch); /* collective; NULL is allowed */

#endif
