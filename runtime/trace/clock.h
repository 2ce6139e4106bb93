/* Clocks of several ranks brought together: by ping-pong with rank 0, at the start of a run and at its end, since
 * clocks of two machines also run at slightly different speeds. */
#ifndef SL_CLOCK_H
#define SL_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At `local` on this rank's clock, rank 0's showed local + offset, give or take error. All are nanoseconds. */
typedef struct sl_clock {
  int64_t local, offset, error;
} sl_clock;

/* One ping-pong: sent and received again by this rank's clock, answered by rank 0's. */
typedef struct sl_ping {
  int64_t sent, answered, received;
} sl_ping;

/* From the quickest of n > 0 pings, taking both ways as equally long (Cristian, "Probabilistic clock synchronization",
 * 1989): the error is at most half of what that one took. */
sl_clock sl_clock_estimate(const sl_ping *pings, int n);
/* A time of this rank on rank 0's clock, by a straight line through the first and the last estimate; one estimate: its
 * offset; none: the time itself. */
int64_t sl_clock_map(const sl_clock *clocks, int n, int64_t local);

#ifdef __cplusplus
}
#endif
#endif
