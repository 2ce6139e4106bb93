/* The tokenizer as its users see it: added tokens found first, words remembered, ids checked and turned back. */
#include "runtime/text/tokenizer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenizer_parts.h"

/* Words remembered: 2^20 of at most 64 bytes, so at most some 100 MB. */
enum { MOST_WORDS = 1 << 20, MOST_WORD_BYTES = 64 };

sl_status sl__ids_add(sl__ids *ids, int32_t id) {
  if (!sl__grow(&ids->id, &ids->room, ids->n + 1, sizeof *ids->id)) return sl_no_memory("for a tokenizer");
  ids->id[ids->n++] = id;
  return SL_OK;
}

static sl_status ids_append(sl__ids *ids, const int32_t *more, size_t n) {
  if (!sl__grow(&ids->id, &ids->room, ids->n + n, sizeof *ids->id)) return sl_no_memory("for a tokenizer");
  memcpy(ids->id + ids->n, more, n * sizeof *more);
  ids->n += n;
  return SL_OK;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

sl_status sl__tokenizer_new(sl__tokenizer_kind kind, sl_tokenizer **result) {
  *result = NULL;
  sl_tokenizer *t = calloc(1, sizeof *t);
  if (!t) return sl_no_memory("for a tokenizer");
  t->kind = kind, t->unknown = -1, t->words_by_pattern = 1;
  sl_status status = sl__strings_init(&t->names);
  if (status == SL_OK) status = sl__strings_init(&t->words);
  if (status == SL_OK) status = sl__pairs_init(&t->merges);
  if (status != SL_OK) {
    sl_tokenizer_close(t);
    return status;
  }
  *result = t;
  return SL_OK;
}

sl_status sl__tokenizer_add(sl_tokenizer *t, int32_t id, const char *text, sl__added flags) {
  sl__added *more = realloc(t->added, (t->n_added + 1) * sizeof *more);
  if (!more) return sl_no_memory("for a tokenizer");
  t->added = more;
  flags.id = id, flags.n = strlen(text), flags.text = strdup(text);
  if (!flags.text) return sl_no_memory("for a tokenizer");
  t->added[t->n_added++] = flags;
  return SL_OK;
}

sl_status sl__tokenizer_finish(sl_tokenizer *t) {
  t->cut_before[0] = 1, t->cut_before[1] = !t->prefix_space;
  if (!t->words_by_pattern) t->cut_before[0] = t->cut_before[1] = 0;
  for (size_t i = 0; i < t->names.n; i++) {
    size_t n;
    sl__strings_get(&t->names, i, &n);
    if (n > t->longest) t->longest = n;
  }
  for (size_t i = 0; i < t->n_added; i++) {
    sl__added *a = &t->added[i];
    if (a->normalized && t->kind == SL__WORDPIECE) {
      size_t n;
      SL_TRY(sl__wordpiece_normalize(t, a->text, a->n, &n));
      char *text = malloc(n + 1);
      if (!text) return sl_no_memory("for a tokenizer");
      memcpy(text, t->buffer, n);
      text[n] = 0;
      free(a->text);
      a->text = text, a->n = n;
    }
    if (a->n == 0) continue;
    t->added_first[a->normalized][(unsigned char)a->text[0]] = 1;
    t->added_last[(unsigned char)a->text[a->n - 1]] = 1;
    if (memchr(a->text + 1, ' ', a->n - 1)) t->cut_before[0] = 0;
    if (memchr(a->text + 1, '\n', a->n - 1)) t->cut_before[1] = 0;
  }
  return SL_OK;
}

void sl_tokenizer_close(sl_tokenizer *t) {
  if (!t) return;
  for (size_t i = 0; i < t->n_added; i++) free(t->added[i].text);
  sl__strings_clear(&t->names), sl__strings_clear(&t->words), sl__pairs_clear(&t->merges);
  free(t->added), free(t->merged), free(t->prefix), free(t->known_end), free(t->known.id);
  free(t->symbols), free(t->heap), free(t->buffer), free(t->points), free(t);
}

int64_t sl_tokenizer_vocabulary(const sl_tokenizer *t) { return t->kind == SL__BYTES ? 256 : (int64_t)t->names.n; }

int32_t sl_tokenizer_special(const sl_tokenizer *t, sl_special which) {
  static const char *const names[][3] = {
      [SL_SPECIAL_END] = {"<|endoftext|>", "</s>", "<|end_of_text|>"},
      [SL_SPECIAL_MASK] = {"[MASK]", "<mask>"},
      [SL_SPECIAL_UNKNOWN] = {"[UNK]", "<unk>"},
      [SL_SPECIAL_CLS] = {"[CLS]", "<s>"},
      [SL_SPECIAL_SEP] = {"[SEP]", "</s>"},
      [SL_SPECIAL_PAD] = {"[PAD]", "<pad>"},
  };
  if (t->kind == SL__BYTES) return -1;
  if (which == SL_SPECIAL_UNKNOWN && t->unknown >= 0) return t->unknown;
  for (int i = 0; i < 3 && names[which][i]; i++) {
    const int64_t id = sl__strings_find(&t->names, names[which][i], strlen(names[which][i]));
    if (id >= 0) return (int32_t)id;
  }
  return -1;
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

sl_status sl__word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids) {
  const int64_t known = n <= MOST_WORD_BYTES ? sl__strings_find(&t->words, word, n) : -1;
  if (known >= 0) {
    const size_t begin = known ? t->known_end[known - 1] : 0;
    return ids_append(ids, t->known.id + begin, t->known_end[known] - begin);
  }
  const size_t before = ids->n;
  SL_TRY(t->kind == SL__BPE ? sl__bpe_word(t, word, n, ids) : sl__wordpiece_word(t, word, n, ids));
  if (n > MOST_WORD_BYTES || t->words.n >= MOST_WORDS) return SL_OK;
  uint32_t number;
  if (!sl__grow(&t->known_end, &t->known_room, t->words.n + 1, sizeof *t->known_end))
    return sl_no_memory("for a tokenizer");
  SL_TRY(ids_append(&t->known, ids->id + before, ids->n - before));
  const sl_status status = sl__strings_add(&t->words, word, n, &number);
  if (status == SL_OK)
    t->known_end[number] = t->known.n;
  else
    t->known.n -= ids->n - before;
  return status;
}

static size_t last_character(const char *text, size_t n) { /* where it begins; n > 0 */
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

/* What no plain added token took: normalised, and searched for the others. */
static sl_status encode_rest(sl_tokenizer *t, const char *text, size_t bytes, int normalized, sl__ids *ids) {
  if (bytes == 0) return SL_OK;
  if (normalized)
    return t->kind == SL__BPE ? sl__bpe_stretch(t, text, bytes, ids) : sl__wordpiece_stretch(t, text, bytes, ids);
  if (t->kind == SL__WORDPIECE) {
    SL_TRY(sl__wordpiece_normalize(t, text, bytes, &bytes));
    text = t->buffer;
  }
  return encode_stretch(t, text, bytes, 1, ids);
}

/* The leftmost and there the longest added token is taken, then the rest; as Hugging Face's AddedVocabulary does. */
static sl_status encode_stretch(sl_tokenizer *t, const char *text, size_t bytes, int normalized, sl__ids *ids) {
  const unsigned char *first = t->added_first[normalized];
  size_t done = 0;
  for (size_t at = 0; at < bytes; at++) {
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
  if (!sl__grow(&ids.id, &ids.room, t->kind == SL__BYTES ? bytes : bytes / 3, sizeof *ids.id))
    return sl_no_memory("for a tokenizer");
  if (t->kind == SL__BYTES)
    for (; ids.n < bytes; ids.n++) ids.id[ids.n] = (unsigned char)text[ids.n];
  else
    status = encode_stretch(t, text, bytes, 0, &ids);
  if (status != SL_OK) {
    free(ids.id);
    return status;
  }
  *tokens = ids.id, *n = ids.n;
  return SL_OK;
}

/* White space behind something visible ends a word and whatever it belongs to; an added token that takes the white
 * space behind it might end there. */
size_t sl_tokenizer_cut(const sl_tokenizer *t, const char *text, size_t bytes) {
  if (t->kind == SL__BYTES) return bytes > 1 ? bytes - 1 : 0;
  for (size_t at = bytes; at-- > 1;) {
    const unsigned char before = (unsigned char)text[at - 1];
    if (((text[at] == ' ' && t->cut_before[0]) || (text[at] == '\n' && t->cut_before[1])) && before > 32 &&
        before < 127 && !t->added_last[before])
      return at;
  }
  return 0;
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static int is_added(const sl_tokenizer *t, int32_t id) {
  for (size_t i = 0; i < t->n_added; i++)
    if (t->added[i].id == id) return 1;
  return 0;
}

sl_status sl_tokenizer_decode(const sl_tokenizer *t, const int32_t *tokens, size_t n, char **text, size_t *bytes) {
  char *out = NULL;
  size_t used = 0, room = 0;
  *text = NULL, *bytes = 0;
  if (!sl__grow(&out, &room, n + 1, 1)) return sl_no_memory("for a tokenizer");
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= sl_tokenizer_vocabulary(t)) {
      free(out);
      return sl_fail(SL_EINVAL, "token %zu is %d, and the vocabulary has %lld", i, (int)tokens[i],
                     (long long)sl_tokenizer_vocabulary(t));
    }
    if (t->kind == SL__BYTES) {
      out[used++] = (char)tokens[i];
      continue;
    }
    size_t length;
    const char *name = sl__strings_get(&t->names, (size_t)tokens[i], &length);
    if (!sl__grow(&out, &room, used + length + 2 + (n - i), 1)) {
      free(out);
      return sl_no_memory("for a tokenizer");
    }
    if (t->kind == SL__BPE) {
      const int64_t got = is_added(t, tokens[i]) ? -1 : sl__bytes_of_name(name, length, out + used);
      if (got < 0) memcpy(out + used, name, length);
      used += got < 0 ? length : (size_t)got;
      continue;
    }
    const int goes_on = i > 0 && length >= t->prefix_bytes && memcmp(name, t->prefix, t->prefix_bytes) == 0;
    if (i > 0 && !goes_on) out[used++] = ' ';
    memcpy(out + used, name + (goes_on ? t->prefix_bytes : 0), length - (goes_on ? t->prefix_bytes : 0));
    used += length - (goes_on ? t->prefix_bytes : 0);
  }
  out[used] = 0;
  *text = out, *bytes = used;
  return SL_OK;
}
