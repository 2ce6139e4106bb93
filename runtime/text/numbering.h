/* Numbers byte strings (tokens, words) and pairs of ids (merges) 0, 1, 2, ... in the order in which they are added. The
 * caller keeps its own data in arrays indexed by these numbers. Lookup is by hash tables with open addressing. */
#ifndef SL_NUMBERING_H
#define SL_NUMBERING_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct sl__strings {
  size_t n;
  size_t *start; /* [n + 1], into bytes */
  char *bytes;
  size_t room, bytes_room, slots;
  struct {
    uint32_t number, tag; /* number + 1, 0: free; tag: upper half of the hash */
  } * table;
} sl__strings;

sl_status sl__strings_init(sl__strings *strings);
void sl__strings_clear(sl__strings *strings);                                      /* a zeroed struct is allowed */
int64_t sl__strings_find(const sl__strings *strings, const char *bytes, size_t n); /* -1: not there */
/* Sets *number to the string's number. A new string gets the number strings->n had before the call. */
sl_status sl__strings_add(sl__strings *strings, const char *bytes, size_t n, uint32_t *number);
/* String `number` and its length; valid until the next _add. */
const char *sl__strings_get(const sl__strings *strings, size_t number, size_t *n);

typedef struct sl__pairs {
  size_t n;
  uint64_t *key; /* [n]: first << 32 | second */
  size_t room, slots;
  uint32_t *table; /* number + 1, 0: free */
} sl__pairs;

static inline uint64_t sl__pair(int32_t first, int32_t second) {
  return (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
}
sl_status sl__pairs_init(sl__pairs *pairs);
void sl__pairs_clear(sl__pairs *pairs);
int32_t sl__pairs_find(const sl__pairs *pairs, uint64_t pair); /* -1: not there */
sl_status sl__pairs_add(sl__pairs *pairs, uint64_t pair, uint32_t *number);

/* Grows the array at *pointer to room for n elements or more. Returns 0 when memory runs out. */
int sl__grow(void *pointer, size_t *room, size_t n, size_t element);

#endif
