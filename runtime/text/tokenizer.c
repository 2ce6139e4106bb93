/* The tokenizer's public functions: they find added tokens, pass the text between them to the kind of tokenizer, and
 * check ids before decoding. */
#include "runtime/text/tokenizer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenizer_parts.h"

int64_t sl_tokenizer_vocabulary(const sl_tokenizer *t) { return (int64_t)t->names.n; }

int32_t sl_tokenizer_special(const sl_tokenizer *t, sl_special which) {
  static const char *const names[][3] = {
      [SL_SPECIAL_END] = {"<|endoftext|>", "</s>", "<|end_of_text|>"},
      [SL_SPECIAL_MASK] = {"[MASK]", "<mask>"},
      [SL_SPECIAL_UNKNOWN] = {"[UNK]", "<unk>"},
      [SL_SPECIAL_CLS] = {"[CLS]", "<s>"},
      [SL_SPECIAL_SEP] = {"[SEP]", "</s>"},
      [SL_SPECIAL_PAD] = {"[PAD]", "<pad>"},
  };
  if (which == SL_SPECIAL_UNKNOWN && t->unknown >= 0) return t->unknown;
  for (int i = 0; i < 3 && names[which][i]; i++) {
    const int64_t id = sl__strings_find(&t->names, names[which][i], strlen(names[which][i]));
    if (id >= 0) return (int32_t)id;
  }
  return -1;
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

static size_t last_character(const char *text, size_t n) { /* the position of the last character; n > 0 */
  size_t at = n - 1;
  while (at > 0 && n - at < 4 && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
  return at;
}

static int is_word_character(int32_t c) { /* \w */
  if (c < 0x80) return c == '_' || (c >= 0 && isalnum(c));
  const utf8proc_category_t k = utf8proc_category(c);
  return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC;
}

static int stands_alone(const char *text, size_t bytes, size_t from, size_t to) {
  int32_t c;
  if (from > 0) {
    const size_t at = last_character(text, from);
    sl__character(text + at, from - at, &c);
    if (is_word_character(c)) return 0;
  }
  if (to < bytes) {
    sl__character(text + to, bytes - to, &c);
    if (is_word_character(c)) return 0;
  }
  return 1;
}

static sl_status encode_stretch(sl_tokenizer *t, const char *text, size_t bytes, int normalized, sl__ids *ids);

/* Encodes the text between added tokens: normalises it, finds the added tokens that are normalised too, and passes the
 * rest to the kind. */
static sl_status encode_rest(sl_tokenizer *t, const char *text, size_t bytes, int normalized, sl__ids *ids) {
  if (bytes == 0) return SL_OK;
  if (normalized) return t->kind->stretch(t, text, bytes, ids);
  if (t->kind->normalize) {
    SL_TRY(t->kind->normalize(t, text, bytes, &bytes));
    text = t->buffer;
  }
  return encode_stretch(t, text, bytes, 1, ids);
}

/* Takes the leftmost added token, the longest at that place, then goes on after it, as Hugging Face's AddedVocabulary
 * does. */
static sl_status encode_stretch(sl_tokenizer *t, const char *text, size_t bytes, int normalized, sl__ids *ids) {
  const unsigned char *first = t->added_first[normalized];
  size_t done = 0;
  for (size_t at = 0; at < bytes && t->n_added; at++) {
    const sl__added *best = NULL;
    if (!first[(unsigned char)text[at]]) continue;
    for (size_t i = 0; i < t->n_added; i++) {
      const sl__added *a = &t->added[i];
      if (a->normalized == normalized && a->n > 0 && a->n <= bytes - at && (!best || a->n > best->n) &&
          memcmp(text + at, a->text, a->n) == 0)
        best = a;
    }
    if (!best) continue;
    size_t from = at, to = at + best->n;
    at = to - 1;
    if (from < done || (best->single_word && !stands_alone(text, bytes, from, to))) continue;
    int32_t c;
    while (best->lstrip && from > done) {
      const size_t last = done + last_character(text + done, from - done);
      sl__character(text + last, from - last, &c);
      if (!sl__white(c)) break;
      from = last;
    }
    for (size_t length; best->rstrip && to < bytes; to += length) {
      length = sl__character(text + to, bytes - to, &c);
      if (!sl__white(c)) break;
    }
    SL_TRY(encode_rest(t, text + done, from - done, normalized, ids));
    SL_TRY(sl__ids_add(ids, best->id));
    done = to;
  }
  return encode_rest(t, text + done, bytes - done, normalized, ids);
}

sl_status sl_tokenizer_encode(sl_tokenizer *t, const char *text, size_t bytes, int32_t **tokens, size_t *n) {
  sl__ids ids = {0};
  sl_status status = SL_OK;
  *tokens = NULL, *n = 0;
  if (!sl__grow(&ids.id, &ids.room, bytes / 3 + 1, sizeof *ids.id)) return sl_no_memory("for %zu bytes of text", bytes);
  status = encode_stretch(t, text, bytes, 0, &ids);
  if (status != SL_OK) {
    free(ids.id);
    return status;
  }
  *tokens = ids.id, *n = ids.n;
  return SL_OK;
}

static int is_visible(const char *text, size_t n) { /* the last character */
  int32_t c;
  const size_t at = last_character(text, n);
  return sl__character(text + at, n - at, &c) == n - at && c > 0 && !sl__white(c);
}

size_t sl__cut_before_space(const char *text, size_t bytes, const int *kinds, const unsigned char *not_after) {
  for (size_t at = bytes; at-- > 1;) {
    const unsigned char last = (unsigned char)text[at - 1];
    if (!((text[at] == ' ' && kinds[0]) || (text[at] == '\n' && kinds[1])) || not_after[last]) continue;
    if (last < 128 ? last > 32 && last < 127 : is_visible(text, at)) return at;
  }
  return 0;
}

/* Text may be cut before white space that follows a visible character, because a word ends there. Exception: an added
 * token that includes the white space after it. */
size_t sl_tokenizer_cut(const sl_tokenizer *t, const char *text, size_t bytes) {
  if (t->kind->cut_anywhere) return bytes > 1 ? bytes - 1 : 0;
  return sl__cut_before_space(text, bytes, t->cut_before, t->added_last);
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

sl_status sl_tokenizer_decode(const sl_tokenizer *t, const int32_t *tokens, size_t n, char **text, size_t *bytes) {
  char *out = NULL;
  size_t used = 0, room = 0;
  *text = NULL, *bytes = 0;
  if (!sl__grow(&out, &room, n + 1, 1)) return sl_no_memory("for a tokenizer");
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= sl_tokenizer_vocabulary(t)) {
      free(out);
      return sl_fail(SL_EINVAL, "token %zu is %d, but the vocabulary has %lld tokens", i, (int)tokens[i],
                     (long long)sl_tokenizer_vocabulary(t));
    }
    size_t length;
    const char *name = sl__strings_get(&t->names, (size_t)tokens[i], &length);
    if (!sl__grow(&out, &room, used + length + 2 + (n - i), 1)) {
      free(out);
      return sl_no_memory("for the text of %zu tokens", n);
    }
    used += t->kind->text(t, tokens[i], name, length, i == 0, out + used);
  }
  out[used] = 0;
  *text = out, *bytes = used;
  return SL_OK;
}
