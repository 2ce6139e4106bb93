/* The monotonic clock. */
#include "runtime/base/time.h"

#include <time.h>

int64_t sl_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double sl_seconds(void) { return 1e-9 * (double)sl_now(); }
