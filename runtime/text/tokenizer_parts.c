/* Parts that all kinds of tokenizers share: making and closing one, and its memory of words. */
#include "runtime/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* At most 2^20 words of at most 64 bytes are remembered: about 100 MB. */
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

sl_status sl__tokenizer_new(const sl__tokenizer_kind *kind, sl_tokenizer **result) {
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
    if (a->normalized && t->kind->normalize) {
      size_t n;
      SL_TRY(t->kind->normalize(t, a->text, a->n, &n));
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

sl_status sl__word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids) {
  const int64_t known = n <= MOST_WORD_BYTES ? sl__strings_find(&t->words, word, n) : -1;
  if (known >= 0) {
    const size_t begin = known ? t->known_end[known - 1] : 0;
    return ids_append(ids, t->known.id + begin, t->known_end[known] - begin);
  }
  const size_t before = ids->n;
  SL_TRY(t->kind->word(t, word, n, ids));
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
