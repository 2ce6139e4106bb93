/* Saves a run to checkpoints and restores it. */
#include <string.h>

#include "runtime/base/log.h"
#include "tools/files/rundir.h"
#include "tools/train/trainer.h"
#include "tools/watch/heartbeat.h"

static void take_sums(sl__interval *i, const sl__sums *sums) {
  *i = (sl__interval){.steps = sums->steps,
                      .before = sums->steps,
                      .loss = sums->loss,
                      .correct = sums->correct,
                      .count = sums->count,
                      .overflows = sums->overflows};
}

static sl__sums sums_of(const sl__interval *i) {
  return (sl__sums){
      .steps = i->steps, .overflows = i->overflows, .loss = i->loss, .correct = i->correct, .count = i->count};
}

/* Warns if the GPU is of another kind: fast kernels repeat their bits only on the same kind. */
static void warn_of_gpu(const sl__trainer *r, const char *before) {
  char here[256];
  sl__job_fast_gpu(&r->job, here, sizeof here);
  if (before[0] && here[0] && strcmp(before, here) != 0)
    sl_log(SL_LOG_WARNING,
           "fast GPU kernels: the checkpoint was made on %s, and this is %s: the bits will not be those of a run that "
           "nobody interrupted",
           before, here);
}

sl_status sl__trainer_read(sl__trainer *r, const char *run, int64_t most) {
  sl__progress p;
  const sl__resume_options options = {.run = run,
                                      .most = most,
                                      .ranks = &r->job.ranks,
                                      .facts = &r->job.facts,
                                      .rate = &r->rate,
                                      .data = r->job.data.digest,
                                      .store = r->job.store};
  SL_TRY(sl__resume(&options, &p));
  r->job.step = p.step;
  sl__sync_restart(&r->job.sync, p.step);
  r->best_step = p.best_step;
  r->best = p.best;
  r->validation = p.validation;
  take_sums(&r->now, &p.metrics);
  take_sums(&r->line, &p.shown);
  r->losses = p.losses;
  warn_of_gpu(r, p.fast);
  for (int i = 0; i < p.n_skipped; i++)
    if (!sl__trainer_skips(r, p.skipped[i]) && r->n_skipped < SL__SKIPPED) r->skipped[r->n_skipped++] = p.skipped[i];
  return SL_OK;
}

sl_status sl__trainer_resume(sl__trainer *r) {
  const sl_status status = r->job.ranks.rank == 0 ? sl__newest_step(r->o->out, &r->newest) : SL_OK;
  SL_TRY(sl__ranks_agree(&r->job.ranks, status));
  SL_TRY(sl__trainer_read(r, r->o->out, 0));
  r->first = r->job.step;
  if (r->first > r->total)
    return sl_blame(
        sl_fail(SL_EINVAL, "the run has made %lld steps already, and --steps or --epochs ends it after %lld: give more",
                (long long)r->first, (long long)r->total),
        r->o->steps > 0 ? "steps" : "epochs");
  return SL_OK;
}

sl_status sl__trainer_catch_up(sl__trainer *r) {
  int64_t newest = 0;
  const sl_status status = r->dir ? sl__newest_step(r->o->out, &newest) : SL_OK;
  SL_TRY(sl__ranks_agree(&r->job.ranks, status));
  return sl__ranks_sum(&r->job.ranks, newest > r->newest) > 0 ? sl__trainer_resume(r) : SL_OK;
}

sl_status sl__trainer_save(sl__trainer *r) {
  sl__progress p = {.step = r->job.step,
                    .spikes = strcmp(r->o->on_spike, "ignore") != 0,
                    .losses = r->losses,
                    .n_skipped = r->n_skipped,
                    .best_step = r->best_step,
                    .best = r->best,
                    .validation = r->validation,
                    .data = r->job.data.digest,
                    .metrics = sums_of(&r->now),
                    .shown = sums_of(&r->line)};
  sl__heartbeat_is(SL__CHECKPOINTING);
  sl__job_fast_gpu(&r->job, p.fast, sizeof p.fast);
  memcpy(p.skipped, r->skipped, sizeof p.skipped);
  r->job.facts.step = r->job.step;
  SL_TRY(sl__trainer_write_waiting(r)); /* a checkpoint needs the metrics and the model that it names */
  json_t *header = r->job.ranks.rank == 0 ? sl__checkpoint_header(&r->job.facts, &r->rate, &p, r->configuration) : NULL;
  SL_TRY(sl__checkpoints_save(r->checkpoints, r->job.step, header));
  return sl__trainer_names_best(r);
}

int64_t sl__trainer_saving_bytes(const sl__trainer *r) {
  return (int64_t)(sl__checkpoints_bytes(r->checkpoints) +
                   sl__ranks_collected_bytes(&r->job.ranks, r->job.store, r->job.evaluator.network.graph));
}

sl_status sl__trainer_open_checkpoints(sl__trainer *r) {
  const sl__checkpoints_options options = {
      .folder = r->dir ? sl__rundir_file_path(r->dir, SL__RUNDIR_CHECKPOINTS) : NULL,
      .comm = r->job.ranks.comm,
      .store = r->job.store,
      .from = r->job.step,
      .every = r->o->checkpoint_every,
      .minutes = r->o->checkpoint_minutes,
      .keep = (int)r->o->keep};
  SL_TRY(sl__checkpoints_create(&options, &r->checkpoints));
  r->job.predicted += sl__trainer_saving_bytes(r);
  return SL_OK;
}
