/* Tokens: windows of a text or of token files, for language models. There are two kinds: in one the model learns to
 * predict the next token, in the other the masked tokens. */
#include "runtime/data/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/models.h"
#include "runtime/base/log.h"
#include "runtime/text/tokenizer.h"

enum { BYTES = 256 };

/* ---- data sets -------------------------------------------------------------------------------------------------- */

/* Finds tokenizer.json in the first folder of the list that has one; for a file of the list, the folder of the file
 * counts. */
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

/* The masking that the model's sizes give for the data's vocabulary. */
static sl_status find_masking(const sl_model *model, const sl_model_data *d, sl_masking *m) {
  *m = (sl_masking){0};
  if (!model->family->masking) return SL_OK;
  sl_model *sized, *whole = NULL;
  char vocabulary[40];
  snprintf(vocabulary, sizeof vocabulary, "vocabulary=%lld", (long long)d->classes);
  SL_TRY(sl_model_sized(model, vocabulary, &sized));
  const sl_status status = sl_model_complete(sized, &whole);
  if (status == SL_OK) *m = model->family->masking(whole->sizes);
  free(sized), free(whole);
  return status;
}

/* A model that restores masked tokens must mask by the tokenizer's [MASK], or by a token that stands for no text.
 * mask: the tokenizer's; -1: it has none. */
static sl_status check_mask(const sl_data_options *o, const sl_data *d, int64_t vocabulary, int32_t mask) {
  sl_masking m;
  SL_TRY(find_masking(o->model, &d->model, &m));
  if (!o->model->family->masking || m.mask == mask) return SL_OK;
  if (mask >= 0)
    return sl_fail(SL_ESHAPE,
                   "[MASK] is token %d of %s, but the model masks by token %d: give the model the sizes mask=%d and "
                   "specials (the number of first tokens that are never masked)",
                   (int)mask, d->tokenizer, (int)m.mask, (int)mask);
  if (m.from > 0 && m.mask < vocabulary)
    return sl_fail(SL_ESHAPE,
                   "%s has no [MASK], and its token %d, by which the model masks, stands for text: give the model the "
                   "sizes vocabulary=%lld,mask=%lld,specials=1",
                   d->tokenizer, (int)m.mask, (long long)vocabulary + 1, (long long)vocabulary);
  return SL_OK;
}

/* The tokenizer beside the tokens gives the vocabulary, unless --size or --init gives it. The tokens of a text are its
 * bytes, even if a tokenizer lies beside the text. */
static sl_status take_vocabulary(const sl_data_options *o, const sl_tokens_options *options, sl_data *d) {
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
  const int32_t mask = sl_tokenizer_special(tokenizer, SL_SPECIAL_MASK);
  sl_tokenizer_close(tokenizer);
  if (o->vocabulary > 0 && vocabulary > o->vocabulary)
    return sl_fail(SL_ESHAPE, "%s has %lld tokens, but the model a vocabulary of %lld", d->tokenizer,
                   (long long)vocabulary, (long long)o->vocabulary);
  if (o->vocabulary <= 0) d->model.classes = vocabulary;
  const sl_status status = check_mask(o, d, vocabulary, mask);
  if (status != SL_ESHAPE || !o->trained) return status;
  sl_log(SL_LOG_WARNING, "the model was trained with another mask: %s", sl_error());
  return SL_OK;
}

/* The vocabulary given by --size or the weights of --init; 0: the tokenizer decides. */
static int64_t settled(const sl_data_options *o) {
  const sl_model *listed;
  const int64_t mine = sl_model_vocabulary(o->model);
  if (o->vocabulary > 0) return o->vocabulary;
  return sl_model_find(o->model->name, &listed) == SL_OK && mine != sl_model_vocabulary(listed) ? mine : 0;
}

static sl_status open_set(const sl_data_options *given, sl_data *d) {
  const sl_model *m = given->model;
  sl_data_options own = *given;
  const sl_data_options *o = &own;
  own.vocabulary = settled(given);
  d->model = (sl_model_data){.length = o->length > 0 ? o->length : sl_model_length(m),
                             .classes = o->vocabulary > 0 ? o->vocabulary : sl_model_vocabulary(m)};
  if (!o->path)
    return sl_blame(
        sl_fail(SL_EINVAL, "%s is a model of tokens: name a text, token files, or a folder of them", m->name), "data");
  sl_tokens_options options = {.paths = o->path,
                               .window = d->kind->shape(&d->model).dim[0],
                               .stride = d->model.length,
                               .validation_fraction = o->validation_fraction};
  SL_TRY(find_tokenizer(o->path, &d->tokenizer));
  if (d->tokenizer) SL_TRY(take_vocabulary(o, &options, d));
  options.vocabulary = d->model.classes;
  sl_tokens *t;
  SL_TRY(sl_tokens_open(&options, &t));
  d->set = t;
  if (t->text && d->model.classes > 2 * BYTES)
    sl_log(SL_LOG_WARNING,
           "%s is text, so its bytes are the tokens, but %s has a vocabulary of %lld: tokenize the text first", o->path,
           m->name, (long long)d->model.classes);
  memcpy(d->n, t->n, sizeof d->n);
  d->digest = t->digest;
  d->path = strdup(t->paths);
  return d->path ? SL_OK : sl_no_memory("for a path");
}

static void close_set(void *set) { sl_tokens_close(set); }

static sl_sample_source source(const sl_data *d, sl_split split) { return sl_tokens_source(d->set, split); }

static void compare(const sl_data *d, FILE *to) {
  fprintf(to, "digest of the tokens: %016llx\n", (unsigned long long)d->digest);
}

static void make_up(const sl_model_data *d, uint64_t (*random)(uint64_t *), uint64_t *state, size_t bytes,
                    void *sample) {
  int32_t *token = sample;
  for (size_t i = 0; i < bytes / sizeof *token; i++) token[i] = (int32_t)((random(state) >> 33) % (uint64_t)d->classes);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

static void usual(const sl_model *model, const sl_model_data *wanted, sl_model_data *d) {
  *d = (sl_model_data){.classes = sl_model_vocabulary(model),
                       .length = wanted->length > 0 ? wanted->length : sl_model_length(model)};
}

static char *size(const sl_model_data *d, char *text, size_t n) {
  snprintf(text, n, "%lld tokens", (long long)d->length);
  return text;
}

static int64_t units(const sl_model_data *d) { return d->length; }

static int64_t shards(const sl_model *model, const sl_model_data *d, int64_t samples) {
  enum { TOKENS = 128 };
  (void)model;
  return samples * d->length / TOKENS;
}

/* ---- the graph -------------------------------------------------------------------------------------------------- */

static sl_shape shape(const sl_model_data *d) { return SL_SHAPE(d->length); }

/* A window has one token more than the model reads: the last token is only a target. */
static sl_shape shape_next(const sl_model_data *d) { return SL_SHAPE(d->length + 1); }

static sl_status prepare_next(sl_graph *g, const sl_model *model, const sl_model_data *d, sl_value samples,
                              sl_value labels, sl_value *input, sl_value *targets) {
  (void)model, (void)d;
  *input = sl_next_tokens(g, "tokens", samples, labels, targets);
  return SL_OK;
}

static sl_status prepare_masked(sl_graph *g, const sl_model *model, const sl_model_data *d, sl_value samples,
                                sl_value labels, sl_value *input, sl_value *targets) {
  sl_masking masking;
  SL_TRY(find_masking(model, d, &masking));
  *input = sl_mask_tokens(g, "tokens", samples, labels, &masking, targets);
  return SL_OK;
}

/* ---- model files ------------------------------------------------------------------------------------------------ */

static json_t *to_json(const sl_model_data *d) {
  return json_pack("{s:I, s:I}", "length", (json_int_t)d->length, "vocabulary", (json_int_t)d->classes);
}

static sl_status from_json(json_t *json, sl_model_data *d) {
  json_int_t length, vocabulary;
  json_error_t error;
  if (json_unpack_ex(json, &error, 0, "{s:I, s:I}", "length", &length, "vocabulary", &vocabulary) != 0)
    return sl_fail(SL_EFORMAT, "%s", error.text);
  if (length < 1 || length > INT32_MAX || vocabulary < 1 || vocabulary > INT32_MAX)
    return sl_fail(SL_EFORMAT, "length or vocabulary is out of range");
  *d = (sl_model_data){.length = length, .classes = vocabulary};
  return SL_OK;
}

#define WINDOWS                                                                                           \
  .name = "tokens", .samples = "windows", .counted = "tokens", .classes = "kinds", .rate = "tokens/s",    \
  .perplexity = 1, .classes_size = "vocabulary", .open = open_set, .close = close_set, .source = source,  \
  .compare = compare, .make_up = make_up, .usual = usual, .size = size, .units = units, .shards = shards, \
  .dtype = SL_I32, .to_json = to_json, .from_json = from_json

const sl_data_kind sl_data_tokens = {
    WINDOWS,
    .files = "for language models a text, token files (.bin), several separated by commas, or a folder of them",
    .continues = 1,
    .shape = shape_next,
    .prepare = prepare_next,
};

const sl_data_kind sl_data_masked_tokens = {WINDOWS, .shape = shape, .prepare = prepare_masked};
