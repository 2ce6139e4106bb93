/* The monotonic clock, the source of all times in a process. */
#ifndef SL_TIME_H
#define SL_TIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int64_t sl_now(void);    /* nanoseconds of CLOCK_MONOTONIC */
double sl_seconds(void); /* the same clock in seconds */

#ifdef __cplusplus
}
#endif
#endif
