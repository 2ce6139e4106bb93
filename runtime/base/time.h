/* The monotonic clock, the source of all times in a process, and the time that it waits for processors. */
#ifndef SL_TIME_H
#define SL_TIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int64_t sl_now(void);    /* nanoseconds of CLOCK_MONOTONIC */
double sl_seconds(void); /* the same clock in seconds */
/* Seconds that this process's threads were ready to run and waited for a processor, together, so far; 0 where the
 * kernel does not tell. */
double sl_seconds_starved(void);

#ifdef __cplusplus
}
#endif
#endif
