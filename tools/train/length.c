/* Computes the number of steps and the intervals of a run, and writes them back to the options, so that config.yaml
 * shows all values in effect. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/train/trainer.h"

sl_status sl__trainer_set_length(sl__trainer *r) {
  sl__options *o = r->o;
  const sl_model *m = r->job.facts.model;
  const int64_t n = r->job.data.n[SL_SPLIT_TRAIN], batch = r->job.facts.plan.batch;
  if (n < 1) return sl_fail(SL_EINVAL, "no %s are left to train on: lower --val-fraction", r->job.data.kind->samples);
  if (r->until.measure != SL__UNTIL_NONE && !sl__trainer_validates(r))
    return sl_fail(SL_EINVAL,
                   "--until looks at validation, and --val-fraction %g sets no %s aside: raise --val-fraction",
                   o->val_fraction, r->job.data.kind->samples);
  if (o->steps < 0 && o->epochs < 0) o->epochs = r->until.measure == SL__UNTIL_NONE ? m->epochs : 5 * m->epochs;
  r->total = o->epochs > 0 ? (int64_t)ceil((double)o->epochs * (double)n / (double)batch) : INT64_MAX;
  if (o->steps > 0 && o->steps < r->total) r->total = o->steps;
  r->eval_every = o->eval_every;
  r->log_every = o->log_every > 0 ? o->log_every : n / batch / 10 > 0 ? n / batch / 10 : 1;
  if (o->rate_schedule < 0) o->rate_schedule = (int)m->rate;
  sl__option_default_integer(&o->warmup, (int64_t)(m->warmup * (double)r->total));
  sl__option_default_integer(&o->rate_step, r->total / 3 > 0 ? r->total / 3 : 1);
  r->rate = (sl_rate){.kind = (sl_rate_kind)o->rate_schedule,
                      .peak = r->job.facts.training.learning_rate,
                      .warmup = o->warmup,
                      .steps = r->total,
                      .every = o->rate_step,
                      .gamma = o->rate_gamma,
                      .floor = o->rate_floor};
  r->job.ranks.compression.warmup = o->warmup;
  return SL_OK;
}

sl_status sl__trainer_complete_options(sl__trainer *r) {
  sl__options *o = r->o;
  const sl_plan *p = &r->job.facts.plan;
  char sizes[SL_SIZES_TEXT];
  free(o->size), o->size = NULL;
  if (*sl_model_sizes_text(r->job.facts.model, sizes, sizeof sizes)) SL_TRY(sl__option_default_text(&o->size, sizes));
  sl__option_default_integer(&o->batch, p->batch);
  sl__option_default_integer(&o->leaves, p->leaves);
  /* A pipeline's own choice is not kept: after --resume on another mesh it would not fit. */
  if (sl__mesh_model_ranks(&r->job.ranks.mesh) <= 1) sl__option_default_integer(&o->micro_batches, p->micro_batches);
  sl__option_default_integer(&o->shards, p->shards);
  sl__option_default_integer(&o->row_blocks, p->row_blocks);
  sl__training_default(o, &r->job.facts.training);
  SL_TRY(sl__option_default_text(&o->kernels, p->kernels));
  if (o->products && strcmp(o->products, "auto") == 0) free(o->products), o->products = NULL; /* --resume repeats it */
  if (p->tiles.blas) SL_TRY(sl__option_default_text(&o->products, "openblas"));
  if (r->job.facts.training.precision == SL_PRECISION_BF16)
    SL_TRY(sl__option_default_text(&o->bf16_sums, p->tiles.blocks ? "blocks" : "pairs"));
  SL_TRY(sl__option_default_text(&o->sched, sl_runtime_sched(r->job.runtime)));
  if (r->job.facts.data.length > 0) sl__option_default_integer(&o->length, r->job.facts.data.length);
  char *path = strdup(r->job.data.path);
  if (!path) return sl_no_memory("for a path");
  free(o->data);
  o->data = path;
  return SL_OK;
}
