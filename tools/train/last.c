/* The end of a run on disk: tries for some seconds more to write the last checkpoint and all queued data (unwritten.c).
 * If something is still missing then, the run fails with an exit code of its own. */
#include "tools/train/trainer.h"

enum { TRIES = 5 };
static const double PAUSE_S = 1;

/* Collective. The last checkpoint, or the failure of the last try. */
static sl_status write_checkpoint(sl__trainer *r) {
  sl_status status = sl__checkpoints_finish(r->checkpoints);
  for (int i = 1; i < TRIES && sl__trainer_of_disk(status); i++) {
    sl__trainer_pause(PAUSE_S);
    SL_TRY(sl__trainer_save(r));
    status = sl__checkpoints_finish(r->checkpoints);
  }
  if (!sl__trainer_of_disk(status)) return status;
  return sl_context(SL_EWRITE, "step %lld has no checkpoint", (long long)r->job.step);
}

sl_status sl__trainer_write_all(sl__trainer *r) {
  const sl_failure saved = sl_failure_keep(write_checkpoint(r));
  sl_status status = SL_OK;
  for (int i = 0; i < TRIES && (i == 0 || sl__trainer_of_disk(status)); i++) {
    if (i > 0) sl__trainer_pause(PAUSE_S);
    status = sl__trainer_write_now(r);
  }
  if (status == SL_OK) return sl_failure_again(&saved);
  return sl__trainer_of_disk(status) && saved.code != SL_OK ? sl_context(SL_EWRITE, "%s", saved.text)
         : sl__trainer_of_disk(status)                      ? SL_EWRITE
                                                            : status;
}

sl_status sl__trainer_unwritten(const sl__trainer *r, sl_status status) {
  if (status != SL_EWRITE) return status;
  return sl_fail(SL_EWRITE, "%s; 'starling train --resume --out %s' then writes what is missing", sl_error(),
                 r->folder);
}
