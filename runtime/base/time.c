/* The monotonic clock, or a simulation's clock. */
#include "runtime/base/time.h"

#include <time.h>

static int64_t (*source)(void);

void sl_time_source(int64_t (*now)(void)) { source = now; }

int64_t sl_now(void) {
  struct timespec t;
  if (source) return source();
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double sl_seconds(void) { return 1e-9 * (double)sl_now(); }
