/* Learning rate schedules. */
#include "tools/learning_rate.h"

#include <math.h>
#include <string.h>

sl__rate_kind sl__rate_parse(const char *name) {
  return strcmp(name, "cosine") == 0   ? SL__RATE_COSINE
         : strcmp(name, "linear") == 0 ? SL__RATE_LINEAR
                                       : SL__RATE_CONSTANT;
}

double sl__rate_at(const sl__rate *r, int64_t step) {
  if (step <= r->warmup) return r->peak * (double)step / (double)r->warmup;
  const int64_t span = r->steps - r->warmup;
  const double done = span > 0 ? fmin(1, (double)(step - 1 - r->warmup) / (double)span) : 1;
  switch (r->kind) {
    case SL__RATE_LINEAR:
      return r->peak * (1 - done);
    case SL__RATE_COSINE:
      return r->peak * 0.5 * (1 + cos(3.14159265358979323846 * done));
    default:
      return r->peak;
  }
}
