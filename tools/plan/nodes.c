/* The least number of nodes that finishes a training in time: doubling, then bisection, by predicted steps. All numbers
 * of nodes use the plan found for the given number; only its batch and ZeRO stage change. So a rank does the same work
 * on any number of nodes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan/parts.h"

enum { MOST_NODES = 65536 };
static const double GAIN = 1.02; /* least speedup by twice as many nodes; below it the search for nodes ends */

/* Seconds of a sample on so many nodes; infinite: no plan fits. */
static sl_status fastest(sl__planning *s, const sl__candidate *from, int nodes, double *seconds) {
  *seconds = INFINITY;
  SL_TRY(sl__search_axes(s, nodes));
  const sl__values *batch = &s->axis[SL__BATCH], *zero = &s->axis[SL__ZERO];
  sl__meter_show(&s->meter, 0, 0, "looking at %d nodes", nodes);
  for (int i = 0; i < batch->n; i++) {
    const double share = (double)batch->value[i] / nodes * from->nodes / (double)from->v[SL__BATCH];
    if (batch->n > 1 && (share < 0.2 || share > 1)) continue; /* a node's work: as before, or down to a quarter of it */
    for (int k = 0; k < zero->n; k++) {
      sl__candidate c = *from;
      c.nodes = nodes, c.simulated = NULL;
      c.v[SL__BATCH] = batch->value[i], c.v[SL__ZERO] = zero->value[k];
      const int64_t rows = c.v[SL__BATCH] * sl__candidate_model_ranks(&c) / sl__candidate_ranks(&c);
      while (c.v[SL__EACH] > 1 && c.v[SL__EACH] * c.v[SL__GROUPS] * c.v[SL__MICRO] > rows) c.v[SL__EACH] /= 2;
      while (c.v[SL__GROUPS] > 1 && c.v[SL__GROUPS] * c.v[SL__MICRO] > rows) c.v[SL__GROUPS] /= 2;
      while (c.v[SL__MICRO] > 1 && c.v[SL__MICRO] > rows) c.v[SL__MICRO] /= 2;
      SL_TRY(sl__screen(s, &c, 0));
      if (c.p.valid && c.p.over <= 0) *seconds = fmin(*seconds, c.p.seconds / (double)c.v[SL__BATCH]);
    }
  }
  return SL_OK;
}

static sl_status explain(const sl__planning *s, const sl__candidate *from, int nodes, double seconds, int no_work,
                         char **why) {
  char text[32], mend[96] = "give a larger --batch";
  if (s->o->mesh && strstr(s->o->mesh, "data"))
    snprintf(mend, sizeof mend, "leave `data` out of --mesh, as it fixes the number of ranks");
  else if (s->o->shards > 0)
    snprintf(mend, sizeof mend, "leave --shards out: it must be a multiple of the leaves");
  else if (s->o->leaves > 0)
    snprintf(mend, sizeof mend, "give --leaves as a multiple of a larger number of nodes (now %lld)",
             (long long)s->o->leaves);
  sl__meter_duration(seconds, text);
  const int n = no_work
                    ? asprintf(why,
                               "no number of nodes is enough: with these options a batch of %lld samples has no work "
                               "for more than %d nodes, on which the training takes %s; %s",
                               (long long)from->v[SL__BATCH], nodes, text, mend)
                    : asprintf(why,
                               "no number of nodes is enough: on %d nodes the training takes %s, and more nodes "
                               "gain nothing, because of their exchanges and smaller shares of the batch",
                               nodes, text);
  return n < 0 ? sl_no_memory("for a message") : SL_OK;
}

sl_status sl__nodes_needed(sl__planning *s, const sl__candidate *from, double samples, double limit, double factor,
                           int *nodes, double *seconds, char **why) {
  int low = from->nodes, high = from->nodes;
  double least = INFINITY, now;
  *nodes = 0;
  if (!(s->machine.network.latency > 0)) {
    *why = NULL;
    return asprintf(why, "more nodes cannot help: machine '%s' has no network", s->machine.name) < 0
               ? sl_no_memory("for a message")
               : SL_OK;
  }
  SL_TRY(fastest(s, from, low, &now));
  least = samples * factor * now;
  for (;;) {
    const int next = 2 * high < MOST_NODES ? 2 * high : MOST_NODES;
    if (next == high) return explain(s, from, high, least, 0, why);
    SL_TRY(fastest(s, from, next, &now));
    if (isinf(now)) return explain(s, from, high, least, 1, why);
    *seconds = samples * factor * now;
    if (*seconds > limit && *seconds * GAIN > least) return explain(s, from, high, least, 0, why);
    least = *seconds, low = high, high = next;
    if (*seconds <= limit) break;
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    SL_TRY(fastest(s, from, middle, &now));
    if (samples * factor * now <= limit)
      high = middle, *seconds = samples * factor * now;
    else
      low = middle;
  }
  *nodes = high;
  return SL_OK;
}
