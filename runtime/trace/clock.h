/* Converts the times of all ranks to rank 0's clock. Each rank compares its clock with rank 0's by ping-pong, at the
 * start of a run and at its end, because clocks of two machines also run at slightly different speeds. */
#ifndef SL_CLOCK_H
#define SL_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When this rank's clock showed `local`, rank 0's clock showed local + offset, give or take `error`. All are
 * nanoseconds. */
typedef struct sl_clock {
  int64_t local, offset, error;
} sl_clock;

/* One ping-pong: sent and received again by this rank's clock, answered by rank 0's. */
typedef struct sl_ping {
  int64_t sent, answered, received;
} sl_ping;

/* Estimates the offset from the quickest of n > 0 pings, under the assumption that both ways take equally long
 * (Cristian, "Probabilistic clock synchronization", 1989). The error is at most half of that ping's time. */
sl_clock sl_clock_estimate(const sl_ping *pings, int n);
/* Converts a time of this rank to rank 0's clock, by a straight line through the first and the last estimate. With one
 * estimate, adds its offset; with none, returns the time itself. */
int64_t sl_clock_map(const sl_clock *clocks, int n, int64_t local);

#ifdef __cplusplus
}
#endif
#endif
