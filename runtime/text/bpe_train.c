/* Learns a byte-level BPE (Sennrich, Haddow and Birch 2016, algorithm 1). Equal words are counted once. A merge changes
 * only the counts of neighbouring pairs in the words that contain it, so its cost is proportional to its occurrences.
 * Counts in the heap may be outdated; an outdated one is pushed again with the present count. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/bpe.h"

enum { MOST_WORD_BYTES = 1024, END_BYTES = 13 };
static const char end_text[] = "<|endoftext|>";

typedef struct place_list { /* words that contain, or once contained, the pair */
  uint32_t *word;
  size_t n, room;
} place_list;

typedef struct waiting {
  int64_t count;
  uint64_t pair;
  uint32_t number;
} waiting;

struct sl_bpe_trainer {
  sl__strings words;
  int64_t *count; /* of each word */
  size_t count_room;

  sl_tokenizer *t; /* being made */
  int32_t *symbols;
  size_t *begin, *length; /* of each word, in symbols */
  sl__pairs pairs;
  int64_t *pair_count;
  place_list *places;
  size_t pair_count_room, places_room, places_n;
  waiting *heap;
  size_t heap_n, heap_room;
  size_t merged_room;
};

sl_status sl_bpe_trainer_create(sl_bpe_trainer **result) {
  *result = NULL;
  sl_bpe_trainer *r = calloc(1, sizeof *r);
  if (!r) return sl_no_memory("for learning a tokenizer");
  sl_status status = sl__strings_init(&r->words);
  if (status == SL_OK) status = sl__pairs_init(&r->pairs);
  if (status != SL_OK) {
    sl_bpe_trainer_destroy(r);
    return status;
  }
  *result = r;
  return SL_OK;
}

void sl_bpe_trainer_destroy(sl_bpe_trainer *r) {
  if (!r) return;
  for (size_t i = 0; i < r->places_n; i++) free(r->places[i].word);
  sl__strings_clear(&r->words), sl__pairs_clear(&r->pairs);
  sl_tokenizer_close(r->t);
  free(r->count), free(r->symbols), free(r->begin), free(r->length), free(r->pair_count), free(r->places),
      free(r->heap);
  free(r);
}

sl_status sl_bpe_trainer_add(sl_bpe_trainer *r, const char *text, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const char *end = memmem(text + at, bytes - at, end_text, END_BYTES);
    const size_t stop = end ? (size_t)(end - text) : bytes;
    while (at < stop) {
      const size_t n = sl__gpt2_word(text + at, stop - at), before = r->words.n;
      uint32_t word;
      SL_TRY(sl__strings_add(&r->words, text + at, n < MOST_WORD_BYTES ? n : MOST_WORD_BYTES, &word));
      if (word == before) {
        if (!sl__grow(&r->count, &r->count_room, before + 1, sizeof *r->count))
          return sl_no_memory("for learning a tokenizer");
        r->count[word] = 0;
      }
      r->count[word]++;
      at += n;
    }
    at = end ? stop + END_BYTES : bytes;
  }
  return SL_OK;
}

size_t sl_bpe_trainer_cut(const char *text, size_t bytes) {
  static const int both[] = {1, 1};
  static const unsigned char none[256];
  return sl__cut_before_space(text, bytes, both, none);
}

/* ---- the heap: most frequent first, then the smaller pair ------------------------------------------------------- */

static int before(const waiting *a, const waiting *b) {
  return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static sl_status push(sl_bpe_trainer *r, waiting w) {
  if (!sl__grow(&r->heap, &r->heap_room, r->heap_n + 1, sizeof *r->heap))
    return sl_no_memory("for learning a tokenizer");
  size_t i = r->heap_n++;
  for (; i > 0 && before(&w, &r->heap[(i - 1) / 2]); i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
  r->heap[i] = w;
  return SL_OK;
}

static waiting pop(sl_bpe_trainer *r) {
  const waiting first = r->heap[0], w = r->heap[--r->heap_n];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < r->heap_n; i = child) {
    if (child + 1 < r->heap_n && before(&r->heap[child + 1], &r->heap[child])) child++;
    if (!before(&r->heap[child], &w)) break;
    r->heap[i] = r->heap[child];
  }
  r->heap[i] = w;
  return first;
}

/* ---- counts ----------------------------------------------------------------------------------------------------- */

static sl_status count_pair(sl_bpe_trainer *r, int32_t first, int32_t second, int64_t change, uint32_t word) {
  const size_t known = r->pairs.n;
  uint32_t number;
  SL_TRY(sl__pairs_add(&r->pairs, sl__pair(first, second), &number));
  if (number == known) {
    if (!sl__grow(&r->pair_count, &r->pair_count_room, known + 1, sizeof *r->pair_count) ||
        !sl__grow(&r->places, &r->places_room, known + 1, sizeof *r->places))
      return sl_no_memory("for learning a tokenizer");
    r->pair_count[number] = 0;
    r->places[number] = (place_list){0};
    r->places_n = known + 1;
  }
  r->pair_count[number] += change;
  place_list *p = &r->places[number];
  if (change < 0 || (p->n > 0 && p->word[p->n - 1] == word)) return SL_OK;
  if (!sl__grow(&p->word, &p->room, p->n + 1, sizeof *p->word)) return sl_no_memory("for learning a tokenizer");
  p->word[p->n++] = word;
  return SL_OK;
}

/* Counts a pair once the heap exists. If the count of a pair with a number below `known` rose, pushes the pair again.
 */
static sl_status recount(sl_bpe_trainer *r, int32_t first, int32_t second, int64_t change, uint32_t word,
                         size_t known) {
  SL_TRY(count_pair(r, first, second, change, word));
  const int32_t number = sl__pairs_find(&r->pairs, sl__pair(first, second));
  if (change < 0 || (size_t)number >= known) return SL_OK;
  return push(r, (waiting){r->pair_count[number], sl__pair(first, second), (uint32_t)number});
}

static sl_status count_words(sl_bpe_trainer *r) {
  const size_t words = r->words.n;
  r->symbols = malloc((r->words.start[words] + 1) * sizeof *r->symbols);
  r->begin = malloc((words + 1) * sizeof *r->begin), r->length = malloc((words + 1) * sizeof *r->length);
  if (!r->symbols || !r->begin || !r->length) return sl_no_memory("for learning a tokenizer");
  for (size_t w = 0; w < words; w++) {
    const char *bytes = sl__strings_get(&r->words, w, &r->length[w]);
    r->begin[w] = r->words.start[w];
    int32_t *s = r->symbols + r->begin[w];
    for (size_t i = 0; i < r->length[w]; i++) {
      s[i] = r->t->byte_id[(unsigned char)bytes[i]];
      if (i > 0) SL_TRY(count_pair(r, s[i - 1], s[i], r->count[w], (uint32_t)w));
    }
  }
  for (size_t i = 0; i < r->pairs.n; i++) SL_TRY(push(r, (waiting){r->pair_count[i], r->pairs.key[i], (uint32_t)i}));
  return SL_OK;
}

/* Replaces each occurrence of the pair (first, second) in a word by `made`. */
static sl_status join_in(sl_bpe_trainer *r, uint32_t w, int32_t first, int32_t second, int32_t made, size_t known) {
  int32_t *s = r->symbols + r->begin[w];
  const size_t n = r->length[w];
  const int64_t count = r->count[w];
  size_t to = 0;
  for (size_t i = 0; i < n; i++, to++) {
    if (i + 1 >= n || s[i] != first || s[i + 1] != second) {
      s[to] = s[i];
      continue;
    }
    if (to > 0) {
      SL_TRY(recount(r, s[to - 1], first, -count, w, known));
      SL_TRY(recount(r, s[to - 1], made, count, w, known));
    }
    if (i + 2 < n) {
      SL_TRY(recount(r, second, s[i + 2], -count, w, known));
      SL_TRY(recount(r, made, s[i + 2], count, w, known));
    }
    s[to] = made;
    i++;
  }
  r->length[w] = to;
  return SL_OK;
}

/* Finds or adds the token whose text joins those of two tokens; another pair may have made this text already. */
static sl_status token_of(sl_bpe_trainer *r, int32_t first, int32_t second, uint32_t *made) {
  size_t na, nb;
  const char *a = sl__strings_get(&r->t->names, (size_t)first, &na),
             *b = sl__strings_get(&r->t->names, (size_t)second, &nb);
  char *both = malloc(na + nb + 1);
  if (!both) return sl_no_memory("for learning a tokenizer");
  memcpy(both, a, na);
  memcpy(both + na, b, nb);
  const sl_status status = sl__strings_add(&r->t->names, both, na + nb, made);
  free(both);
  return status;
}

static sl_status merge(sl_bpe_trainer *r, const waiting *w) {
  const int32_t first = (int32_t)(w->pair >> 32), second = (int32_t)(w->pair & UINT32_MAX);
  const size_t known = r->pairs.n;
  uint32_t made, rank;
  SL_TRY(token_of(r, first, second, &made));
  SL_TRY(sl__pairs_add(&r->t->merges, w->pair, &rank));
  if (!sl__grow(&r->t->merged, &r->merged_room, r->t->merges.n, sizeof *r->t->merged))
    return sl_no_memory("for learning a tokenizer");
  r->t->merged[rank] = (int32_t)made;
  place_list places = r->places[w->number];
  r->places[w->number] = (place_list){0};
  sl_status status = SL_OK;
  for (size_t i = 0; status == SL_OK && i < places.n; i++)
    status = join_in(r, places.word[i], first, second, (int32_t)made, known);
  free(places.word);
  r->pair_count[w->number] = 0;
  for (size_t i = known; status == SL_OK && i < r->pairs.n; i++)
    status = push(r, (waiting){r->pair_count[i], r->pairs.key[i], (uint32_t)i});
  return status;
}

sl_status sl_bpe_trainer_finish(sl_bpe_trainer *r, int64_t vocabulary, sl_tokenizer **tokenizer) {
  *tokenizer = NULL;
  if (vocabulary < 257 || vocabulary > INT32_MAX / 2)
    return sl_fail(SL_EINVAL, "a vocabulary of %lld is too small: 256 bytes and <|endoftext|> need 257",
                   (long long)vocabulary);
  if (r->t) return sl_fail(SL_EINVAL, "this trainer has already made its tokenizer");
  SL_TRY(sl__tokenizer_new(&sl__bpe, &r->t));
  uint32_t id;
  char name[2];
  for (int plain = 1; plain >= 0; plain--) /* printable bytes first, as in GPT-2's vocabulary */
    for (int byte = 0; byte < 256; byte++) {
      const size_t n = sl__byte_name((unsigned char)byte, name);
      const int other = n == 2 && (unsigned char)name[0] >= 0xc4; /* U+0100 and on */
      if (other != plain) SL_TRY(sl__strings_add(&r->t->names, name, n, &id));
    }
  sl__bpe_bytes(r->t);
  SL_TRY(count_words(r));
  while (r->heap_n > 0 && (int64_t)r->t->names.n < vocabulary - 1) {
    waiting w = pop(r);
    const int64_t now = r->pair_count[w.number];
    if (now != w.count) {
      w.count = now;
      if (now > 1) SL_TRY(push(r, w));
      continue;
    }
    if (w.count < 2) break;
    SL_TRY(merge(r, &w));
  }
  SL_TRY(sl__strings_add(&r->t->names, end_text, END_BYTES, &id));
  SL_TRY(sl__tokenizer_add(r->t, (int32_t)id, end_text, (sl__added){.special = 1}));
  SL_TRY(sl__tokenizer_finish(r->t));
  *tokenizer = r->t, r->t = NULL;
  return SL_OK;
}
