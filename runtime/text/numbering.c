/* Hash tables that number byte strings and pairs. Their sizes are powers of two; they are at most half full and probed
 * linearly. */
#include "runtime/text/numbering.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

int sl__grow(void *pointer, size_t *room, size_t n, size_t element) {
  if (n <= *room) return 1;
  size_t more = *room + *room / 2 + 64;
  if (more < n) more = n;
  if (more > SIZE_MAX / 2 / element) return 0;
  void *larger = realloc(*(void **)pointer, more * element);
  if (!larger) return 0;
  *(void **)pointer = larger;
  *room = more;
  return 1;
}

sl_status sl__strings_init(sl__strings *s) {
  memset(s, 0, sizeof *s);
  s->slots = 1024;
  s->table = calloc(s->slots, sizeof *s->table);
  if (!s->table || !sl__grow(&s->start, &s->room, 2, sizeof *s->start)) return sl_no_memory("for a tokenizer's tables");
  s->start[0] = 0;
  return SL_OK;
}

void sl__strings_clear(sl__strings *s) {
  free(s->start), free(s->bytes), free(s->table);
  memset(s, 0, sizeof *s);
}

const char *sl__strings_get(const sl__strings *s, size_t number, size_t *n) {
  *n = s->start[number + 1] - s->start[number];
  return s->bytes ? s->bytes + s->start[number] : "";
}

/* The slot that holds the string, or the free one where it belongs. */
static size_t slot_of(const sl__strings *s, const char *bytes, size_t n, uint64_t hash) {
  const uint32_t tag = (uint32_t)(hash >> 32);
  for (size_t slot = hash & (s->slots - 1);; slot = (slot + 1) & (s->slots - 1)) {
    const uint32_t number = s->table[slot].number;
    if (!number) return slot;
    if (s->table[slot].tag != tag) continue;
    size_t length;
    const char *there = sl__strings_get(s, number - 1, &length);
    if (length == n && (n == 0 || memcmp(there, bytes, n) == 0)) return slot;
  }
}

int64_t sl__strings_find(const sl__strings *s, const char *bytes, size_t n) {
  return (int64_t)s->table[slot_of(s, bytes, n, XXH3_64bits(bytes, n))].number - 1;
}

static sl_status double_strings(sl__strings *s) {
  sl__strings wide = *s;
  wide.slots = 2 * s->slots;
  wide.table = calloc(wide.slots, sizeof *wide.table);
  if (!wide.table) return sl_no_memory("for a tokenizer's tables");
  for (size_t i = 0; i < s->n; i++) {
    size_t n;
    const char *bytes = sl__strings_get(s, i, &n);
    const uint64_t hash = XXH3_64bits(bytes, n);
    size_t slot = hash & (wide.slots - 1);
    while (wide.table[slot].number) slot = (slot + 1) & (wide.slots - 1);
    wide.table[slot].number = (uint32_t)i + 1, wide.table[slot].tag = (uint32_t)(hash >> 32);
  }
  free(s->table);
  *s = wide;
  return SL_OK;
}

sl_status sl__strings_add(sl__strings *s, const char *bytes, size_t n, uint32_t *number) {
  const uint64_t hash = XXH3_64bits(bytes, n);
  size_t slot = slot_of(s, bytes, n, hash);
  if (s->table[slot].number) {
    *number = s->table[slot].number - 1;
    return SL_OK;
  }
  if (s->n + 2 >= UINT32_MAX) return sl_no_memory("for a tokenizer's tables");
  if (2 * (s->n + 1) > s->slots) {
    SL_TRY(double_strings(s));
    slot = slot_of(s, bytes, n, hash);
  }
  const size_t used = s->start[s->n];
  if (n > SIZE_MAX - used || !sl__grow(&s->start, &s->room, s->n + 2, sizeof *s->start) ||
      !sl__grow(&s->bytes, &s->bytes_room, used + n, 1))
    return sl_no_memory("for a tokenizer's tables");
  if (n) memcpy(s->bytes + used, bytes, n);
  *number = (uint32_t)s->n++;
  s->start[s->n] = used + n;
  s->table[slot].number = *number + 1, s->table[slot].tag = (uint32_t)(hash >> 32);
  return SL_OK;
}

/* Fibonacci hashing of the mixed halves. */
static size_t pair_slot(const sl__pairs *p, uint64_t pair) {
  uint64_t hash = (pair ^ (pair >> 32)) * 0x9e3779b97f4a7c15u;
  size_t slot = (hash ^ (hash >> 29)) & (p->slots - 1);
  while (p->table[slot] && p->key[p->table[slot] - 1] != pair) slot = (slot + 1) & (p->slots - 1);
  return slot;
}

sl_status sl__pairs_init(sl__pairs *p) {
  memset(p, 0, sizeof *p);
  p->slots = 1024;
  p->table = calloc(p->slots, sizeof *p->table);
  return p->table ? SL_OK : sl_no_memory("for a tokenizer's tables");
}

void sl__pairs_clear(sl__pairs *p) {
  free(p->key), free(p->table);
  memset(p, 0, sizeof *p);
}

int32_t sl__pairs_find(const sl__pairs *p, uint64_t pair) { return (int32_t)p->table[pair_slot(p, pair)] - 1; }

sl_status sl__pairs_add(sl__pairs *p, uint64_t pair, uint32_t *number) {
  size_t slot = pair_slot(p, pair);
  if (p->table[slot]) {
    *number = p->table[slot] - 1;
    return SL_OK;
  }
  if (p->n + 1 >= INT32_MAX || !sl__grow(&p->key, &p->room, p->n + 1, sizeof *p->key))
    return sl_no_memory("for a tokenizer's tables");
  if (2 * (p->n + 1) > p->slots) {
    uint32_t *wide = calloc(2 * p->slots, sizeof *wide);
    if (!wide) return sl_no_memory("for a tokenizer's tables");
    free(p->table);
    p->table = wide, p->slots *= 2;
    for (size_t i = 0; i < p->n; i++) p->table[pair_slot(p, p->key[i])] = (uint32_t)i + 1;
    slot = pair_slot(p, pair);
  }
  *number = (uint32_t)p->n;
  p->key[p->n++] = pair;
  p->table[slot] = *number + 1;
  return SL_OK;
}
