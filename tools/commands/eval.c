/* starling eval: a trained model's loss, accuracy and perplexity over a split of a data set. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/files/checkpoint.h"
#include "tools/commands/commands.h"
#include "tools/files/model_file.h"
#include "tools/files/rundir.h"
#include "tools/run/data.h"
#include "tools/run/evaluate.h"
#include "tools/run/session.h"
#include "tools/run/watch.h"

/* The data set of the run, when a run is named, or a checkpoint of one, and --data is not. */
static sl_status find_data(sl__options *o) {
  struct stat info;
  char path[4096];
  if (o->data || stat(o->model, &info) != 0 || !S_ISDIR(info.st_mode)) return SL_OK;
  snprintf(path, sizeof path, "%s%s/%s", o->model, sl_checkpoint_is(o->model) ? "/../.." : "",
           sl_rundir_file_name(SL_RUNDIR_CONFIG));
  return stat(path, &info) == 0 ? sl__options_data_of(path, &o->data) : SL_OK;
}

static sl_status check_data(const sl__data *d, const sl__model_file *file) {
  const sl_model_data *m = &sl__model_facts_of(file)->data, *here = &d->model;
  char theirs[96], mine[96];
  if (here->height != m->height || here->width != m->width || here->channels != m->channels)
    return sl_fail(SL_ESHAPE, "%s has %s, the model %s takes %s", d->path, sl__data_text(here, theirs, sizeof theirs),
                   sl__model_path(file), sl__data_text(m, mine, sizeof mine) + strlen("images of "));
  if (here->classes > m->classes)
    return sl_fail(SL_ESHAPE, "%s has %lld classes, the model %s tells %lld apart", d->path, (long long)here->classes,
                   sl__model_path(file), (long long)m->classes);
  return SL_OK;
}

static void print_json(const sl__model_facts *f, const char *split, const sl__score *score) {
  printf(
      "{\"model\": \"%s\", \"step\": %lld, \"split\": \"%s\", \"accuracy\": %.9g, \"top5_accuracy\": %.9g, \"loss\": "
      "%.9g, ",
      f->model->name, (long long)f->step, split, score->accuracy, score->top5, score->loss);
  if (sl__of_tokens(f->model)) printf("\"perplexity\": %.9g, ", exp(score->loss));
  printf("\"samples\": %lld}\n", (long long)score->samples);
}

static void print_text(const sl__model_facts *f, const char *split, const sl__score *score) {
  const int tokens = sl__of_tokens(f->model);
  printf("%s accuracy %.4f, top-5 accuracy %.4f, loss %.4f", split, score->accuracy, score->top5, score->loss);
  if (tokens) printf(", perplexity %.3f", exp(score->loss));
  printf(" over %lld %s (%s after step %lld)\n", (long long)score->samples, tokens ? "tokens" : "images",
         f->model->name, (long long)f->step);
}

sl_status sl__eval(sl__options *o, int *exit_code) {
  sl_runtime *runtime = NULL;
  sl__ranks ranks = {0};
  sl__watch *watch = NULL;
  sl__data data = {0};
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
  SL_TRY_OUT(sl__start(o, "eval", 1, &runtime));
  SL_TRY_OUT(sl__ranks_open(runtime, &ranks));
  const sl__model_facts *f = sl__model_facts_of(file);
  const sl__data_options options = {.model = f->model,
                                    .path = o->data,
                                    .val_fraction = f->val_fraction,
                                    .seed = f->plan.seed,
                                    .length = f->data.length,
                                    .vocabulary = f->data.length > 0 ? f->data.classes : 0};
  SL_TRY_OUT(sl__data_open(&options, &data));
  SL_TRY_OUT(check_data(&data, file));
  if (data.n[split] == 0)
    SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "%s has no %s for %s; --split names another part", data.path,
                       sl__samples(f->model), splits[split]));
  SL_TRY_OUT(sl_store_create(&store));
  sl_plan plan = f->plan;
  if (f->data.length > 0) sl__option_default_integer(&o->length, f->data.length);
  if (o->batch > 0) SL_TRY_OUT(sl__plan_of(o, f->model, ranks.n, &plan));
  SL_TRY_OUT(sl__ranks_divide(&ranks, &plan, NULL));
  SL_TRY_OUT(sl__evaluator_create(runtime, store, f->model, &f->data, &f->training, &plan, &ranks, &evaluator));
  SL_TRY_OUT(sl__watch_start(&ranks, &evaluator.program, 1, o->stall_timeout, &watch));
  SL_TRY_OUT(sl__model_fill(file, store, &evaluator.network, f->model->name, 0));
  evaluator.step = f->step;
  SL_TRY_OUT(sl__evaluate(&evaluator, sl__data_source(&data, (sl_split)split), &score));
  if (ranks.rank == 0) (o->json ? print_json : print_text)(f, splits[split], &score);
out:
  if (status != SL_OK) sl__ranks_fail(&ranks, sl__exit_code(status));
  sl__watch_stop(watch);
  sl__evaluator_destroy(&evaluator);
  sl_store_destroy(store);
  sl__data_close(&data);
  sl__model_close(file);
  sl__ranks_close(&ranks);
  sl_runtime_stop(runtime);
  return status;
}
