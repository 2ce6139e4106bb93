/* The monotonic clock, the source of all times in a process. */
#ifndef SL_TIME_H
#define SL_TIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int64_t sl_now(void);    /* nanoseconds of CLOCK_MONOTONIC, or of the clock set below */
double sl_seconds(void); /* the same clock in seconds */
/* Takes times from this clock, that of a simulation; NULL: from CLOCK_MONOTONIC again. */
void sl_time_source(int64_t (*now)(void));

#ifdef __cplusplus
}
#endif
#endif
