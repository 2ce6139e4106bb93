/* Warns of options that change nothing in this run, so that nobody waits for an effect that cannot come. */
#include <string.h>

#include "runtime/base/log.h"
#include "tools/train/trainer.h"

static void warn(const char *option, const char *why) { sl_log(SL_LOG_WARNING, "--%s has no effect: %s", option, why); }

/* Whether an operation's name begins so. */
static int has(const sl_graph *g, const char *operation) {
  for (int i = 0; i < g->n_nodes; i++)
    if (strncmp(g->node[i]->op->name, operation, strlen(operation)) == 0) return 1;
  return 0;
}

/* Why a setting of training that is given changes nothing; NULL: it does. */
static const char *why_not(const sl__trainer *r, const sl_training_setting *s) {
  const sl_training *t = &r->job.facts.training;
  const sl_graph *g = r->job.network.graph;
  const char *field = s->s.field;
  if (s->flags & SL_TRAINING_OPTIMIZER)
    return sl_optimizer_reads(t->optimizer, field) ? NULL : "the optimizer has no such constant";
  if (strcmp(field, "loss_scale") == 0) return t->precision == SL_PRECISION_FP16 ? NULL : "only fp16 scales the loss";
  if (strcmp(field, "dropout") == 0) return t->dropout == 0 || has(g, "dropout") ? NULL : "the model has no dropout";
  if (strcmp(field, "batchnorm") == 0) return has(g, "batchnorm") ? NULL : "the model has no batch normalisation";
  if (strcmp(field, "recompute") == 0)
    return t->recompute == SL_RECOMPUTE_NONE || g->n_segments ? NULL : "the model has no attention and no blocks";
  if (strcmp(field, "fold_sums") == 0) return t->folds > 1 ? NULL : "the products have no folds";
  return NULL;
}

void sl__trainer_warn_unused(const sl__trainer *r) {
  const sl__options *o = r->o;
  const int alone = r->job.ranks.n == 1;
  if (r->job.ranks.rank > 0 || o->resume) return;
  for (const sl_training_setting *s = sl_training_settings; s->s.field; s++) {
    const char *why = sl_setting_given(&s->s, &o->training) ? why_not(r, s) : NULL;
    if (why) warn(s->s.option, why);
  }
  if (o->rate_gamma != 0.1 && r->rate.kind != SL_RATE_STEP) warn("rate-gamma", "the learning rate has no steps");
  if (o->rate_floor > 0 && r->rate.kind != SL_RATE_LINEAR && r->rate.kind != SL_RATE_COSINE)
    warn("rate-floor", "the learning rate does not fall to a final value");
  if (sl__pipe_is_there(o, &r->job.ranks.mesh) != SL_OK)
    sl_log(SL_LOG_WARNING, "options of a pipeline have no effect: the mesh has none");
  if (alone && o->verify_every > 0) warn("verify-every", "there is only one rank");
  if (alone && o->balance && strcmp(o->balance, "auto") == 0) warn("balance", "there is only one rank");
}
