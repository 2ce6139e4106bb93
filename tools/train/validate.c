/* Validates during training, keeps the best model, and tests it at the end. */
#include <math.h>

#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "tools/train/trainer.h"
#include "tools/watch/heartbeat.h"

/* Of two language models the one with less loss is better; of two classifiers the more accurate one or, if equal, the
 * one with less loss. */
static int better(const sl__trainer *r, const sl__score *a, const sl__score *b) {
  if (r->job.data.kind->perplexity || a->accuracy == b->accuracy) return a->loss < b->loss;
  return a->accuracy > b->accuracy;
}

int sl__trainer_reaches(const sl__trainer *r, const sl__score *score) {
  return (r->until.measure == SL__UNTIL_ACCURACY && score->accuracy >= r->until.bound) ||
         (r->until.measure == SL__UNTIL_LOSS && score->loss <= r->until.bound);
}

sl_status sl__trainer_validate(sl__trainer *r) {
  const sl__score *v = &r->validation;
  sl__heartbeat_is(SL__VALIDATING);
  r->job.evaluator.step = r->job.step;
  SL_TRY(sl__evaluate(&r->job.evaluator, sl_data_source(&r->job.data, SL_SPLIT_VALIDATION), &r->validation));
  r->reached = sl__trainer_reaches(r, v);
  json_t *line = json_pack("{s:I, s:f, s:f, s:s, s:f, s:f, s:f}", "step", (json_int_t)r->job.step, "epoch",
                           sl__trainer_epochs_done(r), "time_s", 1e-9 * (double)(sl_now() - r->began), "split",
                           "validation", "loss", v->loss, "accuracy", v->accuracy, "top5_accuracy", v->top5);
  if (line && r->job.data.kind->perplexity) json_object_set_new(line, "perplexity", json_real(exp(v->loss)));
  const sl_status status = line ? sl__trainer_append(r, line) : sl_no_memory("for a line of metrics");
  json_decref(line);
  if (status != SL_OK) return status;
  if (r->best_step && !better(r, v, &r->best)) return SL_OK;
  r->best = *v;
  r->best_step = r->job.step;
  return sl__trainer_save_model(r);
}

sl_status sl__trainer_replace_lost(sl__trainer *r) {
  r->model_missing = r->model_lost = 0;
  if (sl__trainer_validates(r)) {
    r->job.evaluator.step = r->job.step;
    SL_TRY(sl__evaluate(&r->job.evaluator, sl_data_source(&r->job.data, SL_SPLIT_VALIDATION), &r->validation));
    r->best = r->validation;
    r->best_step = r->job.step;
    r->reached = sl__trainer_reaches(r, &r->best);
  }
  return sl__trainer_save_model(r);
}

static sl_status read_best(sl__trainer *r) {
  const sl_graph *graph = r->job.evaluator.network.graph;
  sl__model_file *file = NULL;
  sl_status status = SL_OK;
  sl_activity_begin(SL_WORKS_LONG, "the reading of the best model");
  if (r->job.ranks.rank == 0) status = sl__model_open(sl__rundir_file_path(r->dir, SL__RUNDIR_MODEL), &file);
  if (file) status = sl__model_read(file, r->job.store, graph, 0);
  sl_activity_end();
  status = sl__ranks_agree(&r->job.ranks, status);
  if (status == SL_OK) status = sl__share_out(&r->job.ranks, r->job.store, file, graph);
  sl__model_close(file);
  return status;
}

/* Scores the best model. */
sl_status sl__trainer_test(sl__trainer *r, sl__score *score) {
  if (r->best_step && r->best_step != r->job.step) SL_TRY(read_best(r));
  return sl__evaluate(&r->job.evaluator, sl_data_source(&r->job.data, SL_SPLIT_TEST), score);
}
