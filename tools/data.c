/* Opening what a model's task asks for. */
#include "tools/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/log.h"

enum { BYTES = 256 };

const char *sl__samples(const sl_model *model) { return sl__of_tokens(model) ? "windows" : "images"; }

int64_t sl__window(const sl_model *model, int64_t length) { return length + (model->task == SL_TASK_NEXT_TOKEN); }

/* In the first folder that the list names, or that one of its files lies in. */
static sl_status find_tokenizer(const char *paths, char **tokenizer) {
  char *list = strdup(paths), *rest = list;
  sl_status status = list ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a path");
  for (char *path; status == SL_OK && !*tokenizer && (path = strsep(&rest, ","));) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info) != 0) continue;
    const int n = S_ISDIR(info.st_mode) ? (int)strlen(path) : slash ? (int)(slash - path) : 0;
    if (asprintf(tokenizer, "%.*s/tokenizer.json", n, path) < 0) {
      *tokenizer = NULL;
      status = sl_fail(SL_ENOMEM, "no memory for a path");
    } else if (access(*tokenizer, F_OK) != 0) {
      free(*tokenizer);
      *tokenizer = NULL;
    }
  }
  free(list);
  return status;
}

static sl_status open_tokens(const sl__data_options *o, sl__data *d) {
  const sl_model *m = o->model;
  d->model = (sl_model_data){.length = o->length > 0 ? o->length : m->length,
                             .classes = o->vocabulary > 0 ? o->vocabulary : m->vocabulary};
  if (!o->path)
    return sl_fail(SL_EINVAL, "%s is a model of tokens: --data names a text, token files, or a folder of them",
                   m->name);
  const sl_tokens_options options = {.paths = o->path,
                                     .vocabulary = d->model.classes,
                                     .window = sl__window(m, d->model.length),
                                     .stride = d->model.length,
                                     .validation_fraction = o->val_fraction};
  SL_TRY(sl_tokens_open(&options, &d->tokens));
  if (d->tokens->text && d->model.classes > 2 * BYTES)
    sl_log(SL_LOG_WARNING, "%s is read as bytes, and %s has a vocabulary of %lld: is it to be tokenized first?",
           o->path, m->name, (long long)d->model.classes);
  memcpy(d->n, d->tokens->n, sizeof d->n);
  d->path = strdup(d->tokens->paths);
  return d->path ? find_tokenizer(d->path, &d->tokenizer) : sl_fail(SL_ENOMEM, "no memory for a path");
}

static sl_status open_images(const sl__data_options *o, sl__data *d) {
  const sl_dataset_options options = {.directory = o->path, .validation_fraction = o->val_fraction, .seed = o->seed};
  SL_TRY(sl_dataset_open(&options, &d->images));
  const sl_dataset *s = d->images;
  d->model = (sl_model_data){.height = s->height, .width = s->width, .channels = s->channels, .classes = s->classes};
  _Static_assert((int)SL_DATASET_CHANNELS == (int)SL_MAX_CHANNELS, "means of as many channels");
  memcpy(d->model.mean, s->mean, sizeof s->mean);
  memcpy(d->model.deviation, s->std, sizeof s->std);
  d->class_names = s->class_names;
  memcpy(d->n, s->n, sizeof d->n);
  d->path = realpath(s->directory, NULL);
  if (!d->path) d->path = strdup(s->directory);
  return d->path ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a path");
}

sl_status sl__data_open(const sl__data_options *o, sl__data *d) {
  memset(d, 0, sizeof *d);
  const sl_status status = sl__of_tokens(o->model) ? open_tokens(o, d) : open_images(o, d);
  if (status != SL_OK) sl__data_close(d);
  return status;
}

void sl__data_close(sl__data *d) {
  sl_dataset_close(d->images);
  sl_tokens_close(d->tokens);
  free(d->path), free(d->tokenizer);
  memset(d, 0, sizeof *d);
}

sl_sample_source sl__data_source(const sl__data *d, sl_split split) {
  return d->tokens ? sl_tokens_source(d->tokens, split) : sl_dataset_source(d->images, split);
}

char *sl__data_text(const sl_model_data *d, char *text, size_t n) {
  if (d->length > 0)
    snprintf(text, n, "windows of %lld tokens", (long long)d->length);
  else
    snprintf(text, n, "images of %lldx%lldx%lld", (long long)d->height, (long long)d->width, (long long)d->channels);
  return text;
}
