/* Evaluation: sums loss and correct answers over batches; the last batch is padded with samples that do not count. */
#include "tools/run/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sl_status sl__evaluator_create(sl_runtime *runtime, sl_store *store, const sl_model *model, const sl_model_data *data,
                               const sl_training *training, const sl_plan *plan, const sl__ranks *ranks,
                               sl__evaluator *e) {
  memset(e, 0, sizeof *e);
  e->plan = *plan;
  e->ranks = ranks;
  if (sl__mesh_model_ranks(&ranks->mesh) > 1) e->plan.micro_batches = 1; /* fewer leaves a rank than in training */
  sl_training alone = *training;
  alone.fold_ranks = 0; /* each rank computes all folds of its samples */
  SL_TRY(sl_network_evaluation(model, data, &alone, plan->batch, &e->network));
  const sl_network *n = &e->network;
  const sl_value keep[] = {n->loss, n->correct, n->top5, n->count, n->probabilities};
  const sl_program_options options = {
      .keep = keep, .n_keep = n->probabilities == SL_NONE ? 4 : 5, .first_leaf = ranks->first_leaf};
  sl_status status = sl_program_create(runtime, store, n->graph, &e->plan, &options, &e->program);
  if (status != SL_OK) sl__evaluator_destroy(e);
  return status;
}

void sl__evaluator_destroy(sl__evaluator *e) {
  sl_program_destroy(e->program);
  if (e->network.graph) sl_network_destroy(&e->network);
  memset(e, 0, sizeof *e);
}

sl_status sl__run_step(sl_program *program, const sl_step *step, sl_loader *loader) {
  SL_TRY(sl_program_submit(program, step));
  const sl_batch *next = sl_loader_peek(loader);
  if (next)
    sl_program_ahead(program, &(sl_step){.number = step->number + 1,
                                         .input = {[SL_SLOT_SAMPLES] = next->samples, [SL_SLOT_LABELS] = next->labels},
                                         .input_row0 = step->input_row0});
  return sl_program_wait(program);
}

static sl_status add_batch(sl__evaluator *e, const sl_batch *batch, sl_loader *loader, sl__score *sum) {
  const sl_step step = {.number = ++e->batch,
                        .seed = e->plan.seed,
                        .input = {[SL_SLOT_SAMPLES] = batch->samples, [SL_SLOT_LABELS] = batch->labels},
                        .input_row0 = e->ranks->first_row};
  double loss, correct, top5, count;
  SL_TRY(sl__run_step(e->program, &step, loader));
  SL_TRY(sl_program_read(e->program, e->network.loss, &loss));
  SL_TRY(sl_program_read(e->program, e->network.correct, &correct));
  SL_TRY(sl_program_read(e->program, e->network.top5, &top5));
  SL_TRY(sl_program_read(e->program, e->network.count, &count));
  if (count > 0 && !isfinite(loss)) {
    const sl_status status = sl_program_find_nonfinite(e->program, &step);
    return sl__ranks_agree(e->ranks, status) == SL_OK
               ? sl_fail(SL_ENONFINITE, "step %lld: the loss is %g", (long long)e->step, loss)
               : sl_context(SL_ENONFINITE, "evaluation");
  }
  if (count > 0) sum->loss += loss * count;
  sum->accuracy += correct;
  sum->top5 += top5;
  sum->samples += (int64_t)count;
  return SL_OK;
}

sl_status sl__evaluate(sl__evaluator *e, sl_sample_source source, sl__score *score) {
  sl__score sum = {0};
  sl_loader *loader;
  const sl_loader_options options = {.source = source,
                                     .mode = SL_LOADER_EVAL,
                                     .batch = e->plan.batch,
                                     .first = e->ranks->first_row,
                                     .rows = e->ranks->rows};
  *score = sum;
  e->batch = 0;
  if (source.n < 1) return sl_fail(SL_ENOTFOUND, "there are no samples to evaluate on");
  SL_TRY(sl_loader_create(&options, &loader));
  sl_status status = SL_OK;
  for (;;) {
    sl_batch *batch;
    SL_TRY_OUT(sl_loader_next(loader, &batch));
    if (!batch) break;
    SL_TRY_OUT(add_batch(e, batch, loader, &sum));
    sl_loader_release(loader, batch);
  }
  const double n = (double)sum.samples;
  if (sum.samples) *score = (sl__score){sum.loss / n, sum.accuracy / n, sum.top5 / n, sum.samples};
out:
  sl_program_forget_ahead(e->program);
  if (!sl_runtime_abandoned()) sl_loader_destroy(loader); /* tasks that go on read its batches */
  return status;
}

sl_status sl__probabilities(sl__evaluator *e, const void *images, int64_t n, float *probabilities) {
  const sl_value_info *all = e->network.graph->value[e->network.probabilities];
  const int64_t batch = e->plan.batch, classes = sl_shape_row(&all->shape);
  const size_t bytes = e->network.sample_bytes;
  sl_status status = SL_OK;
  char *padded = aligned_alloc(64, ((size_t)batch * bytes + 63) / 64 * 64);
  int32_t *labels = malloc((size_t)batch * sizeof *labels);
  float *rows = malloc((size_t)(batch * classes) * sizeof *rows);
  if (!padded || !labels || !rows) {
    status = sl_no_memory("for a batch of %lld images", (long long)batch);
    goto out;
  }
  memset(padded, 0, (size_t)batch * bytes);
  memcpy(padded, images, (size_t)n * bytes);
  /* Any labels will do: the loss is computed but never read. */
  memset(labels, 0, (size_t)batch * sizeof *labels);
  const sl_step step = {
      .number = 1, .seed = e->plan.seed, .input = {[SL_SLOT_SAMPLES] = padded, [SL_SLOT_LABELS] = labels}};
  SL_TRY_OUT(sl_program_run(e->program, &step));
  SL_TRY_OUT(sl_program_read(e->program, e->network.probabilities, rows));
  memcpy(probabilities, rows, (size_t)(n * classes) * sizeof *rows);
out:
  free(padded), free(labels), free(rows);
  return status;
}
