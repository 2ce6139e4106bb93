/* The seeded permutation. */
#include "runtime/numbers/permutation.h"

/* Below 2^8 a Feistel network has too few round values to look random, so small n walk inside 2^8. */
enum { LEAST_HALF = 4 };

/* splitmix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

sl_permutation sl_permutation_make(int64_t n, uint64_t seed, uint64_t stream) {
  sl_permutation p = {.n = (uint64_t)n, .half = LEAST_HALF};
  while (p.half < 31 && (uint64_t)1 << (2 * p.half) < p.n) p.half++;
  uint64_t state = mix(mix(seed + 0x9e3779b97f4a7c15u) ^ stream);
  for (int r = 0; r < SL_PERMUTATION_ROUNDS; r++) p.key[r] = mix(state += 0x9e3779b97f4a7c15u);
  return p;
}

int64_t sl_permutation_at(const sl_permutation *p, int64_t i) {
  if (p->n <= 1) return 0;
  const uint64_t mask = ((uint64_t)1 << p->half) - 1;
  uint64_t x = (uint64_t)i;
  do {
    uint64_t left = x >> p->half, right = x & mask;
    for (int r = 0; r < SL_PERMUTATION_ROUNDS; r++) {
      uint64_t next = left ^ (mix(right ^ p->key[r]) & mask);
      left = right, right = next;
    }
    x = left << p->half | right;
  } while (x >= p->n);
  return (int64_t)x;
}
