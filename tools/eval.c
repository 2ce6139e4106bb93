/* starling eval: a trained model's loss and accuracy over a split of a data set. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/rundir.h"
#include "tools/commands.h"
#include "tools/evaluate.h"
#include "tools/model_file.h"
#include "tools/session.h"

/* The data set of the run, when a run is named and --data is not. */
static sl_status find_data(sl__options *o) {
  struct stat info;
  char path[4096];
  if (o->data || stat(o->model, &info) != 0 || !S_ISDIR(info.st_mode)) return SL_OK;
  snprintf(path, sizeof path, "%s/%s", o->model, sl_rundir_file_name(SL_RUNDIR_CONFIG));
  return stat(path, &info) == 0 ? sl__options_data_of(sl__commands[0], path, &o->data) : SL_OK;
}

static sl_status check_data(const sl_dataset *d, const sl__model_file *file) {
  const sl_model_data *m = &sl__model_facts_of(file)->data;
  if (d->height != m->height || d->width != m->width || d->channels != m->channels)
    return sl_fail(SL_ESHAPE, "%s has images of %lldx%lldx%lld, the model %s takes %lldx%lldx%lld", d->directory,
                   (long long)d->height, (long long)d->width, (long long)d->channels, sl__model_path(file),
                   (long long)m->height, (long long)m->width, (long long)m->channels);
  if (d->classes > m->classes)
    return sl_fail(SL_ESHAPE, "%s has %d classes, the model %s tells %lld apart", d->directory, d->classes,
                   sl__model_path(file), (long long)m->classes);
  return SL_OK;
}

sl_status sl__eval(sl__options *o, int *exit_code) {
  sl_runtime *runtime = NULL;
  sl_dataset *dataset = NULL;
  sl_store *store = NULL;
  sl__model_file *file = NULL;
  sl__evaluator evaluator = {0};
  sl__score score;
  sl_status status = SL_OK;
  (void)exit_code;
  static const char *const splits[SL_SPLIT_COUNT] = {"train", "validation", "test"};
  int split = SL_SPLIT_TEST;
  for (int i = 0; i < SL_SPLIT_COUNT; i++)
    if (strcmp(o->split, splits[i]) == 0) split = i;
  SL_TRY_OUT(sl__model_open(o->model, &file));
  SL_TRY_OUT(find_data(o));
  SL_TRY_OUT(sl__start(o, "eval", 0, &runtime));
  const sl__model_facts *f = sl__model_facts_of(file);
  const sl_dataset_options data = {.directory = o->data, .validation_fraction = f->val_fraction, .seed = f->plan.seed};
  SL_TRY_OUT(sl_dataset_open(&data, &dataset));
  SL_TRY_OUT(check_data(dataset, file));
  if (dataset->n[split] == 0)
    SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "%s has no images for %s", dataset->directory, splits[split]));
  SL_TRY_OUT(sl_store_create(&store));
  sl_plan plan = f->plan;
  if (o->batch > 0) SL_TRY_OUT(sl__plan_of(o, f->model, &plan));
  SL_TRY_OUT(sl__evaluator_create(runtime, store, f->model, &f->data, &f->training, &plan, &evaluator));
  SL_TRY_OUT(sl__model_read(file, store, NULL));
  evaluator.step = f->step;
  SL_TRY_OUT(sl__evaluate(&evaluator, sl_dataset_source(dataset, (sl_split)split), &score));
  if (o->json)
    printf(
        "{\"model\": \"%s\", \"step\": %lld, \"split\": \"%s\", \"accuracy\": %.9g, \"loss\": %.9g, \"samples\": "
        "%lld}\n",
        f->model->name, (long long)f->step, splits[split], score.accuracy, score.loss, (long long)score.samples);
  else
    printf("%s accuracy %.4f, loss %.4f over %lld images (%s after step %lld)\n", splits[split], score.accuracy,
           score.loss, (long long)score.samples, f->model->name, (long long)f->step);
out:
  sl__evaluator_destroy(&evaluator);
  sl_store_destroy(store);
  sl_dataset_close(dataset);
  sl__model_close(file);
  sl_runtime_stop(runtime);
  return status;
}
