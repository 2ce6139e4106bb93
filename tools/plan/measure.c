/* Measures plans on this machine by `starling bench`, one process after another, each plan in turn, so that a machine
 * that becomes warm or busy favours none. */
#include <stdlib.h>

#include "tools/compare/parts.h"
#include "tools/plan/parts.h"

enum { TURNS = 3 };

static int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Seconds of a step in one process. */
static sl_status measure(sl__planning *s, const sl__candidate *c, double *seconds) {
  sl__options o = sl__candidate_options(s, c);
  json_t *json = NULL;
  char *reason = NULL;
  int code;
  const char *more[] = {"--no-measure", c->sched ? "--sched" : NULL, c->sched, NULL};
  sl__comparison run = {.o = &o, .meter = s->meter};
  snprintf(run.doing, sizeof run.doing, "measuring %lld shards", (long long)o.shards);
  sl_status status = sl__compare_run(&run, "bench", more, &json, &reason, &code);
  s->meter = run.meter;
  if (status == SL_OK && !json) status = sl_fail(SL_EINVAL, "bench %s: %s", o.model, reason);
  if (status == SL_OK) *seconds = json_number_value(json_object_get(json, "step_s"));
  json_decref(json);
  free(reason);
  return status;
}

sl_status sl__plan_measure(sl__planning *s, sl__candidate **list, int n) {
  double *seconds = calloc((size_t)n * TURNS + 1, sizeof *seconds);
  sl_status status = seconds ? SL_OK : sl_no_memory("for %d measurements", n * TURNS);
  for (int t = 0; t < TURNS && status == SL_OK; t++)
    for (int i = 0; i < n && status == SL_OK; i++) status = measure(s, list[i], &seconds[i * TURNS + t]);
  for (int i = 0; i < n && status == SL_OK; i++) {
    qsort(seconds + (size_t)i * TURNS, TURNS, sizeof *seconds, ascending);
    list[i]->measured = seconds[i * TURNS + TURNS / 2];
    list[i]->spread = seconds[i * TURNS + TURNS - 1] / seconds[i * TURNS];
  }
  free(seconds);
  return status;
}
