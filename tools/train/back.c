/* Goes back to a checkpoint during a run. After a silent fault of a rank, the steps since the checkpoint are repeated.
 * After a leap of the loss, they are repeated without the batch of the leap and the batch before it. Repeated steps
 * give the same results, because one plan gives one result. A cause that recurs after going back to the same checkpoint
 * ends the run. */
#include "runtime/base/log.h"
#include "runtime/machine/transfers.h"
#include "runtime/trace/recorder.h"
#include "tools/train/trainer.h"

enum { FAULTS = 1, LEAPS = 4 }; /* how often a run goes back to one checkpoint */

/* Reads the newest checkpoint of step `most` or before; collective. SL_ENOTFOUND: there is none. */
static sl_status restore(sl__trainer *r, int64_t most) {
  if (most < 1) return sl_fail(SL_ENOTFOUND, "no checkpoint");
  if (sl__checkpoints_finish(r->checkpoints) != SL_OK && r->job.ranks.rank == 0)
    sl_log(SL_LOG_WARNING, "%s", sl_error());
  SL_TRY(sl__trainer_read(r, r->folder, most));
  if (r->job.step == 0) return sl_fail(SL_ENOTFOUND, "no checkpoint");
  SL_TRY(sl__ranks_agree(&r->job.ranks, sl__rundir_rewind_metrics(r->dir, r->job.step)));
  sl__trainer_forget_unwritten(r);
  SL_TRY(sl__trainer_recover_best(r));
  r->job.predicted -= sl__trainer_saving_bytes(r);
  sl__checkpoints_destroy(r->checkpoints);
  r->checkpoints = NULL;
  SL_TRY(sl__trainer_open_checkpoints(r)); /* sets newer checkpoints aside */
  if (r->job.ranks.compression.kind != SL_COMPRESSION_NONE)
    SL_TRY(sl__job_rebuild(&r->job)); /* drops what was not sent of the gradients after the checkpoint */
  else
    SL_TRY(sl_loader_rewind(r->job.loader, r->job.step * r->job.facts.plan.batch));
  if (r->job.recorder) sl_recorder_clear(r->job.recorder); /* its steps run again, with the same numbers */
  sl_transfers_clear();
  r->reached = 0;
  sl__trainer_begin_times(r);
  return r->model_lost ? sl__trainer_replace_lost(r) : SL_OK;
}

/* Goes back because of `why`, whose text is sl_error(). Collective. */
static sl_status go_back(sl__trainer *r, sl_status why, int64_t most, int times) {
  const sl_failure cause = sl_failure_keep(why);
  sl__meter_clear(&r->meter);
  const sl_status status = restore(r, most);
  if (status == SL_ENOTFOUND) return sl_fail(why, "%s; there is no checkpoint before it to go back to", cause.text);
  SL_TRY(status);
  r->times_back = r->job.step == r->back_to ? r->times_back + 1 : 1;
  r->back_to = r->job.step;
  if (r->times_back > times)
    return sl_fail(why, "%s, as before the run went back to the checkpoint of step %lld", cause.text,
                   (long long)r->job.step);
  if (r->job.ranks.rank == 0)
    sl_log(SL_LOG_ERROR, "%s; the run goes back to the checkpoint of step %lld", cause.text, (long long)r->job.step);
  return SL_OK;
}

sl_status sl__trainer_back_from_fault(sl__trainer *r) { return go_back(r, SL_EMEMORY, r->job.step, FAULTS); }

sl_status sl__trainer_back_from_leap(sl__trainer *r, int64_t step) {
  if (r->n_skipped + 2 > SL__SKIPPED)
    return sl_fail(SL_ESPIKE, "%s, and %d batches were left out already", sl_error(), r->n_skipped);
  for (int64_t s = step - 1; s <= step; s++)
    if (!sl__trainer_skips(r, s)) r->skipped[r->n_skipped++] = s;
  return go_back(r, SL_ESPIKE, step - 2, LEAPS);
}
