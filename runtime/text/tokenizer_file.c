/* Opens and saves tokenizers: finds the files, reads and checks names and ids of the vocabulary, and passes the rest to
 * the kind of tokenizer. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/json.h"
#include "runtime/text/bpe.h"
#include "runtime/text/bpe_file.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/wordpiece.h"
#include "runtime/text/wordpiece_file.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

typedef struct entry {
  const char *name; /* in the JSON or the file's text */
  size_t n;
  json_int_t id;
} entry;

typedef struct entries {
  entry *at;
  size_t n, room;
} entries;

static sl_status add_entry(const char *path, entries *e, const char *name, size_t n, json_int_t id) {
  if (!sl__grow(&e->at, &e->room, e->n + 1, sizeof *e->at)) return sl_no_memory("for %s", path);
  e->at[e->n++] = (entry){name, n, id};
  return SL_OK;
}

static int by_id(const void *a, const void *b) {
  const json_int_t x = ((const entry *)a)->id, y = ((const entry *)b)->id;
  return (x > y) - (x < y);
}

/* where: "model.vocab of tokenizer.json". Ids must be 0, 1, 2, ... and tokens differ. */
static sl_status number_entries(const char *where, entries *e, sl_tokenizer *t) {
  if (e->n) qsort(e->at, e->n, sizeof *e->at, by_id);
  for (size_t i = 0; i < e->n; i++) {
    const entry *x = &e->at[i];
    uint32_t number;
    if (i > 0 && x->id == x[-1].id)
      return sl_fail(SL_EFORMAT, "%s: '%.*s' and '%.*s' both have id %lld", where, (int)x[-1].n, x[-1].name, (int)x->n,
                     x->name, (long long)x->id);
    if (x->id != (json_int_t)i)
      return sl_fail(SL_EFORMAT, "%s: no token has id %zu, but '%.*s' has %lld: ids must be 0, 1, 2 and so on", where,
                     i, (int)x->n, x->name, (long long)x->id);
    SL_TRY(sl__strings_add(&t->names, x->name, x->n, &number));
    if (number != i)
      return sl_fail(SL_EFORMAT, "%s: token '%.*s' occurs twice, with ids %u and %zu", where, (int)x->n, x->name,
                     (unsigned)number, i);
  }
  if (e->n == 0) return sl_fail(SL_EFORMAT, "%s: has no tokens", where);
  return SL_OK;
}

static sl_status vocabulary_of(const char *path, const char *key, const json_t *vocab, entries *e) {
  const char *name;
  json_t *id;
  if (!json_is_object(vocab))
    return sl_fail(SL_EFORMAT, "%s: %s%smust be an object of tokens and ids", path, key, *key ? " " : "");
  json_object_foreach((json_t *)vocab, name, id) {
    if (!json_is_integer(id))
      return sl_fail(SL_EFORMAT, "%s: %s%sthe id of token '%s' is not a whole number", path, key, *key ? ": " : "",
                     name);
    SL_TRY(add_entry(path, e, name, strlen(name), json_integer_value(id)));
  }
  return SL_OK;
}

/* ---- tokenizer.json --------------------------------------------------------------------------------------------- */

/* Reads the added tokens; those with ids beyond the vocabulary extend it. */
static sl_status added_entries(const char *path, const json_t *root, const json_t *vocab, entries *e) {
  const json_t *list = json_object_get(root, "added_tokens");
  size_t i;
  json_t *token;
  if (!sl__json_null(list) && !json_is_array(list)) return sl_fail(SL_EFORMAT, "%s: added_tokens must be a list", path);
  json_array_foreach((json_t *)list, i, token) {
    const char *text = json_string_value(json_object_get(token, "content"));
    const json_t *id = json_object_get(token, "id");
    if (!text || !*text || !json_is_integer(id))
      return sl_fail(SL_EFORMAT, "%s: added_tokens[%zu] lacks a content (text) or an id (whole number)", path, i);
    const json_t *there = json_object_get(vocab, text);
    if (!there)
      SL_TRY(add_entry(path, e, text, strlen(text), json_integer_value(id)));
    else if (json_integer_value(there) != json_integer_value(id))
      return sl_fail(SL_EFORMAT, "%s: added_tokens[%zu] '%s' has id %lld, but %lld in model.vocab", path, i, text,
                     (long long)json_integer_value(id), (long long)json_integer_value(there));
  }
  return SL_OK;
}

static sl_status added_tokens(const char *path, const json_t *root, sl_tokenizer *t) {
  size_t i;
  json_t *token;
  json_array_foreach(json_object_get(root, "added_tokens"), i, token) {
    sl__added a = {0};
    int special = 0, normalized = -1;
    SL_TRY(sl__json_flag(path, token, "added_tokens.special", &special));
    SL_TRY(sl__json_flag(path, token, "added_tokens.normalized", &normalized));
    SL_TRY(sl__json_flag(path, token, "added_tokens.single_word", &a.single_word));
    SL_TRY(sl__json_flag(path, token, "added_tokens.lstrip", &a.lstrip));
    SL_TRY(sl__json_flag(path, token, "added_tokens.rstrip", &a.rstrip));
    a.special = special, a.normalized = normalized < 0 ? !special : normalized;
    const char *text = json_string_value(json_object_get(token, "content"));
    SL_TRY(sl__tokenizer_add(t, (int32_t)json_integer_value(json_object_get(token, "id")), text, a));
  }
  return SL_OK;
}

/* The kinds that a tokenizer.json can describe. */
static const sl__tokenizer_kind *const kinds[] = {&sl__bpe, &sl__wordpiece};

/* Old files, such as GPT-2's, do not name the kind; their members show it, in the order in which the library tokenizers
 * tries the kinds. */
static const sl__tokenizer_kind *kind_of(const json_t *model) {
  const char *type = sl__json_type(model);
  if (!json_object_get(model, "type")) {
    if (json_object_get(model, "merges")) return &sl__bpe;
    return json_object_get(model, "vocab") && json_object_get(model, "unk_token") ? &sl__wordpiece : NULL;
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->type, type) == 0) return kinds[i];
  return NULL;
}

/* Numbers the tokens. root: a tokenizer.json, whose added tokens are numbered, too; NULL: there is none. */
static sl_status take_vocabulary(const char *path, const char *where, const json_t *root, const json_t *vocab,
                                 sl_tokenizer *t) {
  entries e = {0};
  sl_status status = SL_OK;
  SL_TRY_OUT(vocabulary_of(path, where, vocab, &e));
  if (root) SL_TRY_OUT(added_entries(path, root, vocab, &e));
  status = number_entries(path, &e, t);
out:
  free(e.at);
  return status;
}

static sl_status open_json(const char *path, sl_tokenizer **result) {
  json_t *root = NULL;
  sl_tokenizer *t = NULL;
  SL_TRY(sl_json_read(path, &root));
  sl_status status = SL_OK;
  const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
  const sl__tokenizer_kind *kind = kind_of(model);
  if (!json_is_object(model)) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s is not a tokenizer: it has no object 'model'", path));
  if (!kind) SL_TRY_OUT(sl__unsupported(path, "model.type", sl__json_type(model)));
  SL_TRY_OUT(sl__tokenizer_new(kind, &t));
  SL_TRY_OUT(take_vocabulary(path, "model.vocab", root, vocab, t));
  SL_TRY_OUT(kind->read(path, root, model, t));
  SL_TRY_OUT(added_tokens(path, root, t));
  SL_TRY_OUT(sl__tokenizer_finish(t));
  *result = t, t = NULL;
out:
  sl_tokenizer_close(t);
  json_decref(root);
  return status;
}

/* ---- vocab.json and merges.txt ---------------------------------------------------------------------------------- */

static sl_status open_pair(const char *vocab_path, const char *merges_path, sl_tokenizer **result) {
  static const char *const specials[] = {"<|endoftext|>", NULL};
  json_t *root = NULL;
  sl_tokenizer *t = NULL;
  SL_TRY(sl_json_read(vocab_path, &root));
  sl_status status = SL_OK;
  SL_TRY_OUT(sl__tokenizer_new(&sl__bpe, &t));
  SL_TRY_OUT(take_vocabulary(vocab_path, "", NULL, root, t));
  SL_TRY_OUT(sl__bpe_read_merges(merges_path, t));
  sl__bpe_bytes(t);
  SL_TRY_OUT(sl__add_specials(t, specials));
  SL_TRY_OUT(sl__tokenizer_finish(t));
  *result = t, t = NULL;
out:
  sl_tokenizer_close(t);
  json_decref(root);
  return status;
}

static int ends_in(const char *path, const char *end) {
  const size_t n = strlen(path), m = strlen(end);
  return n >= m && strcmp(path + n - m, end) == 0;
}

static int is_file(char path[4200], const char *folder, const char *name) {
  struct stat info;
  return snprintf(path, 4200, "%s/%s", folder, name) < 4200 && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

sl_status sl_tokenizer_open(const char *path, sl_tokenizer **tokenizer) {
  struct stat info;
  char first[4200], second[4200];
  *tokenizer = NULL;
  if (strcmp(path, "bytes") == 0) return sl__bytes_new(tokenizer);
  if (stat(path, &info) != 0)
    return sl_fail(
        SL_ENOTFOUND,
        "no tokenizer at %s: name 'bytes', a tokenizer.json, a vocab.txt, or a folder with one of these or with "
        "vocab.json and merges.txt",
        path);
  if (S_ISDIR(info.st_mode)) {
    if (is_file(first, path, "tokenizer.json")) return open_json(first, tokenizer);
    if (is_file(first, path, "vocab.txt")) return sl__wordpiece_open(first, tokenizer);
    if (is_file(first, path, "vocab.json") && is_file(second, path, "merges.txt"))
      return open_pair(first, second, tokenizer);
    return sl_fail(SL_ENOTFOUND, "folder %s holds neither tokenizer.json nor vocab.txt nor vocab.json and merges.txt",
                   path);
  }
  return ends_in(path, ".txt") ? sl__wordpiece_open(path, tokenizer) : open_json(path, tokenizer);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static int set_vocabulary(const sl_tokenizer *t, json_t *vocab) {
  for (size_t id = 0; id < t->names.n; id++) {
    json_t *name = sl__json_name(t, id);
    const int failed = !name || json_object_set_new(vocab, json_string_value(name), json_integer((json_int_t)id)) != 0;
    json_decref(name);
    if (failed) return 0;
  }
  return 1;
}

static json_t *to_json(const sl_tokenizer *t) {
  json_t *vocab = json_object();
  json_t *root = vocab && set_vocabulary(t, vocab) ? t->kind->write(t, vocab) : NULL;
  json_decref(vocab);
  return root;
}

sl_status sl_tokenizer_save(const sl_tokenizer *t, const char *path) {
  json_t *root = to_json(t);
  const sl_status status = root ? sl_json_write(path, root) : sl_no_memory("for %s", path);
  json_decref(root);
  return status;
}

sl_status sl_tokenizer_text(const sl_tokenizer *t, char **text) {
  json_t *root = to_json(t);
  *text = root ? sl_json_text(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  return *text ? SL_OK : sl_no_memory("for a tokenizer's text");
}
