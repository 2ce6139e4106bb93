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

enum { TRIES = 3 };
static const double PAUSE_S = 0.2;

int sl__trainer_of_disk(sl_status status) { return status == SL_EWRITE || status == SL_EIO || status == SL_ENOTFOUND; }

void sl__trainer_pause(double seconds) {
  const struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (time_t)seconds))};
  sl_activity_begin(SL_WORKS, "a disk that cannot be written");
  nanosleep(&pause, NULL);
  sl_activity_end();
}

/* ---- metrics ---------------------------------------------------------------------------------------------------- */

static sl_status tell_metrics(sl__trainer *r, sl_status status) {
  if (status != SL_OK && !sl__trainer_of_disk(status)) return status;
  if (status != SL_OK && !r->unwritten.metrics)
    sl_log(SL_LOG_ERROR, "metrics wait in memory, training goes on: %s", sl_error());
  if (status == SL_OK && r->unwritten.metrics)
    sl_log(SL_LOG_WARNING, "%s has all metrics again", sl__rundir_file_path(r->dir, SL__RUNDIR_METRICS));
  r->unwritten.metrics = status != SL_OK;
  return SL_OK;
}

sl_status sl__trainer_append(sl__trainer *r, const json_t *line) {
  return r->dir ? tell_metrics(r, sl__rundir_append_metrics(r->dir, line)) : SL_OK;
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

static sl_status replace_model(sl__trainer *r, const char *bytes, size_t n, int64_t step) {
  const char *path = sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL);
  SL_TRY(sl_file_check_regular(path));
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
           sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL), (long long)step);
  drop_model(r);
  return SL_OK;
}

/* Tries once more to write the queued model, on rank 0. */
static sl_status write_model(sl__trainer *r) {
  if (!r->unwritten.model) return SL_OK;
  SL_TRY(replace_model(r, r->unwritten.model, r->unwritten.bytes, r->unwritten.step));
  return model_written(r, r->unwritten.step);
}

static sl_status save_model(sl__trainer *r) {
  const int waits = r->unwritten.model != NULL, tries = waits ? 1 : TRIES; /* wait for a full disk only once */
  r->job.facts.step = r->job.step;
  sl_status status = replace_model(r, NULL, 0, r->job.step);
  for (int i = 1; i < tries && sl__trainer_of_disk(status); i++) {
    sl__trainer_pause(PAUSE_S);
    status = replace_model(r, NULL, 0, r->job.step);
  }
  if (status == SL_OK) return model_written(r, r->job.step);
  if (!sl__trainer_of_disk(status)) return status;
  const sl_failure why = sl_failure_keep(status);
  drop_model(r); /* of an earlier step */
  SL_TRY(sl__model_pack(sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL), r->job.store, r->job.evaluator.network.graph,
                        &r->job.facts, &r->unwritten.model, &r->unwritten.bytes));
  r->unwritten.step = r->job.step;
  if (!waits)
    sl_log(SL_LOG_ERROR, "the model of step %lld waits in memory, training goes on: %s", (long long)r->job.step,
           why.text);
  return SL_OK;
}

/* The ranks wait here for rank 0: in an exchange of the next step, a long write would look like a stall. */
static sl_status on_rank_0(sl__trainer *r, sl_status (*write)(sl__trainer *r)) {
  sl_activity_begin(SL_WORKS_LONG, "a write to the run directory");
  const sl_status status = sl__ranks_agree(&r->job.ranks, r->job.ranks.rank == 0 ? write(r) : SL_OK);
  sl_activity_end();
  return status;
}

sl_status sl__trainer_save_model(sl__trainer *r) {
  SL_TRY(sl__ranks_collect(&r->job.ranks, r->job.store, r->job.evaluator.network.graph));
  const sl_status status = on_rank_0(r, save_model);
  sl__ranks_forget(&r->job.ranks, r->job.store, r->job.evaluator.network.graph);
  return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static sl_status write_waiting(sl__trainer *r) {
  const sl_status status = write_model(r);
  return tell_metrics(r, sl__rundir_sync_metrics(r->dir)) != SL_OK || sl__trainer_of_disk(status) ? SL_OK : status;
}

sl_status sl__trainer_write_waiting(sl__trainer *r) { return on_rank_0(r, write_waiting); }

static sl_status write_now(sl__trainer *r) {
  const sl_failure model = sl_failure_keep(write_model(r));
  return sl_failure_first(&model, sl__rundir_sync_metrics(r->dir));
}

sl_status sl__trainer_write_now(sl__trainer *r) { return on_rank_0(r, write_now); }

void sl__trainer_forget_unwritten(sl__trainer *r) {
  if (r->unwritten.model && r->unwritten.step != r->best_step) drop_model(r);
}

void sl__trainer_free_unwritten(sl__trainer *r) { drop_model(r); }

sl_status sl__trainer_try(sl_status (*write)(void *arg), void *arg) {
  sl_status status = write(arg);
  for (int i = 1; i < TRIES && sl__trainer_of_disk(status); i++) {
    sl__trainer_pause(PAUSE_S);
    status = write(arg);
  }
  return status;
}
