/* Byte-level byte-pair encoding (GPT-2): cuts text into words by GPT-2's pattern, then merges pairs by rank. A word's
 * symbols are a linked list and its possible merges a heap, so a word of n bytes takes O(n log n). */
#include "runtime/text/bpe.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes as characters ---------------------------------------------------------------------------------------- */

/* Printable bytes of Latin-1 stay as they are; the other 68, in order, become U+0100, U+0101 and so on. */
static int printable(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; }

static int unprintable_before(int byte) { return byte < 33 ? byte : byte < 161 ? 33 + (byte - 127) : 33 + 34; }

size_t sl__byte_name(unsigned char byte, char text[2]) {
  const int c = printable(byte) ? byte : 0x100 + unprintable_before(byte);
  if (c < 0x80) {
    text[0] = (char)c;
    return 1;
  }
  text[0] = (char)(0xc0 | c >> 6), text[1] = (char)(0x80 | (c & 0x3f));
  return 2;
}

static int byte_of(int32_t c) {
  if (c >= 0 && c < 0x100) return printable(c) ? c : -1;
  const int k = c - 0x100;
  return c < 0 || k > 67 ? -1 : k < 33 ? k : k < 67 ? 127 + (k - 33) : 173;
}

/* Writes the bytes that a name's characters stand for (room for n) and returns their number; -1: it has other
 * characters. */
static int64_t bytes_of_name(const char *name, size_t n, char *bytes) {
  int64_t count = 0;
  for (size_t at = 0; at < n;) {
    int32_t c;
    at += sl__character(name + at, n - at, &c);
    const int byte = byte_of(c);
    if (byte < 0) return -1;
    bytes[count++] = (char)byte;
  }
  return count;
}

void sl__bpe_bytes(sl_tokenizer *t) {
  for (int byte = 0; byte < 256; byte++) {
    char name[2];
    t->byte_id[byte] = (int32_t)sl__strings_find(&t->names, name, sl__byte_name((unsigned char)byte, name));
  }
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

typedef enum { SPACE, LETTER, NUMBER, OTHER } character_class;

static character_class class_at(const char *text, size_t n, size_t *length) {
  int32_t c;
  *length = sl__character(text, n, &c);
  if (c < 0) return OTHER;
  if (c < 0x80)
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? LETTER : c >= '0' && c <= '9' ? NUMBER : sl__white(c) ? SPACE : OTHER;
  if (sl__white(c)) return SPACE;
  const utf8proc_category_t category = utf8proc_category(c);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return LETTER;
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO ? NUMBER : OTHER;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t sl__gpt2_word(const char *text, size_t n) {
  size_t length, at = 0;
  if (*text == '\'' && n > 1) {
    if (strchr("stmd", text[1]) && text[1]) return 2;
    if (n > 2 && (memcmp(text + 1, "re", 2) == 0 || memcmp(text + 1, "ve", 2) == 0 || memcmp(text + 1, "ll", 2) == 0))
      return 3;
  }
  character_class class = class_at(text, n, &length);
  if (*text == ' ' && n > 1) {
    const character_class behind = class_at(text + 1, n - 1, &length);
    if (behind != SPACE)
      class = behind, at = 1;
    else
      length = 1;
  }
  size_t last = at; /* where the run's last character begins */
  for (at += length; at < n && class_at(text + at, n - at, &length) == class; at += length) last = at;
  return class == SPACE && at < n && last > 0 ? last : at;
}

sl_status sl__bpe_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids) {
  if (t->prefix_space && n > 0 && *text != ' ') {
    if (!sl__grow(&t->buffer, &t->buffer_room, n + 1, 1)) return sl_no_memory("for %zu bytes of text", n);
    t->buffer[0] = ' ';
    memcpy(t->buffer + 1, text, n++);
    text = t->buffer;
  }
  if (!t->words_by_pattern) return n ? sl__word(t, text, n, ids) : SL_OK;
  for (size_t at = 0; at < n;) {
    const size_t word = sl__gpt2_word(text + at, n - at);
    SL_TRY(sl__word(t, text + at, word, ids));
    at += word;
  }
  return SL_OK;
}

/* ---- merges ----------------------------------------------------------------------------------------------------- */

/* A heap with the least key first; a key is rank, then position. */
static void push(uint64_t *heap, size_t *count, uint64_t key) {
  size_t i = (*count)++;
  for (; i > 0 && heap[(i - 1) / 2] > key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = key;
}

static uint64_t pop(uint64_t *heap, size_t *count) {
  const uint64_t least = heap[0], key = heap[--*count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < *count; i = child) {
    if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= key) break;
    heap[i] = heap[child];
  }
  heap[i] = key;
  return least;
}

static void rank_at(sl_tokenizer *t, int32_t at, size_t *waiting) {
  sl__symbol *s = &t->symbols[at];
  s->rank = s->next < 0 ? -1 : sl__pairs_find(&t->merges, sl__pair(s->id, t->symbols[s->next].id));
  if (s->rank >= 0) push(t->heap, waiting, (uint64_t)s->rank << 32 | (uint32_t)at);
}

sl_status sl__bpe_word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids) {
  enum { MOST = 1 << 30 };
  size_t waiting = 0;
  if (n > MOST) return sl_fail(SL_EINVAL, "a word of %zu bytes; %d are the most", n, MOST);
  if (!sl__grow(&t->symbols, &t->symbols_room, n, sizeof *t->symbols) ||
      !sl__grow(&t->heap, &t->heap_room, 3 * n,
                sizeof *t->heap)) /* n - 1 at first, and at most two more for each merge */
    return sl_no_memory("for a word of %zu bytes", n);
  for (size_t i = 0; i < n; i++) {
    int32_t id = t->byte_id[(unsigned char)word[i]];
    if (id < 0) id = t->unknown;
    if (id < 0)
      return sl_fail(SL_EINVAL, "byte 0x%02x is not a token of this vocabulary, which has no unknown token either",
                     (unsigned char)word[i]);
    t->symbols[i] = (sl__symbol){id, (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1, -1};
  }
  for (size_t i = 0; i < n; i++) rank_at(t, (int32_t)i, &waiting);
  while (waiting > 0) {
    const uint64_t key = pop(t->heap, &waiting);
    const int32_t at = (int32_t)(key & UINT32_MAX), rank = (int32_t)(key >> 32);
    sl__symbol *s = &t->symbols[at];
    if (s->id < 0 || s->rank != rank) continue; /* its pair is gone */
    t->symbols[s->next].id = -1;
    s->id = t->merged[rank];
    s->next = t->symbols[s->next].next;
    if (s->next >= 0) t->symbols[s->next].previous = at;
    rank_at(t, at, &waiting);
    if (s->previous >= 0) rank_at(t, s->previous, &waiting);
  }
  for (int32_t i = 0; i >= 0; i = t->symbols[i].next) SL_TRY(sl__ids_add(ids, t->symbols[i].id));
  return SL_OK;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static int is_added(const sl_tokenizer *t, int32_t id) {
  for (size_t i = 0; i < t->n_added; i++)
    if (t->added[i].id == id) return 1;
  return 0;
}

size_t sl__bpe_text(const sl_tokenizer *t, int32_t id, const char *name, size_t n, int first, char *out) {
  (void)first;
  const int64_t got = is_added(t, id) ? -1 : bytes_of_name(name, n, out);
  if (got >= 0) return (size_t)got;
  memcpy(out, name, n);
  return n;
}
