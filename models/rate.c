/* Learning rate schedules, and a table that lists the fields that each kind of schedule reads. */
#include "models/rate.h"

#include <math.h>
#include <stddef.h>

const char *const sl_rate_names[] = {
    [SL_RATE_CONSTANT] = "constant", "step", "linear", "cosine", [SL_RATE_COUNT] = NULL};

enum { ALL = -1, STEPS = 1 << SL_RATE_STEP, FALLS = 1 << SL_RATE_LINEAR | 1 << SL_RATE_COSINE };
static const struct row {
  sl_setting s;
  int kinds; /* bits of the kinds that read it */
} rows[] = {
#define ROW(field_, option_, kind_, kinds_)                                                                      \
  {                                                                                                              \
    .s = {.field = #field_, .option = option_, .kind = SL_SETTING_##kind_, .offset = offsetof(sl_rate, field_)}, \
    kinds_                                                                                                       \
  }
    {.s = {.field = "kind",
           .option = "rate-schedule",
           .kind = SL_SETTING_NAMED,
           .offset = offsetof(sl_rate, kind),
           .names = sl_rate_names},
     ALL},
    ROW(warmup, "warmup", INTEGER, ALL),
    ROW(steps, NULL, INTEGER, FALLS),
    ROW(every, "rate-step", INTEGER, STEPS),
    ROW(gamma, "rate-gamma", REAL, STEPS),
    ROW(floor, "rate-floor", REAL, FALLS),
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

json_t *sl_rate_to_json(const sl_rate *rate) {
  json_t *json = json_object();
  for (int i = 0; i < ROWS && json; i++)
    if (json_object_set_new(json, rows[i].s.field, sl_setting_to_json(&rows[i].s, rate)) != 0) {
      json_decref(json);
      json = NULL;
    }
  return json;
}

sl_status sl_rate_from_json(const json_t *json, sl_rate *rate) {
  for (int i = 0; i < ROWS; i++) {
    const json_t *value = json_object_get(json, rows[i].s.field);
    if (!value) return sl_fail(SL_EFORMAT, "the schedule has no %s", rows[i].s.field);
    SL_TRY(sl_setting_from_json(&rows[i].s, rate, value));
  }
  return SL_OK;
}

const sl_setting *sl_rate_differs(const sl_rate *a, const sl_rate *b) {
  for (int i = 0; i < ROWS; i++)
    if (rows[i].kinds & 1 << a->kind && !sl_setting_equal(&rows[i].s, a, b)) return &rows[i].s;
  return NULL;
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
