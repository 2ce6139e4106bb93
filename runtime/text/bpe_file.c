/* Reads and writes a byte-level BPE's files: merges.txt and its part of a tokenizer.json; checks every merge. Defines
 * the kind BPE, and the kind of plain bytes, a BPE without merges. */
#include "runtime/text/bpe_file.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/text/bpe.h"
#include "runtime/text/tokenizer_json.h"

/* ---- merges ----------------------------------------------------------------------------------------------------- */

/* where: "merges.txt, line 7". Both parts and their concatenation must be tokens. */
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
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: merge '%.*s %.*s' occurs twice", where, (int)na, a, (int)nb, b));
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

sl_status sl__bpe_read_merges(const char *path, sl_tokenizer *t) {
  char *text, *line, where[4300];
  size_t bytes, n, room = 0;
  SL_TRY(sl_file_read(path, SL__TOKENIZER_FILE_MOST, &text, &bytes));
  sl_status status = SL_OK;
  int number = 0;
  for (char *at = text; status == SL_OK && sl__next_line(&at, text + bytes, &line, &n);) {
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
  if (!json_is_array(merges)) return sl_fail(SL_EFORMAT, "%s: model.merges must be a list", path);
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

static sl_status read_bpe(const char *path, const json_t *root, const json_t *model, sl_tokenizer *t) {
  static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  static const char *const switches[] = {"model.byte_fallback", "model.ignore_merges"};
  const json_t *words = json_object_get(root, "pre_tokenizer"), *dropout = json_object_get(model, "dropout");
  int fuse = 0;
  if (!sl__json_null(json_object_get(root, "normalizer")))
    return sl__unsupported(path, "normalizer", sl__json_type(json_object_get(root, "normalizer")));
  if (strcmp(sl__json_type(words), "ByteLevel") != 0)
    return sl__unsupported(path, "pre_tokenizer", sl__json_type(words));
  t->prefix_space = 1;
  SL_TRY(sl__json_flag(path, words, "pre_tokenizer.add_prefix_space", &t->prefix_space));
  SL_TRY(sl__json_flag(path, words, "pre_tokenizer.use_regex", &t->words_by_pattern));
  if (!sl__json_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
    return sl__unsupported(path, "model.dropout", "a number");
  for (int i = 0; i < 2; i++) {
    const char *affix = json_string_value(json_object_get(model, affixes[i]));
    int on = 0;
    if (affix && *affix) return sl__unsupported(path, affixes[i], affix);
    SL_TRY(sl__json_flag(path, model, switches[i], &on));
    if (on) return sl__unsupported(path, switches[i], "true");
  }
  SL_TRY(sl__unknown_of(path, model, t));
  SL_TRY(sl__json_flag(path, model, "model.fuse_unk", &fuse));
  if (fuse && t->unknown >= 0) return sl__unsupported(path, "model.fuse_unk", "true");
  SL_TRY(merges_of(path, json_object_get(model, "merges"), t));
  sl__bpe_bytes(t);
  return SL_OK;
}

static json_t *merges_list(const sl_tokenizer *t) {
  json_t *list = json_array();
  for (size_t rank = 0; list && rank < t->merges.n; rank++) {
    json_t *a = sl__json_name(t, (size_t)(t->merges.key[rank] >> 32)),
           *b = sl__json_name(t, (size_t)(t->merges.key[rank] & UINT32_MAX));
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
  json_t *unknown = t->unknown >= 0 ? sl__json_name(t, (size_t)t->unknown) : json_null();
  json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", t->prefix_space,
                            "trim_offsets", 1, "use_regex", t->words_by_pattern);
  json_t *root =
      json_pack("{s:s, s:n, s:n, s:o, s:n, s:O, s:O, s:O, s:{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:O, s:o}}",
                "version", "1.0", "truncation", "padding", "added_tokens", sl__json_added(t), "normalizer",
                "pre_tokenizer", bytes, "post_processor", bytes, "decoder", bytes, "model", "type", "BPE", "dropout",
                "unk_token", unknown, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback",
                0, "ignore_merges", 0, "vocab", vocab, "merges", merges_list(t));
  json_decref(bytes);
  return root;
}

const sl__tokenizer_kind sl__bpe = {
    .type = "BPE",
    .stretch = sl__bpe_stretch,
    .word = sl__bpe_word,
    .text = sl__bpe_text,
    .read = read_bpe,
    .write = bpe_root,
};

/* ---- plain bytes ------------------------------------------------------------------------------------------------ */

static sl_status bytes_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids) {
  (void)t;
  if (!sl__grow(&ids->id, &ids->room, ids->n + n, sizeof *ids->id)) return sl_no_memory("for %zu bytes of text", n);
  for (size_t i = 0; i < n; i++) ids->id[ids->n++] = (unsigned char)text[i];
  return SL_OK;
}

static size_t bytes_text(const sl_tokenizer *t, int32_t id, const char *name, size_t n, int first, char *out) {
  (void)t, (void)name, (void)n, (void)first;
  *out = (char)id;
  return 1;
}

static const sl__tokenizer_kind bytes = {
    .cut_anywhere = 1,
    .stretch = bytes_stretch,
    .text = bytes_text,
    .write = bpe_root,
};

sl_status sl__bytes_new(sl_tokenizer **tokenizer) {
  uint32_t id;
  char name[2];
  SL_TRY(sl__tokenizer_new(&bytes, tokenizer));
  (*tokenizer)->words_by_pattern = 0;
  sl_status status = SL_OK;
  for (int byte = 0; byte < 256 && status == SL_OK; byte++)
    status = sl__strings_add(&(*tokenizer)->names, name, sl__byte_name((unsigned char)byte, name), &id);
  if (status == SL_OK) return SL_OK;
  sl_tokenizer_close(*tokenizer);
  *tokenizer = NULL;
  return status;
}
