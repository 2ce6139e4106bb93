/* Lesson 4: a copy of lesson 3, but with a model of the library, a loader that reads ahead, epochs, a test, and a
 * record.
 *
 * The training step and the evaluation are two programs over one store, so evaluation uses the trained parameters. A
 * recorder notes when and where each task ran. At the end its records go into a file for `starling report`.
 *
 * Usage: train [DATA [MODEL [EPOCHS]]] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/models.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "tasks/starpu/program.h"

#define RUN "run" /* the folder for the record */

typedef struct lesson {
  const sl_model *model;
  sl_dataset *data;
  sl_runtime *runtime;
  sl_store *store;
  sl_recorder *recorder;
  sl_plan plan;
  sl_network training, evaluation;
  sl_program *train, *test;
} lesson;

/* Both graphs come from the same description of the model. Parameters of the same name are the same tensors of the
 * store. */
static sl_status prepare(lesson *l, const char *folder, const char *model) {
  const sl_runtime_options alone = {.mpi = 0};
  SL_TRY(sl_model_find(model, &l->model));
  SL_TRY(sl_dataset_open(&(sl_dataset_options){.directory = folder}, &l->data));
  SL_TRY(sl_runtime_start(&alone, &l->runtime));
  SL_TRY(sl_store_create(&l->store));
  SL_TRY(sl_recorder_create(0, &l->recorder));
  sl_model_data data = {
      .height = l->data->height, .width = l->data->width, .channels = l->data->channels, .classes = l->data->classes};
  memcpy(data.mean, l->data->mean, sizeof data.mean);
  memcpy(data.deviation, l->data->std, sizeof data.deviation);
  const sl_training *usual = &l->model->training;
  l->plan = (sl_plan){.batch = l->model->batch, .seed = 1}; /* leaves and shards: as many as usual */
  SL_TRY(sl_plan_complete(&l->plan));
  SL_TRY(sl_network_training(l->model, &data, usual, l->plan.batch, &l->training));
  SL_TRY(sl_network_evaluation(l->model, &data, usual, l->plan.batch, &l->evaluation));
  const sl_value scores[] = {l->evaluation.correct, l->evaluation.count};
  SL_TRY(sl_program_create(l->runtime, l->store, l->training.graph, &l->plan,
                           &(sl_program_options){.recorder = l->recorder, .keep = &l->training.loss, .n_keep = 1},
                           &l->train));
  return sl_program_create(l->runtime, l->store, l->evaluation.graph, &l->plan,
                           &(sl_program_options){.keep = scores, .n_keep = 2}, &l->test);
}

/* Trains for so many epochs; *loss is the last epoch's mean. While the workers compute, the loader's thread gathers the
 * next batches, in an order that depends only on the seed. */
static sl_status train(lesson *l, int epochs, double *loss) {
  sl_status status = SL_OK;
  sl_loader *loader = NULL;
  const sl_loader_options options = {.source = sl_dataset_source(l->data, SL_SPLIT_TRAIN),
                                     .mode = SL_LOADER_TRAIN,
                                     .batch = l->plan.batch,
                                     .seed = l->plan.seed};
  const int64_t steps = l->data->n[SL_SPLIT_TRAIN] / l->plan.batch;
  SL_TRY_OUT(sl_loader_create(&options, &loader));
  for (int64_t s = 0; s < epochs * steps; s++) {
    sl_batch *batch;
    double one;
    SL_TRY_OUT(sl_loader_next(loader, &batch));
    const sl_step step = {.number = s + 1,
                          .seed = l->plan.seed,
                          .learning_rate = l->model->training.learning_rate,
                          .input = {[SL_SLOT_SAMPLES] = batch->samples, [SL_SLOT_LABELS] = batch->labels}};
    SL_TRY_OUT(sl_program_run(l->train, &step));
    SL_TRY_OUT(sl_program_read(l->train, l->training.loss, &one));
    sl_loader_release(loader, batch);
    *loss = s % steps ? *loss + one / (double)steps : one / (double)steps;
    if ((s + 1) % steps == 0) printf("epoch %lld  loss %.4f\n", (long long)((s + 1) / steps), *loss);
  }
  printf("waited for data: %.2f s\n", sl_loader_waited(loader));
out:
  sl_loader_destroy(loader);
  return status;
}

/* The share of test images that are classified correctly; the last batch is padded with samples that do not count. */
static sl_status test(lesson *l, double *accuracy) {
  sl_status status = SL_OK;
  sl_loader *loader = NULL;
  double right = 0, all = 0, correct, count;
  const sl_loader_options options = {
      .source = sl_dataset_source(l->data, SL_SPLIT_TEST), .mode = SL_LOADER_EVAL, .batch = l->plan.batch};
  SL_TRY_OUT(sl_loader_create(&options, &loader));
  for (int64_t s = 1;; s++) {
    sl_batch *batch;
    SL_TRY_OUT(sl_loader_next(loader, &batch));
    if (!batch) break;
    const sl_step step = {.number = s, .input = {[SL_SLOT_SAMPLES] = batch->samples, [SL_SLOT_LABELS] = batch->labels}};
    SL_TRY_OUT(sl_program_run(l->test, &step));
    SL_TRY_OUT(sl_program_read(l->test, l->evaluation.correct, &correct));
    SL_TRY_OUT(sl_program_read(l->test, l->evaluation.count, &count));
    right += correct, all += count;
    sl_loader_release(loader, batch);
  }
  *accuracy = right / all;
out:
  sl_loader_destroy(loader);
  return status;
}

/* Writes the recorder's last 65,536 tasks to a file, together with the graph. */
static sl_status save(const lesson *l) {
  sl_timeline *timeline;
  char name[SL_TIMELINE_NAME];
  if (mkdir(RUN, 0777) != 0 && errno != EEXIST) return sl_fail(SL_EIO, "cannot make the folder %s", RUN);
  SL_TRY(sl_program_timeline(l->train, l->model->name, &timeline));
  char path[sizeof RUN + 1 + sizeof name];
  snprintf(path, sizeof path, "%s/%s", RUN, sl_timeline_name(0, name));
  const sl_status status = sl_timeline_write(path, timeline);
  sl_timeline_destroy(timeline);
  if (status == SL_OK) printf("recorded: starling report %s\n", RUN);
  return status;
}

int main(int argc, char **argv) {
  lesson l = {0};
  double loss = 0, accuracy = 0;
  const int epochs = argc > 3 ? atoi(argv[3]) : 2;
  sl_status status = prepare(&l, argc > 1 && *argv[1] ? argv[1] : NULL, argc > 2 ? argv[2] : "mlp");
  if (status == SL_OK) status = train(&l, epochs, &loss);
  if (status == SL_OK) status = test(&l, &accuracy);
  if (status == SL_OK) status = save(&l);
  if (status != SL_OK) fprintf(stderr, "%s\n", sl_error());
  sl_program_destroy(l.test);
  sl_program_destroy(l.train);
  sl_recorder_destroy(l.recorder);
  sl_network_destroy(&l.evaluation);
  sl_network_destroy(&l.training);
  sl_store_destroy(l.store);
  sl_runtime_stop(l.runtime);
  sl_dataset_close(l.data);
  if (status != SL_OK) return 2;
  printf("accuracy on the test images: %.2f %%\n", 100 * accuracy);
  const int ok = loss < 0.7 && accuracy > 0.8;
  puts(ok ? "ok" : "not ok");
  return !ok;
}
