/* starling eval: a trained model's loss, accuracy and perplexity over a split of a data set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/json.h"
#include "runtime/files/checkpoint.h"
#include "tools/commands/commands.h"
#include "tools/files/rundir.h"
#include "tools/run/job.h"
#include "tools/run/session.h"

/* Without --data, takes the data set from the run, if the argument is a run or its checkpoint. */
static sl_status find_data(sl__options *o) {
  struct stat info;
  char path[4096];
  if (o->data || stat(o->model, &info) != 0 || !S_ISDIR(info.st_mode)) return SL_OK;
  snprintf(path, sizeof path, "%s%s/%s", o->model, sl_checkpoint_is(o->model) ? "/../.." : "",
           sl__rundir_file_name(SL__RUNDIR_CONFIG));
  return stat(path, &info) == 0 ? sl__options_data_of(path, &o->data) : SL_OK;
}

/* Classes are compared by their numbers, so a name must have the same number in the data and in the model. */
static sl_status check_names(const sl__job *j) {
  char *const *here = j->data.class_names, *const *model = j->facts.class_names;
  for (int64_t i = 0; here && model && i < j->data.model.classes; i++)
    for (int64_t k = 0; k < j->facts.data.classes; k++)
      if (k != i && strcmp(here[i], model[k]) == 0 && strcmp(here[i], model[i]) != 0)
        return sl_fail(SL_ESHAPE,
                       "class '%s' is number %lld of %s, but number %lld of the model %s: import the images with a "
                       "folder for each of the model's classes",
                       here[i], (long long)i, j->data.path, (long long)k, sl__model_path(j->file));
  return SL_OK;
}

/* Takes the samples' size from the data, if the model takes samples of any size. */
static sl_status check_data(sl__job *j) {
  const sl_data *d = &j->data;
  const sl__model_file *file = j->file;
  const sl_model_data *here = &d->model;
  sl_model_data *m = &j->facts.data;
  char theirs[96], mine[96];
  if (j->facts.model->family->any_size) d->kind->resize(here, m);
  if (strcmp(d->kind->size(here, theirs, sizeof theirs), d->kind->size(m, mine, sizeof mine)) != 0)
    return sl_fail(SL_ESHAPE, "%s has %s of %s, the model %s takes %s", d->path, d->kind->samples, theirs,
                   sl__model_path(file), mine);
  if (here->classes > m->classes)
    return sl_fail(SL_ESHAPE, "%s has %lld classes, the model %s has %lld", d->path, (long long)here->classes,
                   sl__model_path(file), (long long)m->classes);
  return check_names(j);
}

static sl_status print_json(const sl__job *j, const char *split, const sl__score *score) {
  json_t *json = json_pack("{s:s, s:o, s:I, s:s, s:f, s:f, s:f}", "model", j->facts.model->name, "size",
                           sl_model_sizes_to_json(j->facts.model), "step", (json_int_t)j->facts.step, "split", split,
                           "accuracy", score->accuracy, "top5_accuracy", score->top5, "loss", score->loss);
  if (json && j->data.kind->perplexity) json_object_set_new(json, "perplexity", json_real(exp(score->loss)));
  if (json) json_object_set_new(json, "samples", json_integer(score->samples));
  const sl_status status = sl_json_print(stdout, json, 9);
  json_decref(json);
  return status;
}

static sl_status print_text(const sl__job *j, const char *split, const sl__score *score) {
  printf("%s accuracy %.4f, top-5 accuracy %.4f, loss %.4f", split, score->accuracy, score->top5, score->loss);
  if (j->data.kind->perplexity) printf(", perplexity %.3f", exp(score->loss));
  printf(" over %lld %s (%s after step %lld)\n", (long long)score->samples, j->data.kind->counted, j->name,
         (long long)j->facts.step);
  return SL_OK;
}

static sl_status run(sl__job *j, sl__options *o) {
  static const char *const splits[SL_SPLIT_COUNT] = {"train", "validation", "test"};
  sl__score score;
  int split = SL_SPLIT_TEST;
  for (int i = 0; i < SL_SPLIT_COUNT; i++)
    if (strcmp(o->split, splits[i]) == 0) split = i;
  SL_TRY(sl__job_meet(j, o, "eval"));
  SL_TRY(sl__job_file(j, o));
  SL_TRY(find_data(o));
  if (o->length > 0 && j->facts.data.length == 0)
    return sl_fail(SL_EINVAL, "--length is the window of a model of tokens, and %s takes images", j->facts.model->name);
  if (o->length > 0) j->facts.data.length = o->length;
  SL_TRY(sl__job_start(j, "eval", 1));
  SL_TRY(sl__job_data(j, 0));
  SL_TRY(sl__job_compare(j));
  SL_TRY(check_data(j));
  if (j->data.n[split] == 0)
    return sl_fail(SL_ENOTFOUND, "%s has no %s for %s; --split names another part", j->data.path, j->data.kind->samples,
                   splits[split]);
  if (j->facts.data.length > 0) sl__option_default_integer(&o->length, j->facts.data.length);
  SL_TRY(sl__job_plan(j));
  SL_TRY(sl__job_build_evaluator(j));
  SL_TRY(sl__evaluate(&j->evaluator, sl_data_source(&j->data, (sl_split)split), &score));
  return j->ranks.rank == 0 ? (o->json ? print_json : print_text)(j, splits[split], &score) : SL_OK;
}

sl_status sl__eval(sl__options *o, int *exit_code) {
  sl__job job = {0};
  (void)exit_code;
  const sl_status status = run(&job, o);
  if (status != SL_OK) sl__ranks_fail(&job.ranks, sl__exit_code(status));
  sl__job_close(&job);
  return status;
}
