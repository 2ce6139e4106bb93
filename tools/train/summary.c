/* Ends a run: tests, writes summary.json and prints the last line. */
#include <math.h>
#include <stdio.h>

#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "tools/train/trainer.h"

static sl_status write_summary(void *arg) {
  const sl__trainer *r = arg;
  return sl__rundir_write_json(r->dir, SL__RUNDIR_SUMMARY, r->summary);
}

sl_status sl__trainer_finish(sl__trainer *r) {
  sl__score score = {0};
  sl_status status = SL_OK;
  const int tests = r->job.data.n[SL_SPLIT_TEST] > 0;
  const double sent = sl__ranks_sum(&r->job.ranks, (double)sl__job_sent(&r->job));
  if (r->job.ranks.rank > 0) return tests ? sl__trainer_test(r, &score) : SL_OK;
  json_t *summary =
      json_pack("{s:s, s:o, s:s, s:I, s:f, s:f, s:f, s:I}", "model", r->job.facts.model->name, "size",
                sl_model_sizes_to_json(r->job.facts.model), "directory", sl__rundir_path(r->dir), "steps",
                (json_int_t)r->job.step, "epochs", sl__trainer_epochs_done(r), "time_s",
                1e-9 * (double)(sl_now() - r->began), "samples_per_s",
                r->stepping > 0 ? (double)((r->job.step - r->first) * r->job.facts.plan.batch) / r->stepping : 0.0,
                "parameters", (json_int_t)r->job.network.parameter_count);
  if (!summary) return sl_no_memory("for the summary");
  if (r->job.data.kind->perplexity)
    json_object_set_new(
        summary, "tokens_per_s",
        json_real(r->stepping > 0 ? sl__trainer_units(r, (double)(r->job.step - r->first)) / r->stepping : 0.0));
  const double step = r->job.step > r->first ? r->stepping / (double)(r->job.step - r->first) : 0;
  if (step > 0) json_object_set_new(summary, "step_s", json_real(step));
  sl__prediction_add(&r->prediction, summary);
  if (r->job.ranks.n > 1) json_object_set_new(summary, "sent_bytes", json_integer((json_int_t)sent));
  if (r->best_step)
    json_object_update_new(
        summary, json_pack("{s:I, s:f, s:f}", "best_step", (json_int_t)r->best_step, "validation_loss", r->best.loss,
                           "validation_accuracy", r->best.accuracy));
  if (tests) {
    SL_TRY_OUT(sl__trainer_test(r, &score));
    json_object_update_new(summary,
                           json_pack("{s:f, s:f, s:f, s:I}", "test_loss", score.loss, "test_accuracy", score.accuracy,
                                     "test_top5_accuracy", score.top5, "test_samples", (json_int_t)score.samples));
  }
  if (r->n_skipped) {
    json_t *skipped = json_array();
    for (int i = 0; i < r->n_skipped; i++) json_array_append_new(skipped, json_integer((json_int_t)r->skipped[i]));
    json_object_set_new(summary, "skipped_steps", skipped);
  }
  if (r->until.measure != SL__UNTIL_NONE) json_object_set_new(summary, "reached", json_boolean(r->reached));
  r->summary = summary;
  SL_TRY_OUT(sl__trainer_try(write_summary, r));
  if (!r->o->quiet && step > 0 && r->prediction.seconds > 0)
    printf("a step took %.3f ms on average, %.2f times the prediction\n", 1e3 * step, step / r->prediction.seconds);
  if (r->o->json) {
    SL_TRY_OUT(sl_json_print(stdout, summary, 9));
  } else if (tests) {
    if (r->job.data.kind->perplexity)
      printf("test loss %.4f perplexity %.3f accuracy %.4f\n", score.loss, exp(score.loss), score.accuracy);
    else
      printf("test accuracy %.4f\n", score.accuracy);
  } else if (r->best_step && r->job.data.kind->perplexity) {
    printf("validation loss %.4f perplexity %.3f accuracy %.4f\n", r->best.loss, exp(r->best.loss), r->best.accuracy);
  }
out:
  json_decref(summary);
  return status;
}
