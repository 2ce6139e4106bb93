/* FNV-1a (Fowler, Noll, Vo): a hash of short texts and numbers, the same on every machine. Files and results depend on
 * its values: it names random streams and performance models. Not for checksums of data: those are xxHash's. */
#ifndef SL_HASH_H
#define SL_HASH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_HASH32_START 2166136261u
#define SL_HASH64_START UINT64_C(0xcbf29ce484222325)

static inline uint32_t sl_hash32_byte(uint32_t hash, unsigned char byte) { return (hash ^ byte) * 16777619u; }
static inline uint64_t sl_hash64_byte(uint64_t hash, unsigned char byte) {
  return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* The eight bytes of x, the lowest first. */
static inline uint32_t sl_hash32_number(uint32_t hash, uint64_t x) {
  for (int i = 0; i < 8; i++, x >>= 8) hash = sl_hash32_byte(hash, (unsigned char)(x & 255));
  return hash;
}

static inline uint32_t sl_hash32_text(const char *text) {
  uint32_t hash = SL_HASH32_START;
  for (; *text; text++) hash = sl_hash32_byte(hash, (unsigned char)*text);
  return hash;
}

#ifdef __cplusplus
}
#endif
#endif
