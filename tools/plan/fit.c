/* The message for a model that fits no plan: which memory is short, by how much, and whether more nodes would help.
 * ZeRO 1 divides the optimizer's state over the ranks; each rank keeps all parameters and gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/plan/parts.h"

enum { MOST_NODES = 65536 };
/* More nodes are no help if twice as many nodes leave more than this part of the missing bytes. */
static const double STILL = 0.98;

static int has(const sl__values *axis, int64_t value) {
  for (int i = 0; i < axis->n; i++)
    if (axis->value[i] == value) return 1;
  return 0;
}

/* A plan that needs little memory: one rank a node, ZeRO 3 (on one node 1), all activations recomputed, one shard after
 * another. Tried with one micro-batch and with as many as possible: many micro-batches need less memory for
 * activations, but more for partial sums of gradients and for fetched parameters. */
static sl_status thriftiest(sl__planning *s, int nodes, int64_t workers, sl__candidate *best) {
  sl__candidate c = {.nodes = nodes};
  SL_TRY(sl__search_axes(s, nodes));
  for (int k = 0; k < SL__AXES; k++) c.v[k] = s->axis[k].value[0];
  c.v[SL__WORKERS] = workers;
  c.v[SL__RECOMPUTE] = s->axis[SL__RECOMPUTE].value[s->axis[SL__RECOMPUTE].n - 1];
  for (int stage = 1; stage <= 3 && sl__candidate_ranks(&c) > 1; stage++)
    if (has(&s->axis[SL__ZERO], stage)) c.v[SL__ZERO] = stage;
  for (int i = 0; i < s->axis[SL__BATCH].n && c.v[SL__BATCH] < sl__candidate_ranks(&c); i++)
    c.v[SL__BATCH] = s->axis[SL__BATCH].value[i];
  SL_TRY(sl__screen(s, &c, 1));
  *best = c;
  const int64_t one = c.v[SL__MICRO];
  for (int i = 0; i < s->axis[SL__MICRO].n; i++)
    if (s->axis[SL__MICRO].value[i] * sl__candidate_ranks(&c) <= c.v[SL__BATCH])
      c.v[SL__MICRO] = s->axis[SL__MICRO].value[i];
  if (c.v[SL__MICRO] == one) return SL_OK;
  SL_TRY(sl__screen(s, &c, 1));
  if (c.p.valid && (!best->p.valid || c.p.over < best->p.over)) *best = c;
  return SL_OK;
}

/* The least number of nodes found that holds the model; 0: none, up to one node for each sample. over: bytes missing on
 * `from` nodes. *sure: 1: a search on one node less found no plan that fits. */
static sl_status least_nodes(sl__planning *s, int from, int64_t workers, double over, int *nodes, int *sure) {
  enum { FEW = 3000 }; /* tasks of a plan that a search can predict many times */
  sl__candidate c;
  int low = from, high = from;
  *nodes = *sure = 0;
  do {
    if (high >= MOST_NODES) return SL_OK;
    high = 2 * high < MOST_NODES ? 2 * high : MOST_NODES;
    sl__meter_show(&s->meter, 0, 0, "looking at %d nodes", high);
    SL_TRY(thriftiest(s, high, workers, &c));
    if (!c.p.valid || c.p.over > STILL * over) return SL_OK; /* what is left does not shrink with more nodes */
    over = c.p.over;
    if (over > 0) low = high;
  } while (over > 0);
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    SL_TRY(thriftiest(s, middle, workers, &c));
    *(c.p.valid && c.p.over <= 0 ? &high : &low) = middle;
  }
  *nodes = high;
  *sure = high == from + 1;
  while (!*sure && c.p.tasks < FEW) {
    int best;
    const sl_status status = sl__search(s, *nodes - 1, &best);
    if (status == SL_EINVAL) { /* no plan divides the batch among so many */
      *sure = 1;
      break;
    }
    SL_TRY(status);
    *sure = s->seen[best].p.over > 0;
    if (!*sure) --*nodes;
    if (*nodes == from + 1) *sure = 1;
  }
  return SL_OK;
}

sl_status sl__fit_explain(sl__planning *s, const sl__candidate *best, char **text, int *nodes) {
  sl__candidate thrifty, c = *best;
  char plan[256], more[640] = "", named[SL_SIZES_TEXT];
  int sure = 0;
  *nodes = 0;
  const int64_t workers = has(&s->axis[SL__WORKERS], SL__ONLY_CPU) ? SL__ONLY_CPU : best->v[SL__WORKERS];
  SL_TRY(thriftiest(s, best->nodes, workers, &thrifty));
  if (c.p.rough) SL_TRY(sl__screen(s, &c, 1));
  if (thrifty.p.valid && (!c.p.valid || thrifty.p.over < c.p.over)) c = thrifty;
  const sl__prediction *p = &c.p;
  const double gb = 1e-9, common = (double)c.v[SL__LOCAL] * p->replicated;
  const double whole_state = (double)c.v[SL__LOCAL] * p->state;    /* of a node, with --zero 0 */
  const int divides = s->o->plan_zero < 0 || s->o->plan_zero == 3; /* parameters, too */
  const char *what = s->network.clip != SL_NONE ? "parameters and gradients (all at once, for --clip)" : "parameters";
  if (p->over <= 0) { /* by a plan that the search did not reach */
    snprintf(more, sizeof more, "this plan fits: give it by its options");
  } else if (p->of_gpu) {
    snprintf(more, sizeof more,
             "one task needs so much at once, on any number of nodes: --workers cpu does without the GPUs");
  } else if (s->o->plan_zero == 0 && common + whole_state > s->memory) {
    snprintf(more, sizeof more,
             "no number of nodes can hold it with --zero 0: %s (%.3f GB) and the optimizer's state (%.3f GB) are whole "
             "on every node. --zero 3 divides all of it",
             what, gb * common, gb * whole_state);
  } else if (common > s->memory && !divides) {
    snprintf(more, sizeof more,
             "no number of nodes can hold it with --zero %lld: %s take %.3f GB on every node, and only the optimizer's "
             "state (%.3f GB) is divided. --zero 3 divides all of it",
             (long long)s->o->plan_zero, what, gb * common, gb * p->state);
  } else if (!(s->machine.network.latency > 0)) {
    snprintf(more, sizeof more, "machine '%s' has no network, so there are no more nodes", s->machine.name);
  } else {
    SL_TRY(least_nodes(s, best->nodes, workers, fmax(p->over, thrifty.p.over), nodes, &sure));
    sl__candidate on_gpus = {.p = {0}};
    if (*nodes && workers == SL__ONLY_CPU && has(&s->axis[SL__WORKERS], SL__ONLY_GPU))
      SL_TRY(thriftiest(s, *nodes, SL__ONLY_GPU, &on_gpus));
    int used = 0;
    if (*nodes && divides)
      used = snprintf(more, sizeof more,
                      "%d nodes could hold it%s: ZeRO 3 divides %s (%.3f GB) and the optimizer's state (%.3f GB) over "
                      "the ranks",
                      *nodes, sure ? ", and no fewer" : "", what, gb * common, gb * p->state);
    else if (*nodes && s->o->plan_zero == 0)
      used = snprintf(more, sizeof more,
                      "%d nodes could hold it%s: each then has a smaller share of the batch, while %s and the "
                      "optimizer's state take %.3f GB on every node",
                      *nodes, sure ? ", and no fewer" : "", what, gb * (common + whole_state));
    else if (*nodes)
      used = snprintf(more, sizeof more,
                      "%d nodes could hold it%s: the optimizer's state (%.3f GB) is divided over the ranks, while %s "
                      "take %.3f GB on every node",
                      *nodes, sure ? ", and no fewer" : "", gb * p->state, what, gb * common);
    else
      snprintf(more, sizeof more,
               "no number of nodes%s is enough: the memory that a rank needs beside its share of the parameters does "
               "not shrink with more nodes",
               s->o->batch > 0 ? " that can share this batch" : "");
    if (on_gpus.p.valid && on_gpus.p.of_gpu)
      snprintf(more + used, sizeof more - (size_t)used,
               "; its GPUs could not take part, as one task needs %.3f GB at once (--workers cpu)", gb * on_gpus.p.gpu);
  }
  sl__candidate_text(s, &c, plan, sizeof plan);
  sl_model_text(s->model, named, sizeof named);
  if (asprintf(
          text,
          "%s does not fit on %d node%s of %s: the plan that needs least (%s) takes %.3f GB of %s memory, of which "
          "there are %.3f GB%s: %.3f GB are missing; %s",
          named, best->nodes, best->nodes > 1 ? "s" : "", s->machine.name, plan, gb * (p->of_gpu ? p->gpu : p->node),
          p->of_gpu ? "a GPU's" : "a node's", gb * (p->of_gpu ? s->gpu_memory : s->memory),
          p->of_gpu               ? s->o->gpu_memory > 0 ? " (--gpu-memory)" : ""
          : s->o->node_memory > 0 ? " (--memory)"
                                  : "",
          gb * p->over, more) < 0)
    return sl_no_memory("for a message");
  return SL_OK;
}
