/* Learning rate schedules. */
#include "models/rate.h"

#include <math.h>
#include <string.h>

static const char *const names[SL_RATE_COUNT] = {"constant", "step", "linear", "cosine"};

const char *sl_rate_name(sl_rate_kind kind) { return names[kind]; }

sl_status sl_rate_parse(const char *name, sl_rate_kind *kind) {
  for (int i = 0; i < SL_RATE_COUNT; i++)
    if (strcmp(names[i], name) == 0) {
      *kind = (sl_rate_kind)i;
      return SL_OK;
    }
  return sl_fail(SL_EINVAL, "no schedule '%s': there are constant, step, linear and cosine", name);
}

double sl_rate_at(const sl_rate *r, int64_t step) {
  if (step <= r->warmup) return r->peak * (double)step / (double)r->warmup;
  const int64_t behind = step - 1 - r->warmup, span = r->steps - r->warmup;
  const double done = span > 0 ? fmin(1, (double)behind / (double)span) : 1;
  switch (r->kind) {
    case SL_RATE_STEP:
      return r->peak * pow(r->gamma, (double)(behind / r->every));
    case SL_RATE_LINEAR:
      return r->peak * (r->floor + (1 - r->floor) * (1 - done));
    case SL_RATE_COSINE:
      return r->peak * (r->floor + (1 - r->floor) * 0.5 * (1 + cos(3.14159265358979323846 * done)));
    default:
      return r->peak;
  }
}
