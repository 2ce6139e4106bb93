/* Makes the model, its training and its plan from the options and the model's usual values. */
#include "tools/settings/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine/runtime.h"
#include "tools/settings/nearest.h"
#include "tools/settings/phrases.h"

static sl_status find_listed(const char *name, const sl_model **model) {
  const char *names[64];
  char suggestion[128];
  int n = 0;
  while (n < 64 && sl_model_at(n)) names[n] = sl_model_at(n)->name, n++;
  sl_status status = sl_model_find(name, model);
  return status == SL_ENOTFOUND
             ? sl_fail(SL_EINVAL, "%s%s", sl_error(), sl__suggestion(name, names, n, suggestion, sizeof suggestion))
             : status;
}

/* Error for a key that the family lacks; names the nearest key that it has. */
static sl_status unknown_size(const sl_model *model, const char *text) {
  const char *names[64];
  char suggestion[128] = "", key[64];
  int n = 0;
  for (const sl_size *s = model->family->sizes; s && s->name && n < 64; s++) names[n++] = s->name;
  for (const char *at = text; *at; at += strcspn(at, ","), at += *at == ',') {
    snprintf(key, sizeof key, "%.*s", (int)strcspn(at, "=,"), at);
    if (sl_size_find(model->family->sizes, key)) continue;
    sl__suggestion(key, names, n, suggestion, sizeof suggestion);
    break;
  }
  return sl_fail(SL_EINVAL, "--size: %s%s", sl_error(), suggestion);
}

sl_status sl__find_model(const char *name, const char *sizes, sl_model **model) {
  const sl_model *listed;
  *model = NULL;
  SL_TRY(find_listed(name, &listed));
  const sl_status status = sl_model_sized(listed, sizes, model);
  if (status == SL_ENOTFOUND) return unknown_size(listed, sizes);
  return status == SL_EINVAL ? sl_fail(SL_EINVAL, "--size: %s", sl_error()) : status;
}

int sl__size_is_given(const char *sizes, const char *name) {
  const size_t n = strlen(name);
  for (const char *at = sizes; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strncmp(at, name, n) == 0 && at[n] == '=') return 1;
  return 0;
}

void sl__training_of(const sl__options *o, const sl_model *model, sl_training *training) {
  *training = model->training;
  sl__training_given(o, training);
}

sl_status sl__synthetic_data(const sl__options *o, const sl_model *model, sl_model_data *data) {
  int64_t image[3] = {0};
  if (o->image) SL_TRY(sl__image_parse(o->image, image));
  const sl_model_data wanted = {
      .height = image[0], .width = image[1], .channels = image[2], .classes = o->classes, .length = o->length};
  model->family->data->usual(model, &wanted, data);
  return SL_OK;
}

/* Four micro-batches for each stage: with n stages the bubble is (n - 1) / (5 n - 1) of a step. Fewer if they do not
 * divide the batch or the leaves. */
static int micro_batches_of_pipe(const sl__mesh *mesh, int64_t batch, int64_t leaves) {
  int n = 4 * mesh->pipe;
  while (n > 1 && (leaves > 0 ? leaves / mesh->data % n != 0 : batch / mesh->data % n != 0)) n--;
  return n;
}

sl_status sl__plan_of(const sl__options *o, const sl_model *model, int ranks, sl_plan *plan) {
  *plan = (sl_plan){.batch = o->batch > 0 ? o->batch : model->batch, .seed = o->seed >= 0 ? (uint64_t)o->seed : 1};
  sl__mesh mesh;
  SL_TRY(sl__mesh_of(o, ranks, &mesh));
  if (o->micro_batches > 0)
    plan->micro_batches = (int)o->micro_batches;
  else if (mesh.pipe > 1)
    plan->micro_batches = micro_batches_of_pipe(&mesh, plan->batch, o->leaves);
  const int parts = plan->micro_batches > 0 ? plan->micro_batches : 1;
  int each = parts; /* a leaf or more for every rank, because in an evaluation all ranks divide the samples */
  while (each < sl__mesh_model_ranks(&mesh)) each += parts;
  if (parts > plan->batch)
    return sl_fail(SL_EINVAL, "--micro-batches %d: at most the batch's %lld samples", parts, (long long)plan->batch);
  if (o->leaves <= 0 && (int64_t)mesh.data * each > plan->batch)
    return sl_fail(SL_EINVAL,
                   "a batch of %lld samples is too small: %d data ranks need %lld leaves; give a larger --batch",
                   (long long)plan->batch, mesh.data, (long long)mesh.data * each);
  plan->leaves = o->leaves > 0 ? (int)o->leaves : mesh.data * each;
  if (o->shards > 0) plan->shards = (int)o->shards;
  if (o->row_blocks > 0) plan->row_blocks = (int)o->row_blocks;
  plan->message_parts = (int)o->pipe_parts;
  sl_training training;
  sl__training_of(o, model, &training);
  plan->tiles.blocks = training.precision == SL_PRECISION_BF16 && o->bf16_sums && strcmp(o->bf16_sums, "blocks") == 0;
  const int blas = o->products && strcmp(o->products, "openblas") == 0;
  if (blas && training.precision != SL_PRECISION_FP32)
    return sl_blame(sl_fail(SL_EUNSUPPORTED, "OpenBLAS's products are in fp32, and the precision is %s",
                            sl_precision_choices[training.precision]),
                    "products, precision");
  if (blas) snprintf(plan->products, sizeof plan->products, "%s", sl_runtime_products());
  if (!plan->shards) {
    enum { MOST = 8 }; /* shards of a leaf */
    sl_model_data data;
    SL_TRY(sl__synthetic_data(o, model, &data));
    const int64_t leaves = plan->leaves > 0 ? plan->leaves : 1, each = plan->batch / leaves;
    const int64_t most = each < MOST ? each : MOST, wanted = model->family->data->shards(model, &data, each);
    if (wanted >= 0) plan->shards = (int)(leaves * (wanted < 1 ? 1 : wanted < most ? wanted : most));
  }
  return sl_plan_complete(plan);
}

/* Ranks that divide products compute whole folds. */
sl_status sl__settle_folds(const sl__mesh *mesh, int gpus, sl_training *training) {
  if (training->folds == 0) training->folds = mesh->tensor;
  if (training->folds == 1) training->folds = 0; /* nothing is divided, as in older files */
  training->fold_ranks = mesh->tensor, training->fold_gpus = gpus;
  if (training->folds == 0 && training->sequence_parallel == SL_SEQUENCE_PARALLEL_ON)
    return sl_blame(sl_fail(SL_EINVAL,
                            "--sequence-parallel on divides what lies between folds, and this training has none: add "
                            "--folds F or --mesh tensor=N"),
                    "sequence-parallel");
  if (mesh->tensor <= 1 || mesh->tensor <= training->folds) return SL_OK;
  return sl_fail(SL_EINVAL,
                 "--mesh tensor=%d is more than the %lld folds of this training: raise --folds or, with --resume, use "
                 "a smaller tensor=N",
                 mesh->tensor, (long long)training->folds);
}

int sl__placed_by_plan(const sl__options *o, int gpus) {
  const char *policy = o->sched ? o->sched : getenv("STARPU_SCHED"); /* set by the runtime when it starts */
  const int chosen = o->sched || o->sched_lib;
  if (policy && strcmp(policy, "heteroprio") == 0) return 0; /* aborts if a task may run on one kind of worker only */
  return o->placement ? strcmp(o->placement, "plan") == 0 : gpus > 1 && !chosen;
}
