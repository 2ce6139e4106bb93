/* starling train: a run from its options to its summary. The parts are in tools/train. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "runtime/machine/environment.h"
#include "tools/commands/commands.h"
#include "tools/launch/launch.h"
#include "tools/launch/process.h"
#include "tools/run/precision.h"
#include "tools/run/session.h"
#include "tools/settings/exit_codes.h"
#include "tools/train/trainer.h"
#include "tools/watch/heartbeat.h"
#include "tools/watch/watch.h"

static sl_status choose_precision(sl__trainer *r) {
  char said[160];
  SL_TRY(sl__precision_choose(&r->job, said, sizeof said));
  if (!*said) return SL_OK;
  r->o->training.precision = r->job.facts.training.precision; /* as if given by --precision */
  if (!r->o->quiet && !r->o->json) printf("precision  %s\n", said);
  return SL_OK;
}

static sl_status parse(sl__trainer *r) {
  const sl__options *o = r->o;
  sl__model_facts *f = &r->job.facts;
  SL_TRY(sl__job_name(&r->job, o));
  SL_TRY(sl__trainer_open_init(r));
  SL_TRY(sl__until_parse(o->until, &r->until));
  SL_TRY(sl__augment_parse(o->augment, &f->augment));
  if ((f->augment.pad || f->augment.flip) && !f->model->family->data->pictures)
    return sl_fail(SL_EINVAL, "--augment %s is for images, and %s is a model of %s", o->augment, f->model->name,
                   f->model->family->data->name);
  return SL_OK;
}

static sl_status prepare(sl__trainer *r) {
  sl__options *o = r->o;
  r->environment = sl_environment(o->argc, o->argv, sl__commit()); /* before the runtime changes it */
  SL_TRY(sl__job_meet(&r->job, o, "train"));
  SL_TRY(parse(r));
  if (!r->environment) return sl_no_memory("for the environment");
  SL_TRY(sl__job_start(&r->job, "train", 1));
  if (r->job.ranks.rank > 0) o->quiet = 1, o->json = 0; /* rank 0 speaks and writes for all */
  SL_TRY(sl__job_plan(&r->job));
  SL_TRY(sl__job_data(&r->job, 0));
  sl__trainer_take_normalisation(r);
  SL_TRY(sl__trainer_set_length(r));
  SL_TRY(sl__job_compare(&r->job));
  SL_TRY(choose_precision(r));
  SL_TRY(sl__job_build(&r->job));
  SL_TRY(sl__trainer_take_init(r));
  if (o->resume) SL_TRY(sl__trainer_resume(r));
  sl__trainer_warn_unused(r);
  SL_TRY(sl__trainer_complete_options(r));
  SL_TRY(sl__ranks_agree(&r->job.ranks, sl__trainer_open_directory(r)));
  if (o->resume) SL_TRY(sl__trainer_catch_up(r));
  if (o->resume) SL_TRY(sl__rundir_rewind_metrics(r->dir, r->job.step));
  SL_TRY(o->resume ? sl__trainer_recover_best(r) : sl__trainer_forget_kept(r));
  SL_TRY(sl__trainer_open_checkpoints(r));
  /* An earlier start may have reached the bound. */
  r->reached = (r->best_step && sl__trainer_reaches(r, &r->best)) ||
               (r->validation.samples > 0 && sl__trainer_reaches(r, &r->validation));
  if (r->job.ranks.rank > 0) return SL_OK;
  const sl__machine speeds = sl__machine_read(r->job.runtime);
  r->prediction = sl__predict_or_warn(&r->job, &speeds);
  return SL_OK;
}

/* The end of training. A run that lacks only its last checkpoint is tested all the same. */
static sl_status write_last(sl__trainer *r) {
  const sl_failure written = sl_failure_keep(sl__trainer_write_all(r));
  if (written.code != SL_OK && written.code != SL_EWRITE) return written.code;
  if (written.code == SL_OK) SL_TRY(sl__trainer_forget_kept(r));
  const int lacks_model = sl__ranks_sum(&r->job.ranks, r->unwritten.model != NULL) > 0;
  const sl_status finished = lacks_model ? SL_OK : sl__ranks_agree(&r->job.ranks, sl__trainer_finish(r));
  return sl__trainer_unwritten(r, sl_failure_first(&written, finished));
}

static sl_status run(sl__trainer *r, int *exit_code) {
  sl__catch_warning();
  /* Weights are read before MPI starts. */
  SL_TRY(sl__watch_open(sl__launch_rank(), r->o->stall_timeout, r->o->disk_timeout, SL__EXIT_LOST));
  sl_activity_begin(SL_WORKS_LONG, "the start of the job"); /* a rank may read data for longer than the others */
  const sl_status prepared = prepare(r);
  sl_activity_end();
  SL_TRY(prepared);
  sl__catch_signals();
  sl__trainer_print_start(r);
  r->began = sl_now();
  sl__meter_start(&r->meter, r->o->quiet, (double)r->job.step);
  SL_TRY(sl__trainer_share_folder(r));
  SL_TRY(sl__clocks_look(r->job.runtime, &r->clocks));
  SL_TRY(sl__trainer_steps(r, exit_code));
  SL_TRY(sl__clocks_look(r->job.runtime, &r->clocks));
  if (*exit_code != SL__EXIT_DONE) return SL_OK;
  SL_TRY(write_last(r));
  return r->until.measure == SL__UNTIL_NONE || r->reached
             ? SL_OK
             : sl_fail(SL_ENOTFOUND, "%s was not reached in %lld steps: the best was accuracy %.4f, loss %.4f",
                       r->o->until, (long long)r->job.step, r->best.accuracy, r->best.loss);
}

/* A run that fails before its first step leaves nothing behind. */
static sl_status close_directory(sl__trainer *r, sl_status status) {
  if (r->dir && status != SL_OK && !r->stepped && !r->o->resume) {
    sl__heartbeat_drop();
    sl__rundir_discard(r->dir);
    return status;
  }
  status = sl__trainer_keep_timeline(r, status);
  const sl_failure before = sl_failure_keep(status);
  return sl_failure_first(&before, sl__rundir_close(r->dir));
}

sl_status sl__train(sl__options *o, int *exit_code) {
  sl__trainer r = {.job = {.trains = 1, .records = 1}, .o = o};
  if (o->json) o->quiet = 1;
  if (sl__launch_wanted(o)) return sl__launch(o, exit_code);
  sl__process_announce(sl__launch_rank());
  sl_status status = run(&r, exit_code);
  sl__meter_clear(&r.meter);
  /* Waits for the writing of checkpoints while the directory is still locked. If one of several ranks has failed, the
   * wait would never end. */
  if (status == SL_OK || r.job.ranks.n <= 1) sl__checkpoints_destroy(r.checkpoints);
  status = close_directory(&r, status);
  sl__heartbeat_end(status == SL_OK ? *exit_code : sl__exit_code(status));
  if (status != SL_OK) sl__ranks_fail(&r.job.ranks, sl__exit_code(status));
  sl__model_close(r.init);
  sl__job_close(&r.job);
  json_decref(r.environment);
  sl__trainer_free_unwritten(&r);
  free(r.configuration), free(r.folder);
  return status;
}
