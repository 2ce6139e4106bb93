/* Reads and writes a WordPiece's files: vocab.txt with the tokenizer_config.json beside it, and its part of a
 * tokenizer.json. Defines the kind. */
#include "runtime/text/wordpiece_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/wordpiece.h"

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
  if (!sl__json_null(normalizer)) {
    if (strcmp(sl__json_type(normalizer), "BertNormalizer") != 0)
      return sl__unsupported(path, "normalizer", sl__json_type(normalizer));
    t->clean = t->chinese = t->lower = 1;
    SL_TRY(sl__json_flag(path, normalizer, "normalizer.clean_text", &t->clean));
    SL_TRY(sl__json_flag(path, normalizer, "normalizer.handle_chinese_chars", &t->chinese));
    SL_TRY(sl__json_flag(path, normalizer, "normalizer.lowercase", &t->lower));
    t->strip_accents = t->lower;
    SL_TRY(sl__json_flag(path, normalizer, "normalizer.strip_accents", &t->strip_accents));
  }
  if (strcmp(sl__json_type(words), "BertPreTokenizer") != 0)
    return sl__unsupported(path, "pre_tokenizer", sl__json_type(words));
  if (!sl__json_null(prefix) && !json_is_string(prefix))
    return sl_fail(SL_EFORMAT, "%s: model.continuing_subword_prefix is not text", path);
  if (!sl__json_null(most) && (!json_is_integer(most) || json_integer_value(most) < 0))
    return sl_fail(SL_EFORMAT, "%s: model.max_input_chars_per_word is not a whole number", path);
  t->most_characters = sl__json_null(most) ? 100 : json_integer_value(most);
  SL_TRY(set_prefix(path, sl__json_null(prefix) ? "##" : json_string_value(prefix), t));
  SL_TRY(sl__unknown_of(path, model, t));
  return t->unknown < 0 ? sl_fail(SL_EFORMAT, "%s: model.unk_token is missing, which WordPiece needs", path) : SL_OK;
}

static json_t *wordpiece_root(const sl_tokenizer *t, json_t *vocab) {
  const int64_t cls = sl__strings_find(&t->names, "[CLS]", 5), sep = sl__strings_find(&t->names, "[SEP]", 5);
  json_t *around = cls >= 0 && sep >= 0 ? json_pack("{s:s, s:[s, I], s:[s, I]}", "type", "BertProcessing", "sep",
                                                    "[SEP]", (json_int_t)sep, "cls", "[CLS]", (json_int_t)cls)
                                        : json_null();
  return json_pack(
      "{s:s, s:n, s:n, s:o, s:{s:s, s:b, s:b, s:b, s:b}, s:{s:s}, s:o, s:{s:s, s:s, s:b}, s:{s:s, s:o, s:s, s:I, s:O}}",
      "version", "1.0", "truncation", "padding", "added_tokens", sl__json_added(t), "normalizer", "type",
      "BertNormalizer", "clean_text", t->clean, "handle_chinese_chars", t->chinese, "strip_accents", t->strip_accents,
      "lowercase", t->lower, "pre_tokenizer", "type", "BertPreTokenizer", "post_processor", around, "decoder", "type",
      "WordPiece", "prefix", t->prefix, "cleanup", 1, "model", "type", "WordPiece", "unk_token",
      sl__json_name(t, (size_t)t->unknown), "continuing_subword_prefix", t->prefix, "max_input_chars_per_word",
      (json_int_t)t->most_characters, "vocab", vocab);
}

const sl__tokenizer_kind sl__wordpiece = {
    .type = "WordPiece",
    .normalize = sl__wordpiece_normalize,
    .stretch = sl__wordpiece_stretch,
    .word = sl__wordpiece_word,
    .text = sl__wordpiece_text,
    .read = read_wordpiece,
    .write = wordpiece_root,
};

/* ---- vocab.txt -------------------------------------------------------------------------------------------------- */

static int has_capitals(const char *name, size_t n) {
  if (n > 0 && (*name == '[' || *name == '<')) return 0;
  for (size_t i = 0; i < n; i++)
    if (name[i] >= 'A' && name[i] <= 'Z') return 1;
  return 0;
}

/* Reads the tokenizer_config.json beside vocab.txt, if there is one: it says how text is normalised. */
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
  SL_TRY_OUT(sl__json_flag(path, root, "do_lower_case", &t->lower));
  t->strip_accents = t->lower;
  SL_TRY_OUT(sl__json_flag(path, root, "strip_accents", &t->strip_accents));
  SL_TRY_OUT(sl__json_flag(path, root, "tokenize_chinese_chars", &t->chinese));
out:
  json_decref(root);
  return status;
}

sl_status sl__wordpiece_open(const char *path, sl_tokenizer **result) {
  static const char *const specials[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", NULL};
  char *text = NULL, *line;
  size_t bytes, n;
  sl_tokenizer *t = NULL;
  SL_TRY(sl_file_read(path, SL__TOKENIZER_FILE_MOST, &text, &bytes));
  sl_status status = SL_OK;
  SL_TRY_OUT(sl__tokenizer_new(&sl__wordpiece, &t));
  t->clean = t->chinese = t->lower = 1, t->most_characters = 100;
  SL_TRY_OUT(set_prefix(path, "##", t));
  for (char *at = text; sl__next_line(&at, text + bytes, &line, &n);) {
    const size_t before = t->names.n;
    uint32_t number;
    if (n == 0 || memchr(line, 0, n))
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s, line %zu: the line %s; each line must be a token", path, before + 1,
                         n ? "has a NUL character" : "is empty"));
    SL_TRY_OUT(sl__strings_add(&t->names, line, n, &number));
    if (number != before)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s, line %zu: token '%.*s' is already in line %u", path, before + 1, (int)n, line,
                         (unsigned)number + 1));
    if (has_capitals(line, n)) t->lower = 0;
  }
  t->unknown = (int32_t)sl__strings_find(&t->names, "[UNK]", 5);
  if (t->unknown < 0)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: has no [UNK]; is it a WordPiece vocabulary, a token a line?", path));
  SL_TRY_OUT(read_config(path, t));
  SL_TRY_OUT(sl__add_specials(t, specials));
  SL_TRY_OUT(sl__tokenizer_finish(t));
  *result = t, t = NULL;
out:
  sl_tokenizer_close(t);
  free(text);
  return status;
}
