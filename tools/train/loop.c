/* The training loop: a step, its scores, then metrics, validation and checkpoint when they are due. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/base/time.h"
#include "tools/settings/exit_codes.h"
#include "tools/train/trainer.h"
#include "tools/watch/heartbeat.h"

static int is_over(const sl__trainer *r) { return r->job.step == r->total || r->reached; }

/* With --on-spike: SL_ESPIKE if the loss of the step that has just run leaps. */
static sl_status look_at_loss(sl__trainer *r, double loss) {
  double mean, deviation;
  if (strcmp(r->o->on_spike, "ignore") == 0) return SL_OK;
  if (sl__loss_leaps(&r->losses, loss, &mean, &deviation))
    return sl_fail(SL_ESPIKE, "step %lld: the loss leaps to %.4g; over the %d steps before it was %.4g +- %.2g",
                   (long long)r->job.step, loss, r->losses.n, mean, deviation);
  sl__losses_add(&r->losses, loss);
  return SL_OK;
}

/* Runs one step and adds its scores to the sums since the last line of metrics. */
static sl_status step(sl__trainer *r) {
  sl__job_scores scores;
  if (sl__trainer_skips(r, r->job.step + 1)) return sl__job_skip(&r->job);
  const sl_status status = sl__job_step(&r->job, sl_rate_at(&r->rate, r->job.step + 1), &scores);
  if (status == SL_ENONFINITE && strcmp(r->o->on_spike, "ignore") != 0) {
    r->job.step++; /* count the step, as for a leap */
    return sl_fail(SL_ESPIKE, "%s", sl_error());
  }
  SL_TRY(status);
  SL_TRY(look_at_loss(r, scores.loss));
  sl__heartbeat_step(r->job.step, scores.loss);
  r->now.steps++;
  r->now.loss += scores.loss;
  r->now.correct += scores.correct;
  r->now.count += scores.count;
  r->now.scale = scores.scale;
  r->now.overflows += scores.overflow;
  if (scores.overflow && r->job.ranks.rank == 0)
    sl_log(SL_LOG_WARNING,
           "step %lld: gradients overflow fp16 at a loss scale of %g; the step changes nothing but the scale, to %g",
           (long long)r->job.step, scores.scale, scores.scale / 2);
  return SL_OK;
}

/* At the end, every --eval-every steps, or after the step that ends an epoch. */
static int is_validated(const sl__trainer *r) {
  const int64_t n = r->job.data.n[SL_SPLIT_TRAIN], batch = r->job.facts.plan.batch, done = r->job.step;
  if (done == r->total) return 1;
  return r->eval_every > 0 ? done % r->eval_every == 0 : done * batch / n > (done - 1) * batch / n;
}

/* Metrics every --log-every steps, and with each validation. */
static sl_status look(sl__trainer *r, int validated) {
  const int any = r->now.steps > 0; /* false if all steps since the last line were skipped */
  if (any) sl__trainer_show_progress(r);
  if (!validated && r->job.step % r->log_every != 0) return SL_OK;
  json_t *line = NULL;
  sl_status status = SL_OK;
  if (any) SL_TRY_OUT(sl__trainer_metrics(r, &line));
  if (any) SL_TRY_OUT(sl__trainer_append(r, line));
  if (validated) {
    SL_TRY_OUT(sl__trainer_write_waiting(r));
    SL_TRY_OUT(sl__trainer_validates(r) ? sl__trainer_validate(r) : sl__trainer_save_model(r));
    if (r->line.steps > 0) sl__trainer_print_line(r, line);
  }
  sl__trainer_begin_interval(r);
out:
  json_decref(line);
  return status;
}

/* Prints a decision of the first steps and records it in environment.json; takes ownership of `value`. */
static sl_status tell(sl__trainer *r, const char *what, const char *text, json_t *value) {
  if (r->job.ranks.rank > 0) {
    json_decref(value);
    return SL_OK;
  }
  sl__meter_clear(&r->meter);
  if (!r->o->quiet) printf("%s: %s\n", what, text), fflush(stdout);
  json_object_set_new(json_object_get(r->environment, "machine"), what, value);
  if (sl__rundir_write_json(r->dir, SL__RUNDIR_ENVIRONMENT, r->environment) != SL_OK)
    sl_log(SL_LOG_WARNING, "the %s is not recorded in %s: %s", what, sl__rundir_file_name(SL__RUNDIR_ENVIRONMENT),
           sl_error());
  return SL_OK;
}

/* Finishes --workers auto and --balance auto; called after each of the first steps. If the division of leaves changes,
 * makes the programs again; the interval's rates then exclude that time and the steps before. */
static sl_status settle(sl__trainer *r) {
  sl__balance *b = &r->job.balance;
  sl__choice *c = &r->job.choice;
  int changed;
  if (c->measuring) return SL_OK;
  if (*c->said && !c->told) {
    c->told = 1;
    SL_TRY(sl__ranks_agree(&r->job.ranks, tell(r, "choice", c->said, json_string(c->said))));
  }
  if (!b->measuring) return SL_OK;
  SL_TRY(sl__balance_step(b, r->job.program, r->job.recorder, &changed));
  if (b->measuring) return SL_OK;
  SL_TRY(sl__ranks_agree(&r->job.ranks, tell(r, "balance", sl__balance_text(b), sl__balance_json(b))));
  if (!changed) return SL_OK;
  r->stepping += 1e-9 * (double)(sl_now() - r->now.from);
  r->now.before = r->now.steps;
  SL_TRY(sl__job_rebuild(&r->job));
  sl__trainer_begin_times(r);
  return SL_OK;
}

/* Stops the run after a signal; the last step's checkpoint is written or being written. */
static sl_status stop(sl__trainer *r, int *exit_code) {
  const sl_status status = sl__trainer_write_all(r);
  if (status != SL_OK) return sl__trainer_unwritten(r, status);
  *exit_code = SL__EXIT_CHECKPOINTED;
  sl__meter_clear(&r->meter);
  if (!r->o->quiet)
    sl_text_print("stopped by a signal after step %lld; continue with 'starling train --resume --out %s'\n",
                  (long long)r->job.step, sl__rundir_path(r->dir));
  return SL_OK;
}

/* Handles a leap of the loss of this step, which sl_error() describes. */
static sl_status after_leap(sl__trainer *r, int64_t step) {
  if (strcmp(r->o->on_spike, "rollback") == 0) return sl__trainer_back_from_leap(r, step);
  if (step < 3) return sl_fail(SL_ESPIKE, "%s; no earlier checkpoint can help", sl_error());
  return sl_fail(
      SL_ESPIKE,
      "%s; --resume --on-spike rollback goes back to a checkpoint of step %lld or before, if there is one, and "
      "leaves out the batches of steps %lld and %lld",
      sl_error(), (long long)step - 2, (long long)step - 1, (long long)step);
}

/* Compares the ranks before anything of this step is written. With --sync, a comparison waits until they have met.
 * *back: set if the run went back to a checkpoint. */
static sl_status verify(sl__trainer *r, int validated, sl__wish wish, int *back) {
  const int64_t every = r->o->verify_every, done = r->job.step;
  *back = 0;
  if (every == 0 || !sl__sync_alike(&r->job.sync, done)) return SL_OK;
  if (done / every == r->verified / every && !validated &&
      !sl__checkpoints_due(r->checkpoints, done, validated, is_over(r), wish))
    return SL_OK;
  r->verified = done;
  const sl_status status = sl__trainer_verify(r);
  *back = status == SL_EMEMORY;
  return *back ? sl__trainer_back_from_fault(r) : status;
}

/* Whether validation or a checkpoint reads the parameters after this step. */
static int is_looked_at(const sl__trainer *r, int validated, sl__wish wish) {
  return validated || is_over(r) || wish != SL__WISH_NONE ||
         sl__checkpoints_due(r->checkpoints, r->job.step, validated, is_over(r), wish);
}

sl_status sl__trainer_steps(sl__trainer *r, int *exit_code) {
  sl__ranks *ranks = &r->job.ranks;
  SL_TRY(sl__job_load(&r->job));
  sl__trainer_begin_times(r);
  sl__trainer_warn_unverified(r);
  if (r->model_lost || (r->model_missing && is_over(r))) SL_TRY(sl__trainer_replace_lost(r));
  r->verified = r->job.step;
  while (!is_over(r)) {
    if (r->verified > r->job.step) r->verified = r->job.step;   /* the run went back */
    sl__ranks_ask(ranks, sl__checkpoints_wish(r->checkpoints)); /* answered while the step runs */
    const sl_status stepped = step(r);
    if (stepped != SL_OK && stepped != SL_ESPIKE) return stepped;
    r->stepped = 1;
    const sl__wish wish = (sl__wish)sl__ranks_answer(ranks);
    if (stepped == SL_ESPIKE) {
      SL_TRY(after_leap(r, r->job.step));
      continue;
    }
    const int validated = is_validated(r);
    int back;
    if (is_looked_at(r, validated, wish)) SL_TRY(sl__job_sync(&r->job));
    SL_TRY(verify(r, validated, wish, &back));
    if (back) continue;
    const sl_status looked = look(r, validated);
    if (looked == SL_ENONFINITE && strcmp(r->o->on_spike, "ignore") != 0) {
      SL_TRY(after_leap(r, r->job.step + 1)); /* the step's update is at fault: its own loss was finite */
      continue;
    }
    SL_TRY(looked);
    if (sl__checkpoints_due(r->checkpoints, r->job.step, validated, is_over(r), wish)) SL_TRY(sl__trainer_save(r));
    if (is_over(r)) break;
    if (wish == SL__WISH_STOP) return stop(r, exit_code);
    SL_TRY(settle(r));
  }
  return SL_OK;
}
