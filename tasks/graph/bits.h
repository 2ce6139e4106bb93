/* Two small things that several passes need: a hash of names (FNV-1a), and the masks of operation.h, whose last bit
 * stands for all further arguments. Private to tasks/. */
#ifndef SL_BITS_H
#define SL_BITS_H

#include <stdint.h>

#define SL__HASH_START 2166136261u

static inline uint32_t sl__hash_byte(uint32_t hash, unsigned char byte) { return (hash ^ byte) * 16777619u; }

static inline uint32_t sl__hash_text(const char *text) {
  uint32_t hash = SL__HASH_START;
  for (; *text; text++) hash = sl__hash_byte(hash, (unsigned char)*text);
  return hash;
}

static inline int sl__mask_has(uint32_t mask, int i) { return mask >> (i < 31 ? i : 31) & 1; }

#endif
