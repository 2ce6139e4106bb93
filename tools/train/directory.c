/* Writes the files of a run directory other than metrics and checkpoints: configuration, environment, plan, model,
 * timelines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "tools/run/session.h"
#include "tools/train/trainer.h"
#include "tools/watch/heartbeat.h"
#include "tools/watch/watch.h"

sl_status sl__trainer_open_directory(sl__trainer *r) {
  const sl__options *o = r->o;
  if (r->job.ranks.rank > 0) return SL_OK; /* r->dir stays NULL */
  enum { TOKENIZER_BYTES = 256 << 20 };
  char *tokenizer = NULL;
  size_t bytes;
  json_t *plan = NULL;
  sl_status status = SL_OK;
  SL_TRY(sl__rundir_open(o->out, r->job.facts.model->name,
                         o->resume  ? SL__RUNDIR_RESUME
                         : o->force ? SL__RUNDIR_FORCE
                                    : SL__RUNDIR_NEW,
                         &r->dir));
  SL_TRY_OUT(sl__options_to_yaml(o, &r->configuration));
  SL_TRY_OUT(sl__rundir_write_text(r->dir, SL__RUNDIR_CONFIG, r->configuration));
  if (r->job.data.tokenizer) {
    SL_TRY_OUT(sl_file_read(r->job.data.tokenizer, TOKENIZER_BYTES, &tokenizer, &bytes));
    SL_TRY_OUT(sl__rundir_write_text(r->dir, SL__RUNDIR_TOKENIZER, tokenizer));
  }
  SL_TRY_OUT(sl__environment_complete(r->environment, r->job.runtime));
  if (r->job.ranks.n > 1)
    json_object_set_new(json_object_get(r->environment, "machine"), "balance", sl__balance_json(&r->job.balance));
  SL_TRY_OUT(sl__rundir_write_json(r->dir, SL__RUNDIR_ENVIRONMENT, r->environment));
  plan = sl_plan_to_json(&r->job.facts.plan);
  SL_TRY_OUT(sl__rundir_write_json(r->dir, SL__RUNDIR_PLAN, plan));
out:
  free(tokenizer);
  json_decref(plan);
  return status;
}

sl_status sl__trainer_share_folder(sl__trainer *r) {
  int n = r->dir ? (int)strlen(sl__rundir_path(r->dir)) + 1 : 0;
  if (r->job.ranks.n > 1) MPI_Bcast(&n, 1, MPI_INT, 0, r->job.ranks.comm);
  r->folder = calloc((size_t)n + 1, 1);
  const sl_status status = r->folder ? SL_OK : sl_no_memory("for a path");
  SL_TRY(sl__ranks_agree(&r->job.ranks, status));
  if (r->dir) memcpy(r->folder, sl__rundir_path(r->dir), (size_t)n);
  if (r->job.ranks.n > 1) MPI_Bcast(r->folder, n, MPI_CHAR, 0, r->job.ranks.comm);
  if (access(r->folder, W_OK) == 0) sl__watch_folder(r->folder);
  return sl__heartbeat_open(r->folder, r->job.ranks.comm, r->job.step, r->total);
}

static sl_status save_timeline(void *arg) {
  const sl__trainer *r = arg;
  const sl__machine machine = sl__machine_read(r->job.runtime);
  return sl__timeline_save(r->job.program, r->job.name, &r->clocks, &machine, &r->job.facts, r->folder);
}

sl_status sl__trainer_keep_timeline(sl__trainer *r, sl_status status) {
  if (!r->folder || sl_recorder_added(r->job.recorder) == 0 || access(r->folder, W_OK) != 0) return status;
  const sl_failure before = sl_failure_keep(status);
  return sl_failure_first(&before, sl__trainer_try(save_timeline, r));
}
