/* Keeps the best model that each checkpoint names. A checkpoint names the step of the best model so far; a better model
 * replaces model.safetensors before the next checkpoint names it. If the run is killed in between, the old model is
 * still needed. So the model that the newest checkpoint names (on disk or being written) stays as
 * model.safetensors.step-N until later checkpoints name another. Rank 0 only. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "tools/train/trainer.h"

#define KEPT ".step-"

static char *kept_path(const sl__trainer *r, int64_t step) {
  char *path;
  return asprintf(&path, "%s" KEPT "%lld", sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL), (long long)step) < 0 ? NULL
                                                                                                                : path;
}

/* Removes every kept model but those of these two steps; -1: none. */
static sl_status remove_kept(const sl__trainer *r, int64_t one, int64_t other) {
  const char *model = sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL), *name = strrchr(model, '/') + 1;
  const size_t n = strlen(name);
  DIR *folder = sl_folder_open(sl__rundir_path(r->dir));
  if (!folder) return sl_fail(SL_EIO, "cannot read the folder %s: %s", sl__rundir_path(r->dir), strerror(errno));
  int error;
  for (struct dirent *d; (d = sl_folder_next(folder, sl__rundir_path(r->dir), &error));) {
    if (strncmp(d->d_name, name, n) != 0 || strncmp(d->d_name + n, KEPT, strlen(KEPT)) != 0) continue;
    const int64_t step = atoll(d->d_name + n + strlen(KEPT));
    if (step != one && step != other && SL_CALL_OF_FILE("unlink", model, unlinkat(dirfd(folder), d->d_name, 0)) != 0)
      sl_log(SL_LOG_WARNING, "cannot remove %s/%s, which nothing needs any more: %s", sl__rundir_path(r->dir),
             d->d_name, strerror(errno));
  }
  if (error)
    sl_log(SL_LOG_WARNING, "cannot remove %s" KEPT "*, which nothing needs any more: %s", model, strerror(error));
  closedir(folder);
  return SL_OK;
}

sl_status sl__trainer_keep_best(sl__trainer *r) {
  const int64_t step = r->model_step;
  if (r->job.ranks.rank > 0 || step == 0 || (step != r->named_best && step != r->naming_best)) return SL_OK;
  const char *model = sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL);
  char *path = kept_path(r, step);
  if (!path) return sl_no_memory("for a path");
  /* On a file system without hard links, the model is renamed: for a moment it has only the other name. */
  const int failed = SL_CALL_OF_FILE("link", path, link(model, path)) != 0 && errno != EEXIST &&
                     SL_CALL_OF_FILE("rename", path, rename(model, path)) != 0 && errno != ENOENT;
  const sl_status status = failed ? sl_file_failed("write", path, errno) : SL_OK;
  free(path);
  return status;
}

sl_status sl__trainer_names_best(sl__trainer *r) {
  if (r->job.ranks.rank > 0) return SL_OK;
  if (sl__checkpoints_written(r->checkpoints) == r->naming_step) r->named_best = r->naming_best;
  r->naming_best = r->best_step, r->naming_step = r->job.step;
  return remove_kept(r, r->named_best, r->naming_best);
}

sl_status sl__trainer_forget_kept(sl__trainer *r) { return r->job.ranks.rank > 0 ? SL_OK : remove_kept(r, -1, -1); }

/* Whether the best model waits to be written. */
static int waits(const sl__trainer *r) { return r->unwritten.model && r->unwritten.step == r->best_step; }

/* The step of the model in model.safetensors; -1: there is none, or it cannot be read. */
static int64_t model_step(const sl__trainer *r) {
  sl__model_file *file;
  if (sl__model_open(sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL), &file) != SL_OK) return -1;
  const int64_t step = sl__model_facts_of(file)->step;
  sl__model_close(file);
  return step;
}

/* Puts the checkpoint's best model back into place, on rank 0. *gone: set if it no longer exists. */
static sl_status recover(sl__trainer *r, int *gone) {
  const char *model = sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL);
  sl_status status = SL_OK;
  if (r->best_step > 0 && !waits(r) && model_step(r) != r->best_step) {
    char *path = kept_path(r, r->best_step);
    if (!path) return sl_no_memory("for a path");
    if (SL_CALL_OF_FILE("rename", model, rename(path, model)) == 0)
      status = sl_folder_sync(sl__rundir_path(r->dir));
    else if (errno == ENOENT)
      *gone = 1;
    else
      status = sl_file_failed("write", model, errno);
    free(path);
  }
  if (*gone && r->best_step > 0)
    sl_log(SL_LOG_WARNING, "the best model (step %lld) named by the checkpoint is missing; %s", (long long)r->best_step,
           r->best_step == r->job.step ? "it is written again, since the checkpoint holds its parameters"
                                       : "the next validation begins a new search");
  return status == SL_OK ? remove_kept(r, -1, -1) : status;
}

sl_status sl__trainer_recover_best(sl__trainer *r) {
  int gone = 0; /* without validation, the model is that of the last step */
  SL_TRY(sl__ranks_agree(&r->job.ranks, r->job.ranks.rank == 0 ? recover(r, &gone) : SL_OK));
  if (r->dir && !sl__trainer_validates(r) && r->job.step == r->total) gone = model_step(r) != r->job.step;
  const int gone_any = sl__ranks_sum(&r->job.ranks, gone) > 0;
  r->model_lost = gone_any && r->best_step > 0 && r->best_step == r->job.step;
  if (gone_any) r->best_step = 0;
  r->model_missing = gone_any || (sl__trainer_validates(r) && r->best_step == 0);
  r->model_step = r->best_step;
  if (waits(r) && (r->model_step = model_step(r)) < 0) r->model_step = 0;
  r->named_best = r->naming_best = r->best_step;
  r->naming_step = r->job.step;
  return SL_OK;
}
