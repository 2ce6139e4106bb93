/* Opening what a model's task asks for. */
#include "tools/run/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/text/tokenizer.h"

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
    const int n = S_ISDIR(info.st_mode) ? (int)strlen(path) : slash ? (int)(slash - path) : 1;
    if (asprintf(tokenizer, "%.*s/tokenizer.json", n, S_ISDIR(info.st_mode) || slash ? path : ".") < 0) {
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

/* The vocabulary is that of the tokenizer that the tokens were made with, unless the model's is settled; a text is of
 * bytes, whatever lies beside it. */
static sl_status take_vocabulary(const sl__data_options *o, const sl_tokens_options *options, sl__data *d) {
  sl_tokens_options any = *options;
  sl_tokens *tokens;
  sl_tokenizer *tokenizer;
  any.vocabulary = INT32_MAX;
  SL_TRY(sl_tokens_open(&any, &tokens));
  const int text = tokens->text;
  sl_tokens_close(tokens);
  if (text) {
    free(d->tokenizer);
    d->tokenizer = NULL;
    return SL_OK;
  }
  SL_TRY(sl_tokenizer_open(d->tokenizer, &tokenizer));
  const int64_t vocabulary = sl_tokenizer_vocabulary(tokenizer);
  sl_tokenizer_close(tokenizer);
  if (o->vocabulary > 0 && vocabulary > o->vocabulary)
    return sl_fail(SL_ESHAPE, "%s has %lld tokens, and the model a vocabulary of %lld", d->tokenizer,
                   (long long)vocabulary, (long long)o->vocabulary);
  if (o->vocabulary <= 0) d->model.classes = vocabulary;
  return SL_OK;
}

static sl_status open_tokens(const sl__data_options *o, sl__data *d) {
  const sl_model *m = o->model;
  d->model = (sl_model_data){.length = o->length > 0 ? o->length : m->length,
                             .classes = o->vocabulary > 0 ? o->vocabulary : m->vocabulary};
  if (!o->path)
    return sl_fail(SL_EINVAL, "%s is a model of tokens: --data names a text, token files, or a folder of them",
                   m->name);
  sl_tokens_options options = {.paths = o->path,
                               .window = sl__window(m, d->model.length),
                               .stride = d->model.length,
                               .validation_fraction = o->val_fraction};
  SL_TRY(find_tokenizer(o->path, &d->tokenizer));
  if (d->tokenizer) SL_TRY(take_vocabulary(o, &options, d));
  options.vocabulary = d->model.classes;
  SL_TRY(sl_tokens_open(&options, &d->tokens));
  if (d->tokens->text && d->model.classes > 2 * BYTES)
    sl_log(SL_LOG_WARNING, "%s is read as bytes, and %s has a vocabulary of %lld: is it to be tokenized first?",
           o->path, m->name, (long long)d->model.classes);
  memcpy(d->n, d->tokens->n, sizeof d->n);
  d->path = strdup(d->tokens->paths);
  return d->path ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a path");
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
