/* Tokens: windows of a text or of token files, for language models. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/text/tokenizer.h"
#include "tools/run/data.h"

enum { BYTES = 256 };

/* Tokens of a sample: one more than the model reads if it predicts the next token. */
static int64_t window(const sl_model *model, int64_t length) {
  return length + (model->family->task == SL_TASK_NEXT_TOKEN);
}

/* The file in the first folder of the list, or in the folder of its first file. */
static sl_status find_tokenizer(const char *paths, char **tokenizer) {
  char *list = strdup(paths), *rest = list;
  sl_status status = list ? SL_OK : sl_no_memory("for a path");
  for (char *path; status == SL_OK && !*tokenizer && (path = strsep(&rest, ","));) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info) != 0) continue;
    const int n = S_ISDIR(info.st_mode) ? (int)strlen(path) : slash ? (int)(slash - path) : 1;
    if (asprintf(tokenizer, "%.*s/tokenizer.json", n, S_ISDIR(info.st_mode) || slash ? path : ".") < 0) {
      *tokenizer = NULL;
      status = sl_no_memory("for a path");
    } else if (access(*tokenizer, F_OK) != 0) {
      free(*tokenizer);
      *tokenizer = NULL;
    }
  }
  free(list);
  return status;
}

/* The vocabulary is that of the tokenizer beside the tokens, unless --size or --init gives it. A text has bytes as
 * tokens, even beside a tokenizer. */
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

/* The vocabulary given by --size or the weights of --init; 0: the tokenizer decides. */
static int64_t settled(const sl__data_options *o) {
  const sl_model *listed;
  const int64_t mine = sl_model_vocabulary(o->model);
  if (o->vocabulary > 0) return o->vocabulary;
  return sl_model_find(o->model->name, &listed) == SL_OK && mine != sl_model_vocabulary(listed) ? mine : 0;
}

static sl_status open_tokens(const sl__data_options *given, sl__data *d) {
  const sl_model *m = given->model;
  sl__data_options own = *given;
  const sl__data_options *o = &own;
  own.vocabulary = settled(given);
  d->model = (sl_model_data){.length = o->length > 0 ? o->length : sl_model_length(m),
                             .classes = o->vocabulary > 0 ? o->vocabulary : sl_model_vocabulary(m)};
  if (!o->path)
    return sl_fail(SL_EINVAL, "%s is a model of tokens: --data names a text, token files, or a folder of them",
                   m->name);
  sl_tokens_options options = {.paths = o->path,
                               .window = window(m, d->model.length),
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
  d->digest = d->tokens->digest;
  d->path = strdup(d->tokens->paths);
  return d->path ? SL_OK : sl_no_memory("for a path");
}

static sl_sample_source source(const sl__data *d, sl_split split) { return sl_tokens_source(d->tokens, split); }

static void text(const sl_model_data *d, char *text, size_t n) {
  snprintf(text, n, "windows of %lld tokens", (long long)d->length);
}

static int64_t units(const sl_model_data *d) { return d->length; }

static size_t sample_bytes(const sl_model *model, const sl_model_data *d) {
  return sizeof(int32_t) * (size_t)window(model, d->length);
}

static void make_up(const sl_model *model, const sl_model_data *d, uint64_t (*random)(uint64_t *), uint64_t *state,
                    void *sample) {
  int32_t *token = sample;
  for (int64_t i = 0; i < window(model, d->length); i++)
    token[i] = (int32_t)((random(state) >> 33) % (uint64_t)d->classes);
}

static void compare(const sl__data *d, FILE *to) {
  fprintf(to, "digest of the tokens: %016llx\n", (unsigned long long)d->digest);
}

const sl__data_kind sl__data_tokens = {.samples = "windows",
                                       .counted = "tokens",
                                       .classes = "kinds",
                                       .rate = "tokens/s",
                                       .perplexity = 1,
                                       .open = open_tokens,
                                       .source = source,
                                       .text = text,
                                       .units = units,
                                       .sample_bytes = sample_bytes,
                                       .make_up = make_up,
                                       .compare = compare};
