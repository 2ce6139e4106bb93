/* What to say of a model that fits no plan: which memory is short and by how much, and whether more nodes would help.
 * ZeRO 1 divides the optimizer's state over the ranks; parameters and gradients every rank has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/plan/parts.h"

enum { MOST_NODES = 65536 };

static int has(const sl__values *axis, int64_t value) {
  for (int i = 0; i < axis->n; i++)
    if (axis->value[i] == value) return 1;
  return 0;
}

/* The plan that needs the least memory: one rank a node, ZeRO 1, all recomputed, one shard after another. */
static sl_status thriftiest(sl__planning *s, int nodes, int64_t workers, sl__candidate *c) {
  SL_TRY(sl__search_axes(s, nodes));
  *c = (sl__candidate){.nodes = nodes};
  for (int k = 0; k < SL__AXES; k++) c->v[k] = s->axis[k].value[0];
  c->v[SL__WORKERS] = workers;
  c->v[SL__RECOMPUTE] = s->axis[SL__RECOMPUTE].value[s->axis[SL__RECOMPUTE].n - 1];
  if (nodes * c->v[SL__LOCAL] > 1 && has(&s->axis[SL__ZERO], 1)) c->v[SL__ZERO] = 1;
  for (int i = 0; i < s->axis[SL__BATCH].n && c->v[SL__BATCH] < sl__candidate_ranks(c); i++)
    c->v[SL__BATCH] = s->axis[SL__BATCH].value[i];
  for (int i = 0; i < s->axis[SL__MICRO].n; i++)
    if (s->axis[SL__MICRO].value[i] * sl__candidate_ranks(c) <= c->v[SL__BATCH])
      c->v[SL__MICRO] = s->axis[SL__MICRO].value[i];
  return sl__screen(s, c, 1);
}

/* The least number of nodes that holds it; 0: none up to those that the batch gives work. */
static sl_status least_nodes(sl__planning *s, int from, int64_t workers, int *nodes) {
  sl__candidate c;
  int low = from, high = from;
  *nodes = 0;
  do {
    if (high >= MOST_NODES) return SL_OK;
    high = 2 * high < MOST_NODES ? 2 * high : MOST_NODES;
    sl__meter_show(&s->meter, 0, 0, "looking at %d nodes", high);
    SL_TRY(thriftiest(s, high, workers, &c));
    if (!c.p.valid) return SL_OK;
    if (c.p.over > 0) low = high;
  } while (c.p.over > 0);
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    SL_TRY(thriftiest(s, middle, workers, &c));
    *(c.p.valid && c.p.over <= 0 ? &high : &low) = middle;
  }
  *nodes = high;
  return SL_OK;
}

sl_status sl__fit_explain(sl__planning *s, const sl__candidate *best, char **text, int *nodes) {
  sl__candidate thrifty, c = *best;
  char plan[256], more[640] = "", named[SL_SIZES_TEXT];
  const char *const memory = s->o->node_memory > 0 ? "--memory" : "its memory";
  *nodes = 0;
  const int64_t workers = has(&s->axis[SL__WORKERS], SL__ONLY_CPU) ? SL__ONLY_CPU : best->v[SL__WORKERS];
  SL_TRY(thriftiest(s, best->nodes, workers, &thrifty));
  if (c.p.rough) SL_TRY(sl__screen(s, &c, 1));
  if (thrifty.p.valid && (!c.p.valid || thrifty.p.over < c.p.over)) c = thrifty;
  const sl__prediction *p = &c.p;
  const double gb = 1e-9, common = (double)c.v[SL__LOCAL] * p->replicated;
  const char *what = s->network.clip != SL_NONE ? "parameters and gradients (all at once, for --clip)" : "parameters";
  if (p->over <= 0) { /* by a plan that the search did not reach */
    snprintf(more, sizeof more, "this plan fits: give it by its options");
  } else if (p->of_gpu) {
    snprintf(more, sizeof more,
             "one task needs so much at once, on any number of nodes: --workers cpu does without the GPUs");
  } else if (common > s->memory) {
    snprintf(more, sizeof more,
             "no number of nodes can hold it: %s take %.3f GB on every node, and ZeRO 1 divides only the optimizer's "
             "state (%.3f GB)",
             what, gb * common, gb * p->state);
  } else if (!(s->machine.network.latency > 0)) {
    snprintf(more, sizeof more, "machine '%s' has no network, so there are no more nodes", s->machine.name);
  } else {
    SL_TRY(least_nodes(s, best->nodes, c.v[SL__WORKERS], nodes));
    if (*nodes)
      snprintf(more, sizeof more,
               "%d nodes could hold it, the least number that can: ZeRO 1 divides the optimizer's state (%.3f GB) over "
               "the ranks, while %s take %.3f GB on every node",
               *nodes, gb * p->state, what, gb * common);
    else
      snprintf(more, sizeof more,
               "no number of nodes can hold it%s: %s take %.3f GB on every node, and beside them there is no room for "
               "the rest",
               s->o->batch > 0 ? " to which this batch gives work" : "", what, gb * common);
  }
  sl__candidate_text(s, &c, plan, sizeof plan);
  sl_model_text(s->model, named, sizeof named);
  if (asprintf(text,
               "%s does not fit on %d node%s of %s: the plan that needs least (%s) takes %.3f GB of %s, %s of %.3f GB: "
               "%.3f GB are missing; %s",
               named, best->nodes, best->nodes > 1 ? "s" : "", s->machine.name, plan, gb * (p->of_gpu ? p->gpu : p->node),
               p->of_gpu ? "a GPU" : "a node", p->of_gpu ? "its memory" : memory,
               gb * (p->of_gpu ? s->gpu_memory : s->memory), gb * p->over, more) < 0)
    return sl_no_memory("for a message");
  return SL_OK;
}
