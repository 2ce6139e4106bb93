/* The files of tokenizers: tokenizer.json, vocab.json with merges.txt, vocab.txt; read with every id, token and merge
 * checked, and written as tokenizer.json. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/text/tokenizer_parts.h"

enum { MOST_BYTES = 256 << 20 };

/* ---- names ------------------------------------------------------------------------------------------------------ */

typedef struct entry {
  const char *name; /* the JSON's or the text's */
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
      return sl_fail(SL_EFORMAT, "%s: no token has id %zu, and '%.*s' has %lld: ids must be 0, 1, 2 and so on", where,
                     i, (int)x->n, x->name, (long long)x->id);
    SL_TRY(sl__strings_add(&t->names, x->name, x->n, &number));
    if (number != i)
      return sl_fail(SL_EFORMAT, "%s: token '%.*s' stands there twice, with ids %u and %zu", where, (int)x->n, x->name,
                     (unsigned)number, i);
  }
  if (e->n == 0) return sl_fail(SL_EFORMAT, "%s: has no tokens", where);
  return SL_OK;
}

static sl_status vocabulary_of(const char *path, const char *key, const json_t *vocab, entries *e) {
  const char *name;
  json_t *id;
  if (!json_is_object(vocab))
    return sl_fail(SL_EFORMAT, "%s: %s%sis to be an object of tokens and ids", path, key, *key ? " " : "");
  json_object_foreach((json_t *)vocab, name, id) {
    if (!json_is_integer(id))
      return sl_fail(SL_EFORMAT, "%s: %s%sthe id of token '%s' is not a whole number", path, key, *key ? ": " : "",
                     name);
    SL_TRY(add_entry(path, e, name, strlen(name), json_integer_value(id)));
  }
  return SL_OK;
}

/* ---- merges ----------------------------------------------------------------------------------------------------- */

/* where: "merges.txt, line 7". The two parts and what they make must be tokens. */
static sl_status add_merge(const char *where, sl_tokenizer *t, size_t *room, const char *a, size_t na, const char *b,
                           size_t nb) {
  char *both = malloc(na + nb + 1);
  if (!both) return sl_no_memory("for %s", where);
  memcpy(both, a, na);
  memcpy(both + na, b, nb);
  const int64_t first = sl__strings_find(&t->names, a, na), second = sl__strings_find(&t->names, b, nb),
                made = sl__strings_find(&t->names, both, na + nb);
  sl_status status = SL_OK;
  const size_t known = t->merges.n;
  uint32_t rank;
  if (first < 0 || second < 0 || made < 0)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: '%.*s' is not in the vocabulary", where,
                       (int)(first < 0    ? na
                             : second < 0 ? nb
                                          : na + nb),
                       first < 0    ? a
                       : second < 0 ? b
                                    : (memcpy(both, a, na), both)));
  SL_TRY_OUT(sl__pairs_add(&t->merges, sl__pair((int32_t)first, (int32_t)second), &rank));
  if (t->merges.n == known)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: merge '%.*s %.*s' stands there twice", where, (int)na, a, (int)nb, b));
  if (!sl__grow(&t->merged, room, t->merges.n, sizeof *t->merged)) SL_TRY_OUT(sl_no_memory("for %s", where));
  t->merged[rank] = (int32_t)made;
out:
  free(both);
  return status;
}

static sl_status add_merge_line(const char *where, sl_tokenizer *t, size_t *room, const char *line, size_t n) {
  const char *space = memchr(line, ' ', n);
  const size_t na = space ? (size_t)(space - line) : 0, nb = space ? n - na - 1 : 0;
  if (na == 0 || nb == 0 || memchr(space + 1, ' ', nb))
    return sl_fail(SL_EFORMAT, "%s: '%.*s' is not two tokens with a space between them", where, (int)(n < 80 ? n : 80),
                   line);
  return add_merge(where, t, room, line, na, space + 1, nb);
}

/* The next line of text, without its end; 0 at the end. */
static int next_line(char **at, char *end, char **line, size_t *n) {
  if (*at >= end) return 0;
  char *newline = memchr(*at, '\n', (size_t)(end - *at)), *stop = newline ? newline : end;
  *line = *at, *n = (size_t)(stop - *at);
  *at = newline ? newline + 1 : end;
  if (*n > 0 && (*line)[*n - 1] == '\r') --*n;
  return 1;
}

static sl_status read_merges(const char *path, sl_tokenizer *t) {
  char *text, *line, where[4300];
  size_t bytes, n, room = 0;
  SL_TRY(sl_file_read(path, MOST_BYTES, &text, &bytes));
  sl_status status = SL_OK;
  int number = 0;
  for (char *at = text; status == SL_OK && next_line(&at, text + bytes, &line, &n);) {
    number++;
    if (n == 0 || (n >= 9 && memcmp(line, "#version:", 9) == 0)) continue;
    snprintf(where, sizeof where, "%s, line %d", path, number);
    status = add_merge_line(where, t, &room, line, n);
  }
  free(text);
  return status;
}

static sl_status merges_of(const char *path, const json_t *merges, sl_tokenizer *t) {
  size_t i, room = 0;
  json_t *merge;
  char where[4300];
  if (!json_is_array(merges)) return sl_fail(SL_EFORMAT, "%s: model.merges is to be a list", path);
  json_array_foreach((json_t *)merges, i, merge) {
    const char *a = json_string_value(json_array_get(merge, 0)), *b = json_string_value(json_array_get(merge, 1));
    snprintf(where, sizeof where, "%s: model.merges[%zu]", path, i);
    if (json_is_string(merge))
      SL_TRY(add_merge_line(where, t, &room, json_string_value(merge), json_string_length(merge)));
    else if (json_array_size(merge) == 2 && a && b && *a && *b)
      SL_TRY(add_merge(where, t, &room, a, strlen(a), b, strlen(b)));
    else
      return sl_fail(SL_EFORMAT, "%s is neither \"a b\" nor [\"a\", \"b\"]", where);
  }
  return SL_OK;
}

/* ---- tokenizer.json --------------------------------------------------------------------------------------------- */

/* key: "model.dropout", whose last part is looked up. Absent or null: *value stays. */
static sl_status flag(const char *path, const json_t *object, const char *key, int *value) {
  const char *dot = strrchr(key, '.');
  const json_t *found = json_object_get(object, dot ? dot + 1 : key);
  if (!found || json_is_null(found)) return SL_OK;
  if (!json_is_boolean(found)) return sl_fail(SL_EFORMAT, "%s: %s is neither true nor false", path, key);
  *value = json_is_true(found);
  return SL_OK;
}

static const char *type_of(const json_t *object) {
  const char *type = json_string_value(json_object_get(object, "type"));
  return type ? type : "none";
}

static int is_null(const json_t *value) { return !value || json_is_null(value); }

static sl_status unsupported(const char *path, const char *key, const char *what) {
  return sl_fail(
      SL_EUNSUPPORTED,
      "%s: %s is %s, which is not supported here: a byte-level BPE or a WordPiece as GPT-2 and BERT have them is", path,
      key, what);
}

/* Tokens found in text; those beyond the vocabulary join it. */
static sl_status added_entries(const char *path, const json_t *root, const json_t *vocab, entries *e) {
  const json_t *list = json_object_get(root, "added_tokens");
  size_t i;
  json_t *token;
  if (!is_null(list) && !json_is_array(list)) return sl_fail(SL_EFORMAT, "%s: added_tokens is to be a list", path);
  json_array_foreach((json_t *)list, i, token) {
    const char *text = json_string_value(json_object_get(token, "content"));
    const json_t *id = json_object_get(token, "id");
    if (!text || !*text || !json_is_integer(id))
      return sl_fail(SL_EFORMAT, "%s: added_tokens[%zu] lacks a content (text) or an id (whole number)", path, i);
    const json_t *there = json_object_get(vocab, text);
    if (!there)
      SL_TRY(add_entry(path, e, text, strlen(text), json_integer_value(id)));
    else if (json_integer_value(there) != json_integer_value(id))
      return sl_fail(SL_EFORMAT, "%s: added_tokens[%zu] '%s' has id %lld, and %lld in model.vocab", path, i, text,
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
    SL_TRY(flag(path, token, "added_tokens.special", &special));
    SL_TRY(flag(path, token, "added_tokens.normalized", &normalized));
    SL_TRY(flag(path, token, "added_tokens.single_word", &a.single_word));
    SL_TRY(flag(path, token, "added_tokens.lstrip", &a.lstrip));
    SL_TRY(flag(path, token, "added_tokens.rstrip", &a.rstrip));
    a.special = special, a.normalized = normalized < 0 ? !special : normalized;
    const char *text = json_string_value(json_object_get(token, "content"));
    SL_TRY(sl__tokenizer_add(t, (int32_t)json_integer_value(json_object_get(token, "id")), text, a));
  }
  return SL_OK;
}

static sl_status unknown_of(const char *path, const json_t *model, sl_tokenizer *t) {
  const json_t *unknown = json_object_get(model, "unk_token");
  if (is_null(unknown)) return SL_OK;
  const char *text = json_string_value(unknown);
  const int64_t id = text ? sl__strings_find(&t->names, text, strlen(text)) : -1;
  if (id < 0)
    return sl_fail(SL_EFORMAT, "%s: model.unk_token '%s' is not in the vocabulary", path, text ? text : "(no text)");
  t->unknown = (int32_t)id;
  return SL_OK;
}

static sl_status read_bpe(const char *path, const json_t *root, const json_t *model, sl_tokenizer *t) {
  static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  static const char *const switches[] = {"model.byte_fallback", "model.ignore_merges"};
  const json_t *words = json_object_get(root, "pre_tokenizer"), *dropout = json_object_get(model, "dropout");
  int fuse = 0;
  if (!is_null(json_object_get(root, "normalizer")))
    return unsupported(path, "normalizer", type_of(json_object_get(root, "normalizer")));
  if (strcmp(type_of(words), "ByteLevel") != 0) return unsupported(path, "pre_tokenizer", type_of(words));
  t->prefix_space = 1;
  SL_TRY(flag(path, words, "pre_tokenizer.add_prefix_space", &t->prefix_space));
  SL_TRY(flag(path, words, "pre_tokenizer.use_regex", &t->words_by_pattern));
  if (!is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
    return unsupported(path, "model.dropout", "a number");
  for (int i = 0; i < 2; i++) {
    const char *affix = json_string_value(json_object_get(model, affixes[i]));
    int on = 0;
    if (affix && *affix) return unsupported(path, affixes[i], affix);
    SL_TRY(flag(path, model, switches[i], &on));
    if (on) return unsupported(path, switches[i], "true");
  }
  SL_TRY(unknown_of(path, model, t));
  SL_TRY(flag(path, model, "model.fuse_unk", &fuse));
  if (fuse && t->unknown >= 0) return unsupported(path, "model.fuse_unk", "true");
  SL_TRY(merges_of(path, json_object_get(model, "merges"), t));
  sl__bpe_bytes(t);
  return SL_OK;
}

static sl_status set_prefix(const char *path, const char *prefix, sl_tokenizer *t) {
  t->prefix = strdup(prefix);
  if (!t->prefix) return sl_no_memory("for %s", path);
  t->prefix_bytes = strlen(prefix);
  return SL_OK;
}

static sl_status read_wordpiece(const char *path, const json_t *root, const json_t *model, sl_tokenizer *t) {
  const json_t *normalizer = json_object_get(root, "normalizer"), *words = json_object_get(root, "pre_tokenizer"),
               *prefix = json_object_get(model, "continuing_subword_prefix"),
               *most = json_object_get(model, "max_input_chars_per_word");
  if (!is_null(normalizer)) {
    if (strcmp(type_of(normalizer), "BertNormalizer") != 0) return unsupported(path, "normalizer", type_of(normalizer));
    t->clean = t->chinese = t->lower = 1;
    SL_TRY(flag(path, normalizer, "normalizer.clean_text", &t->clean));
    SL_TRY(flag(path, normalizer, "normalizer.handle_chinese_chars", &t->chinese));
    SL_TRY(flag(path, normalizer, "normalizer.lowercase", &t->lower));
    t->strip_accents = t->lower;
    SL_TRY(flag(path, normalizer, "normalizer.strip_accents", &t->strip_accents));
  }
  if (strcmp(type_of(words), "BertPreTokenizer") != 0) return unsupported(path, "pre_tokenizer", type_of(words));
  if (!is_null(prefix) && !json_is_string(prefix))
    return sl_fail(SL_EFORMAT, "%s: model.continuing_subword_prefix is not text", path);
  if (!is_null(most) && (!json_is_integer(most) || json_integer_value(most) < 0))
    return sl_fail(SL_EFORMAT, "%s: model.max_input_chars_per_word is not a whole number", path);
  t->most_characters = is_null(most) ? 100 : json_integer_value(most);
  SL_TRY(set_prefix(path, is_null(prefix) ? "##" : json_string_value(prefix), t));
  SL_TRY(unknown_of(path, model, t));
  return t->unknown < 0 ? sl_fail(SL_EFORMAT, "%s: model.unk_token is missing, which WordPiece needs", path) : SL_OK;
}

static sl_status open_json(const char *path, sl_tokenizer **result) {
  json_t *root = NULL;
  entries e = {0};
  sl_tokenizer *t = NULL;
  SL_TRY(sl_json_read(path, &root));
  sl_status status = SL_OK;
  const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
  const char *type = type_of(model);
  const int bpe = strcmp(type, "BPE") == 0;
  if (!json_is_object(model)) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: is no tokenizer, it has no object 'model'", path));
  if (!bpe && strcmp(type, "WordPiece") != 0) SL_TRY_OUT(unsupported(path, "model.type", type));
  SL_TRY_OUT(sl__tokenizer_new(bpe ? SL__BPE : SL__WORDPIECE, &t));
  SL_TRY_OUT(vocabulary_of(path, "model.vocab", vocab, &e));
  SL_TRY_OUT(added_entries(path, root, vocab, &e));
  SL_TRY_OUT(number_entries(path, &e, t));
  SL_TRY_OUT(bpe ? read_bpe(path, root, model, t) : read_wordpiece(path, root, model, t));
  SL_TRY_OUT(added_tokens(path, root, t));
  SL_TRY_OUT(sl__tokenizer_finish(t));
  *result = t, t = NULL;
out:
  sl_tokenizer_close(t);
  free(e.at);
  json_decref(root);
  return status;
}

/* ---- vocab.json and merges.txt, vocab.txt ----------------------------------------------------------------------- */

static sl_status add_specials(sl_tokenizer *t, const char *const *names) {
  for (; *names; names++) {
    const int64_t id = sl__strings_find(&t->names, *names, strlen(*names));
    if (id >= 0) SL_TRY(sl__tokenizer_add(t, (int32_t)id, *names, (sl__added){.special = 1}));
  }
  return SL_OK;
}

static sl_status open_pair(const char *vocab_path, const char *merges_path, sl_tokenizer **result) {
  static const char *const specials[] = {"<|endoftext|>", NULL};
  json_t *root = NULL;
  entries e = {0};
  sl_tokenizer *t = NULL;
  SL_TRY(sl_json_read(vocab_path, &root));
  sl_status status = SL_OK;
  SL_TRY_OUT(sl__tokenizer_new(SL__BPE, &t));
  SL_TRY_OUT(vocabulary_of(vocab_path, "", root, &e));
  SL_TRY_OUT(number_entries(vocab_path, &e, t));
  SL_TRY_OUT(read_merges(merges_path, t));
  sl__bpe_bytes(t);
  SL_TRY_OUT(add_specials(t, specials));
  SL_TRY_OUT(sl__tokenizer_finish(t));
  *result = t, t = NULL;
out:
  sl_tokenizer_close(t);
  free(e.at);
  json_decref(root);
  return status;
}

static int has_capitals(const char *name, size_t n) {
  if (n > 0 && (*name == '[' || *name == '<')) return 0;
  for (size_t i = 0; i < n; i++)
    if (name[i] >= 'A' && name[i] <= 'Z') return 1;
  return 0;
}

/* tokenizer_config.json beside vocab.txt, where there is one, says how text is normalised. */
static sl_status read_config(const char *vocab_path, sl_tokenizer *t) {
  const char *slash = strrchr(vocab_path, '/');
  const int folder = slash ? (int)(slash - vocab_path) + 1 : 0;
  char path[4200];
  struct stat info;
  snprintf(path, sizeof path, "%.*stokenizer_config.json", folder, vocab_path);
  json_t *root = NULL;
  sl_status status = SL_OK;
  const int there = stat(path, &info) == 0;
  if (there) SL_TRY(sl_json_read(path, &root));
  SL_TRY_OUT(flag(path, root, "do_lower_case", &t->lower));
  t->strip_accents = t->lower;
  SL_TRY_OUT(flag(path, root, "strip_accents", &t->strip_accents));
  SL_TRY_OUT(flag(path, root, "tokenize_chinese_chars", &t->chinese));
out:
  json_decref(root);
  return status;
}

static sl_status open_vocab(const char *path, sl_tokenizer **result) {
  static const char *const specials[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", NULL};
  char *text = NULL, *line;
  size_t bytes, n;
  sl_tokenizer *t = NULL;
  SL_TRY(sl_file_read(path, MOST_BYTES, &text, &bytes));
  sl_status status = SL_OK;
  SL_TRY_OUT(sl__tokenizer_new(SL__WORDPIECE, &t));
  t->clean = t->chinese = t->lower = 1, t->most_characters = 100;
  SL_TRY_OUT(set_prefix(path, "##", t));
  for (char *at = text; next_line(&at, text + bytes, &line, &n);) {
    const size_t before = t->names.n;
    uint32_t number;
    if (n == 0 || memchr(line, 0, n))
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s, line %zu: %s where a token is to be", path, before + 1,
                         n ? "has a NUL character" : "is empty"));
    SL_TRY_OUT(sl__strings_add(&t->names, line, n, &number));
    if (number != before)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s, line %zu: token '%.*s' stands already in line %u", path, before + 1, (int)n,
                         line, (unsigned)number + 1));
    if (has_capitals(line, n)) t->lower = 0;
  }
  t->unknown = (int32_t)sl__strings_find(&t->names, "[UNK]", 5);
  if (t->unknown < 0)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: has no [UNK]; is it a WordPiece vocabulary, a token a line?", path));
  SL_TRY_OUT(read_config(path, t));
  SL_TRY_OUT(add_specials(t, specials));
  SL_TRY_OUT(sl__tokenizer_finish(t));
  *result = t, t = NULL;
out:
  sl_tokenizer_close(t);
  free(text);
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
  if (strcmp(path, "bytes") == 0) {
    SL_TRY(sl__tokenizer_new(SL__BYTES, tokenizer));
    return SL_OK;
  }
  if (stat(path, &info) != 0)
    return sl_fail(
        SL_ENOTFOUND,
        "no tokenizer at %s: there are 'bytes', a tokenizer.json, a vocab.txt, or a folder with one of these or with "
        "vocab.json and merges.txt",
        path);
  if (S_ISDIR(info.st_mode)) {
    if (is_file(first, path, "tokenizer.json")) return open_json(first, tokenizer);
    if (is_file(first, path, "vocab.txt")) return open_vocab(first, tokenizer);
    if (is_file(first, path, "vocab.json") && is_file(second, path, "merges.txt"))
      return open_pair(first, second, tokenizer);
    return sl_fail(SL_ENOTFOUND, "folder %s holds neither tokenizer.json nor vocab.txt nor vocab.json and merges.txt",
                   path);
  }
  return ends_in(path, ".txt") ? open_vocab(path, tokenizer) : open_json(path, tokenizer);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static json_t *text_of(const sl_tokenizer *t, size_t id) {
  size_t n;
  const char *name = sl__strings_get(&t->names, id, &n);
  return json_stringn(name, n);
}

static json_t *added_of(const sl_tokenizer *t) {
  json_t *list = json_array();
  for (size_t i = 0; i < t->n_added; i++) {
    const sl__added *a = &t->added[i];
    json_array_append_new(list, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", a->id, "content",
                                          text_of(t, (size_t)a->id), "single_word", a->single_word, "lstrip", a->lstrip,
                                          "rstrip", a->rstrip, "normalized", a->normalized, "special", a->special));
  }
  return list;
}

static int set_vocabulary(const sl_tokenizer *t, json_t *vocab) {
  if (t->kind == SL__BYTES) {
    for (int byte = 0; byte < 256; byte++) {
      char name[3];
      name[sl__byte_name((unsigned char)byte, name)] = 0;
      if (json_object_set_new(vocab, name, json_integer(byte)) != 0) return 0;
    }
    return 1;
  }
  for (size_t id = 0; id < t->names.n; id++) {
    json_t *name = text_of(t, id);
    const int failed = !name || json_object_set_new(vocab, json_string_value(name), json_integer((json_int_t)id)) != 0;
    json_decref(name);
    if (failed) return 0;
  }
  return 1;
}

static json_t *merges_list(const sl_tokenizer *t) {
  json_t *list = json_array();
  for (size_t rank = 0; list && rank < t->merges.n; rank++) {
    json_t *a = text_of(t, (size_t)(t->merges.key[rank] >> 32)),
           *b = text_of(t, (size_t)(t->merges.key[rank] & UINT32_MAX));
    const int failed =
        !a || !b || json_array_append_new(list, json_sprintf("%s %s", json_string_value(a), json_string_value(b))) != 0;
    json_decref(a), json_decref(b);
    if (failed) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *bpe_root(const sl_tokenizer *t, json_t *vocab) {
  json_t *unknown = t->unknown >= 0 ? text_of(t, (size_t)t->unknown) : json_null();
  json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", t->prefix_space,
                            "trim_offsets", 1, "use_regex", t->words_by_pattern && t->kind == SL__BPE);
  json_t *root =
      json_pack("{s:s, s:n, s:n, s:o, s:n, s:O, s:O, s:O, s:{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:O, s:o}}",
                "version", "1.0", "truncation", "padding", "added_tokens", added_of(t), "normalizer", "pre_tokenizer",
                bytes, "post_processor", bytes, "decoder", bytes, "model", "type", "BPE", "dropout", "unk_token",
                unknown, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                "ignore_merges", 0, "vocab", vocab, "merges", merges_list(t));
  json_decref(bytes);
  return root;
}

static json_t *wordpiece_root(const sl_tokenizer *t, json_t *vocab) {
  const int64_t cls = sl__strings_find(&t->names, "[CLS]", 5), sep = sl__strings_find(&t->names, "[SEP]", 5);
  json_t *around = cls >= 0 && sep >= 0 ? json_pack("{s:s, s:[s, I], s:[s, I]}", "type", "BertProcessing", "sep",
                                                    "[SEP]", (json_int_t)sep, "cls", "[CLS]", (json_int_t)cls)
                                        : json_null();
  return json_pack(
      "{s:s, s:n, s:n, s:o, s:{s:s, s:b, s:b, s:b, s:b}, s:{s:s}, s:o, s:{s:s, s:s, s:b}, s:{s:s, s:o, s:s, s:I, s:O}}",
      "version", "1.0", "truncation", "padding", "added_tokens", added_of(t), "normalizer", "type", "BertNormalizer",
      "clean_text", t->clean, "handle_chinese_chars", t->chinese, "strip_accents", t->strip_accents, "lowercase",
      t->lower, "pre_tokenizer", "type", "BertPreTokenizer", "post_processor", around, "decoder", "type", "WordPiece",
      "prefix", t->prefix, "cleanup", 1, "model", "type", "WordPiece", "unk_token", text_of(t, (size_t)t->unknown),
      "continuing_subword_prefix", t->prefix, "max_input_chars_per_word", (json_int_t)t->most_characters, "vocab",
      vocab);
}

sl_status sl_tokenizer_save(const sl_tokenizer *t, const char *path) {
  json_t *vocab = json_object();
  json_t *root = vocab && set_vocabulary(t, vocab)
                     ? t->kind == SL__WORDPIECE ? wordpiece_root(t, vocab) : bpe_root(t, vocab)
                     : NULL;
  const sl_status status = root ? sl_json_write(path, root) : sl_no_memory("for %s", path);
  json_decref(root), json_decref(vocab);
  return status;
}
