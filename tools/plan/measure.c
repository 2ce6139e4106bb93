/* Measures plans on this machine by `starling bench`, one process after another, each plan in turn, so that a machine
 * that becomes warm or busy favours none. */
#include <stdlib.h>

#include "tools/compare/parts.h"
#include "tools/plan/parts.h"

enum { FIRST = 3, TURNS = 3 };
/* Plans whose time is at most so many times that of the fastest are measured SL__TURNS times in all. */
static const double CLOSE = 1.05;

double sl__measured_each(const sl__candidate *c) { return c->measured / (double)c->v[SL__BATCH]; }

static int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Adds the seconds of a step in one process. */
static sl_status measure_once(sl__planning *s, sl__candidate *c) {
  sl__options o = sl__candidate_options(s, c);
  json_t *json = NULL;
  char *reason = NULL;
  int code;
  const char *more[] = {"--no-measure", c->sched ? "--sched" : NULL, c->sched, NULL};
  sl__comparison run = {.o = &o, .meter = s->meter};
  snprintf(run.doing, sizeof run.doing, "measuring %lld shards, %s", (long long)o.shards,
           c->sched ? c->sched : "the default policy");
  sl_status status = sl__compare_run(&run, "bench", more, &json, &reason, &code);
  s->meter = run.meter;
  if (status == SL_OK && !json) status = sl_fail(SL_EINVAL, "bench %s: %s", o.model, reason);
  if (status == SL_OK) c->turn[c->turns++] = json_number_value(json_object_get(json, "step_s"));
  json_decref(json);
  free(reason);
  return status;
}

/* Measures the marked plans until each of them has so many turns, and sets their medians. */
static sl_status measure(sl__planning *s, sl__candidate *list, int n, int turns) {
  for (int t = 0; t < turns; t++)
    for (int i = 0; i < n; i++)
      if (list[i].chosen && list[i].turns < turns) SL_TRY(measure_once(s, &list[i]));
  for (int i = 0; i < n; i++) {
    sl__candidate *c = &list[i];
    if (!c->turns) continue;
    qsort(c->turn, (size_t)c->turns, sizeof *c->turn, ascending);
    c->measured = c->turn[c->turns / 2];
    c->spread = c->turn[c->turns - 1] / c->turn[0];
  }
  return SL_OK;
}

static int fastest_of(const sl__candidate *list, int n) {
  int fastest = -1;
  for (int i = 0; i < n; i++)
    if (list[i].turns && (fastest < 0 || sl__measured_each(&list[i]) < sl__measured_each(&list[fastest]))) fastest = i;
  return fastest;
}

/* Marks the plan `like` under this policy, and brings it to the shown ones. If it is not in the list, it is added; the
 * list has room. */
static sl_status choose_policy(sl__planning *s, const sl__candidate *like, const char *policy, sl__candidate *list,
                               int *n, int *shown) {
  sl__candidate found;
  int i = 0;
  while (i < *n && !(sl__candidate_same(&list[i], like) && sl__same_policy(list[i].sched, policy))) i++;
  if (i == *n) {
    const int simulated = like->simulated != NULL;
    found = *like;
    found.sched = policy, found.standard = found.turns = 0, found.simulated = NULL, found.reason = NULL;
    if (simulated) SL_TRY(sl__simulate_one(s, &found));
    free(found.reason), found.reason = NULL;
    if (simulated && !found.simulated) return SL_OK;
    list[(*n)++] = found;
  }
  list[i].chosen = 1;
  if (i < *shown || list[i].standard) return SL_OK;
  found = list[i];
  for (; i > *shown; i--) list[i] = list[i - 1];
  list[(*shown)++] = found;
  return SL_OK;
}

sl_status sl__plan_measure(sl__planning *s, sl__candidate **all, int *n, int *shown) {
  sl__candidate *list = realloc(*all, ((size_t)*n + SL__POLICIES) * sizeof *list);
  if (!list) return sl_no_memory("for %d plans", *n + SL__POLICIES);
  *all = list;
  for (int i = 0; i < *n; i++) list[i].chosen = (i < FIRST && i < *shown) || list[i].standard;
  SL_TRY(measure(s, list, *n, TURNS));
  const sl__candidate fastest = list[fastest_of(list, *n)];
  const char *const *policies = sl__policies(s, &fastest);
  for (int k = 0; !s->o->sched && policies[k]; k++) SL_TRY(choose_policy(s, &fastest, policies[k], list, n, shown));
  SL_TRY(measure(s, list, *n, TURNS));
  const double least = sl__measured_each(&list[fastest_of(list, *n)]);
  int close = 0;
  for (int i = 0; i < *n; i++) {
    list[i].chosen = list[i].turns && sl__measured_each(&list[i]) <= CLOSE * least;
    close += list[i].chosen;
  }
  return close > 1 ? measure(s, list, *n, SL__TURNS) : SL_OK;
}
