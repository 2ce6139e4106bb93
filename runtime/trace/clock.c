/* Clock offsets between ranks, from pings. */
#include "runtime/trace/clock.h"

#include <math.h>

sl_clock sl_clock_estimate(const sl_ping *pings, int n) {
  sl_clock best = {.error = INT64_MAX};
  for (int i = 0; i < n; i++) {
    const int64_t half = (pings[i].received - pings[i].sent + 1) / 2, middle = pings[i].sent + half;
    if (half < best.error) best = (sl_clock){.local = middle, .offset = pings[i].answered - middle, .error = half};
  }
  return best;
}

int64_t sl_clock_map(const sl_clock *clocks, int n, int64_t local) {
  if (n == 0) return local;
  const sl_clock *a = &clocks[0], *b = &clocks[n - 1];
  if (b->local <= a->local) return local + a->offset;
  const double along = (double)(local - a->local) / (double)(b->local - a->local), most = 0x1p60;
  return local + a->offset + (int64_t)fmax(-most, fmin(along * (double)(b->offset - a->offset), most));
}
