/* Write errors do not stop training, whether from a full disk, a quota, a limit of file size or a failing disk. The
 * best model and the lines of metrics stay in memory; each later write tries them first. A failed checkpoint is
 * followed by the next one that is due. At the end the run retries for some seconds; if something is still missing, it
 * fails with an exit code of its own. */
#include <stdlib.h>
#include <time.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "tools/train/trainer.h"

enum { TRIES = 3, LAST_TRIES = 5 };
static const double PAUSE_S = 0.2, LAST_PAUSE_S = 1;

/* Whether the disk caused a failure. */
static int is_of_disk(sl_status status) { return status == SL_EWRITE || status == SL_EIO || status == SL_ENOTFOUND; }

static void pause_for(double seconds) {
  const struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (time_t)seconds))};
  sl_activity_begin(SL_WORKS, "a disk that cannot be written");
  nanosleep(&pause, NULL);
  sl_activity_end();
}

/* ---- metrics ---------------------------------------------------------------------------------------------------- */

static sl_status tell_metrics(sl__trainer *r, sl_status status) {
  if (status != SL_OK && !is_of_disk(status)) return status;
  if (status != SL_OK && !r->unwritten.metrics)
    sl_log(SL_LOG_ERROR, "metrics wait in memory, training goes on: %s", sl_error());
  if (status == SL_OK && r->unwritten.metrics)
    sl_log(SL_LOG_WARNING, "%s has all metrics again", sl_rundir_file_path(r->dir, SL_RUNDIR_METRICS));
  r->unwritten.metrics = status != SL_OK;
  return SL_OK;
}

sl_status sl__trainer_append(sl__trainer *r, const json_t *line) {
  return r->dir ? tell_metrics(r, sl_rundir_append_metrics(r->dir, line)) : SL_OK;
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

static sl_status replace_model(sl__trainer *r, const char *bytes, size_t n, int64_t step) {
  const char *path = sl_rundir_file_path(r->dir, SL_RUNDIR_MODEL);
  SL_TRY(sl__trainer_keep_best(r));
  SL_TRY(bytes ? sl_file_replace(path, bytes, n)
               : sl__model_save(path, r->job.store, r->job.evaluator.network.graph, &r->job.facts));
  r->model_step = step;
  return SL_OK;
}

static void drop_model(sl__trainer *r) {
  free(r->unwritten.model);
  r->unwritten.model = NULL;
}

static sl_status model_written(sl__trainer *r, int64_t step) {
  if (r->unwritten.model)
    sl_log(SL_LOG_WARNING, "%s could be written now: it is the model of step %lld",
           sl_rundir_file_path(r->dir, SL_RUNDIR_MODEL), (long long)step);
  drop_model(r);
  return SL_OK;
}

/* Tries once more to write the queued model, on rank 0. */
static sl_status write_model(sl__trainer *r) {
  if (!r->unwritten.model) return SL_OK;
  SL_TRY(replace_model(r, r->unwritten.model, r->unwritten.bytes, r->unwritten.step));
  return model_written(r, r->unwritten.step);
}

sl_status sl__trainer_save_model(sl__trainer *r) {
  if (r->job.ranks.rank > 0) return SL_OK;
  const int waits = r->unwritten.model != NULL, tries = waits ? 1 : TRIES; /* wait for a full disk only once */
  r->job.facts.step = r->job.step;
  sl_status status = replace_model(r, NULL, 0, r->job.step);
  for (int i = 1; i < tries && is_of_disk(status); i++) {
    pause_for(PAUSE_S);
    status = replace_model(r, NULL, 0, r->job.step);
  }
  if (status == SL_OK) return model_written(r, r->job.step);
  if (!is_of_disk(status)) return status;
  const sl_failure why = sl_failure_keep(status);
  drop_model(r); /* of an earlier step */
  SL_TRY(sl__model_pack(sl_rundir_file_path(r->dir, SL_RUNDIR_MODEL), r->job.store, r->job.evaluator.network.graph,
                        &r->job.facts, &r->unwritten.model, &r->unwritten.bytes));
  r->unwritten.step = r->job.step;
  if (!waits)
    sl_log(SL_LOG_ERROR, "the model of step %lld waits in memory, training goes on: %s", (long long)r->job.step,
           why.text);
  return SL_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

sl_status sl__trainer_write_waiting(sl__trainer *r) {
  if (!r->dir) return SL_OK;
  const sl_status status = write_model(r);
  return tell_metrics(r, sl_rundir_sync_metrics(r->dir)) != SL_OK || is_of_disk(status) ? SL_OK : status;
}

static sl_status write_last(sl__trainer *r) {
  const sl_failure model = sl_failure_keep(write_model(r));
  return sl_failure_first(&model, sl_rundir_sync_metrics(r->dir));
}

/* Writes the last checkpoint; collective. Returns the failure of the last try. */
static sl_status write_checkpoint(sl__trainer *r) {
  sl_status status = sl__checkpoints_finish(r->checkpoints);
  for (int i = 1; i < LAST_TRIES && is_of_disk(status); i++) {
    pause_for(LAST_PAUSE_S);
    SL_TRY(sl__trainer_save(r));
    status = sl__checkpoints_finish(r->checkpoints);
  }
  if (!is_of_disk(status)) return status;
  return sl_context(SL_EWRITE, "step %lld has no checkpoint", (long long)r->job.step);
}

sl_status sl__trainer_write_all(sl__trainer *r) {
  const sl_failure saved = sl_failure_keep(write_checkpoint(r));
  sl_status status = SL_OK;
  for (int i = 0; r->dir && i < LAST_TRIES && (i == 0 || is_of_disk(status)); i++) {
    if (i > 0) pause_for(LAST_PAUSE_S);
    status = write_last(r);
  }
  status = sl__ranks_agree(&r->job.ranks, status);
  if (status == SL_OK) return sl_failure_again(&saved);
  return is_of_disk(status) && saved.code != SL_OK ? sl_context(SL_EWRITE, "%s", saved.text)
         : is_of_disk(status)                      ? SL_EWRITE
                                                   : status;
}

sl_status sl__trainer_unwritten(const sl__trainer *r, sl_status status) {
  if (status != SL_EWRITE) return status;
  return sl_fail(SL_EWRITE, "%s; then starling train --resume --out %s writes the missing files", sl_error(),
                 r->folder);
}

void sl__trainer_forget_unwritten(sl__trainer *r) {
  if (r->unwritten.model && r->unwritten.step != r->best_step) drop_model(r);
}

void sl__trainer_free_unwritten(sl__trainer *r) { drop_model(r); }

sl_status sl__trainer_try(sl_status (*write)(void *arg), void *arg) {
  sl_status status = write(arg);
  for (int i = 1; i < TRIES && is_of_disk(status); i++) {
    pause_for(PAUSE_S);
    status = write(arg);
  }
  return status;
}
