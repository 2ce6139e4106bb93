/* Measures plans on this machine by `starling bench`, one process after another, each plan in turn, so that a machine
 * that becomes warm or busy favours none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/compare/parts.h"
#include "tools/plan/parts.h"

/* The fastest different plans whose other policies are measured too. */
enum { CLOSEST = 3 };
/* Processes that measure a plan; SL__TURNS at most, or MORE_TURNS if the steps of a process take LONG_TURN. */
enum { FIRST_TURNS = 2, MORE_TURNS = 4 };
static const double LONG_TURN = 6; /* seconds */
/* A plan's time over that of the fastest: up to NEAR other policies are tried, up to NEARER it has MORE_TURNS, up to
 * CLOSE it has SL__TURNS and is shown. */
static const double NEAR = 1.15, NEARER = 1.10, CLOSE = 1.05;

double sl__measured_each(const sl__candidate *c) { return c->measured / (double)c->v[SL__BATCH]; }

static int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double step_of(const sl__candidate *c) { return c->turns ? c->turn[0] : sl__seconds(c); }

/* Steps that one process measures: about a second of them, or three. */
static int steps_of(const sl__candidate *c) { return (int)fmin(fmax(3, ceil(1 / step_of(c))), 1000); }

/* Adds the seconds of a step in one process. */
static sl_status measure_once(sl__planning *s, sl__candidate *c) {
  sl__options o = sl__candidate_options(s, c);
  json_t *json = NULL;
  char *reason = NULL;
  int code;
  char steps[16];
  snprintf(steps, sizeof steps, "%d", steps_of(c));
  const char *more[] = {"--no-measure", "--steps", steps, c->sched ? "--sched" : NULL, c->sched, NULL};
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

/* Measures the marked plans in turn until each has been measured by `turns` processes, and sets their medians. */
static sl_status measure(sl__planning *s, sl__candidate *list, int n, int turns) {
  for (int t = 0; t < turns; t++)
    for (int i = 0; i < n; i++)
      if (list[i].chosen && list[i].turns < turns) SL_TRY(measure_once(s, &list[i]));
  for (int i = 0; i < n; i++) {
    sl__candidate *c = &list[i];
    if (!c->turns) continue;
    qsort(c->turn, (size_t)c->turns, sizeof *c->turn, ascending);
    c->measured = 0.5 * (c->turn[(c->turns - 1) / 2] + c->turn[c->turns / 2]);
    c->spread = c->turn[c->turns - 1] / c->turn[0];
  }
  return SL_OK;
}

/* Marks the plans that take at most `times` as long as the fastest. Returns their number. */
static int choose(sl__candidate *list, int n, double times) {
  double least = INFINITY;
  int chosen = 0;
  for (int i = 0; i < n; i++)
    if (list[i].turns) least = fmin(least, sl__measured_each(&list[i]));
  for (int i = 0; i < n; i++) chosen += list[i].chosen = list[i].turns && sl__measured_each(&list[i]) <= times * least;
  return chosen;
}

/* Marks the plan `like` under this policy. If it is not in the list, it is added; the list has room. */
static sl_status choose_policy(sl__planning *s, const sl__candidate *like, const char *policy, sl__candidate *list,
                               int *n) {
  for (int i = 0; i < *n; i++)
    if (sl__candidate_same(&list[i], like) && sl__same_policy(list[i].sched, policy)) {
      list[i].chosen = 1;
      return SL_OK;
    }
  sl__candidate *c = &list[*n];
  *c = *like;
  c->sched = policy, c->standard = c->turns = 0, c->simulated = NULL, c->reason = NULL;
  if (like->simulated) {
    SL_TRY(sl__simulate_one(s, c));
    free(c->reason), c->reason = NULL;
    if (!c->simulated) return SL_OK;
  }
  c->chosen = 1;
  ++*n;
  return SL_OK;
}

/* Marks the other policies of the fastest different plans among the marked ones. */
static sl_status choose_policies(sl__planning *s, sl__candidate *list, int *n) {
  const sl__candidate *found[CLOSEST];
  for (int k = 0; k < CLOSEST; k++) {
    found[k] = NULL;
    for (int i = 0; i < *n; i++) {
      int eligible = list[i].turns && list[i].chosen;
      for (int j = 0; j < k; j++) eligible &= !sl__candidate_same(&list[i], found[j]);
      if (eligible && (!found[k] || sl__measured_each(&list[i]) < sl__measured_each(found[k]))) found[k] = &list[i];
    }
    if (!found[k]) return SL_OK;
    const char *const *policies = sl__policies(s, found[k]);
    for (int p = 0; policies[p]; p++) SL_TRY(choose_policy(s, found[k], policies[p], list, n));
  }
  return SL_OK;
}

/* Moves the marked plans to the shown ones, but for the default one, which is always shown. */
static void show(sl__candidate *list, int n, int *shown) {
  for (int i = *shown; i < n; i++)
    if (list[i].chosen && !list[i].standard) {
      const sl__candidate moved = list[i];
      for (int k = i; k > *shown; k--) list[k] = list[k - 1];
      list[(*shown)++] = moved;
    }
}

sl_status sl__plan_measure(sl__planning *s, sl__candidate **all, int *n, int *shown) {
  sl__candidate *list = realloc(*all, (size_t)(*n + CLOSEST * SL__POLICIES) * sizeof *list);
  if (!list) return sl_no_memory("for %d plans", *n + CLOSEST * SL__POLICIES);
  *all = list;
  for (int i = 0; i < *n; i++) {
    int first = 1;
    for (int k = 0; k < i; k++) first &= !sl__candidate_same(&list[k], &list[i]);
    list[i].chosen = first || list[i].standard;
  }
  SL_TRY(measure(s, list, *n, FIRST_TURNS));
  choose(list, *n, NEAR);
  if (!s->o->sched) SL_TRY(choose_policies(s, list, n));
  SL_TRY(measure(s, list, *n, FIRST_TURNS));
  if (choose(list, *n, NEARER) > 1) SL_TRY(measure(s, list, *n, MORE_TURNS));
  if (choose(list, *n, CLOSE) > 1 && steps_of(list) * step_of(list) < LONG_TURN)
    SL_TRY(measure(s, list, *n, SL__TURNS));
  show(list, *n, shown);
  return SL_OK;
}
