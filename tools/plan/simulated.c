/* Simulates the best predicted plans: the prediction places tasks by a list schedule of its own, while StarPU's
 * policies see one task after another, so the order of the best may change. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare/parts.h"
#include "tools/plan/parts.h"

enum { FIRST = 6, REFINED = 2, ROOM = FIRST + REFINED * SL__POLICIES + 1, STEPS = 3 };
static const double MOST_TASKS = 4e5; /* simulated, over all plans and steps */

double sl__seconds(const sl__candidate *c) {
  return c->simulated ? json_number_value(json_object_get(c->simulated, "step_s")) : c->p.seconds;
}

sl_status sl__simulate_one(sl__planning *s, sl__candidate *c) {
  sl__options o = sl__candidate_options(s, c);
  char steps[16];
  int code;
  snprintf(steps, sizeof steps, "%d", STEPS);
  const int scheduled = sl__candidate_model_ranks(c) == 1 && c->sched; /* others are simulated without policies */
  if (!scheduled) o.sched = NULL;
  const char *more[] = {"--steps", steps, scheduled ? "--sched" : NULL, c->sched, NULL};
  sl__comparison run = {.o = &o, .meter = s->meter};
  snprintf(run.doing, sizeof run.doing, "simulating %lld shards, %s", (long long)o.shards,
           c->sched ? c->sched : "the default policy");
  const sl_status status = sl__compare_run(&run, "simulate", more, &c->simulated, &c->reason, &code);
  s->meter = run.meter;
  return status;
}

void sl__candidates_free(sl__candidate *list, int n) {
  for (int i = 0; list && i < n; i++) {
    json_decref(list[i].simulated);
    free(list[i].reason);
  }
  free(list);
}

/* Sorts the list: simulated plans first, the best at the front. Stable. */
static void sort(const sl__planning *s, sl__candidate *list, int n) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0; k--) {
      sl__candidate *a = &list[k - 1], *b = &list[k], swap = *a;
      if (!b->simulated) break;
      if (a->simulated && sl__score(s, a, sl__seconds(a)) <= sl__score(s, b, sl__seconds(b))) break;
      *a = *b, *b = swap;
    }
}

const char *const *sl__policies(const sl__planning *s, const sl__candidate *c) {
  static const char *const on_gpus[] = {"dmdas", "dmda", "heteroprio", NULL}, *const on_cpus[] = {"lws", "prio",
                                                                                                  "eager", NULL};
  static const char *const none[] = {NULL, NULL, NULL, NULL};
  if (sl__candidate_model_ranks(c) > 1) return none;
  const int no_gpus = s->machine.gpu.count == 0 || s->o->gpus == 0 || c->v[SL__WORKERS] == SL__ONLY_CPU ||
                      (s->o->workers && strcmp(s->o->workers, "cpu") == 0);
  return no_gpus ? on_cpus : on_gpus;
}

int sl__same_policy(const char *a, const char *b) { return strcmp(a ? a : "lws", b ? b : "lws") == 0; }

/* Adds the default plan, unless it is among them. */
static sl_status add_standard(sl__planning *s, const sl__candidate *standard, sl__candidate *list, int *n) {
  if (!standard) return SL_OK;
  for (int i = 0; i < *n; i++)
    if (sl__candidate_same(&list[i], standard) && sl__same_policy(list[i].sched, standard->sched)) {
      list[i].standard = 1;
      return SL_OK;
    }
  list[*n] = *standard;
  return sl__simulate_one(s, &list[(*n)++]);
}

sl_status sl__simulate_best(sl__planning *s, const sl__candidate *standard, sl__candidate **list, int *n) {
  int index[FIRST];
  int first = sl__search_best(s, index, FIRST);
  const char *failed = NULL;
  sl_status status = SL_OK;
  *n = 0;
  if (!(*list = calloc(ROOM, sizeof **list))) return sl_no_memory("for %d plans", ROOM);
  double tasks = 0;
  for (int i = 0; i < first; i++) {
    sl__candidate *c = &(*list)[*n];
    tasks += (double)s->seen[index[i]].p.tasks * (STEPS + 2);
    if (i > 1 && tasks > MOST_TASKS) break;
    *c = s->seen[index[i]];
    c->sched = s->o->sched ? s->o->sched : sl__policies(s, c)[0];
    SL_TRY_OUT(sl__simulate_one(s, c));
    ++*n;
  }
  sort(s, *list, *n);
  const int base = *n;
  for (int i = 0; i < REFINED && i < base && !s->o->sched && (*list)[i].simulated; i++)
    for (int k = 1; k < SL__POLICIES && tasks < MOST_TASKS && sl__policies(s, &(*list)[i])[k]; k++) {
      sl__candidate *c = &(*list)[*n];
      *c = (*list)[i];
      c->simulated = NULL, c->reason = NULL;
      c->sched = sl__policies(s, c)[k];
      tasks += (double)c->p.tasks * (STEPS + 2);
      SL_TRY_OUT(sl__simulate_one(s, c));
      ++*n;
    }
  SL_TRY_OUT(add_standard(s, standard, *list, n));
  sort(s, *list, *n);
  for (int i = 0; i < *n; i++)
    if (!failed) failed = (*list)[i].reason;
  if (*n == 0 || !(*list)[0].simulated)
    SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "no plan could be simulated: %s", failed ? failed : "there is none"));
  while (*n > 0 && !(*list)[*n - 1].simulated) free((*list)[--*n].reason); /* failed ones are at the end */
out:
  if (status != SL_OK) sl__candidates_free(*list, *n), *list = NULL, *n = 0;
  return status;
}
