/* A seeded pseudo-random permutation of [0, n) that needs no memory of the data's size: a Feistel network over the next
 * even power of two, keyed by (seed, stream), walked until the value falls below n (cycle walking keeps it a
 * bijection). Sources: Luby and Rackoff, "How to construct pseudorandom permutations", 1988; Black and Rogaway,
 * "Ciphers with arbitrary finite domains", 2002. The result depends on n, seed and stream alone, on any machine. */
#ifndef SL_PERMUTATION_H
#define SL_PERMUTATION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_PERMUTATION_ROUNDS = 6 };

typedef struct sl_permutation {
  uint64_t n;
  unsigned half; /* bits of one half of the Feistel domain, 2^(2 half) >= n */
  uint64_t key[SL_PERMUTATION_ROUNDS];
} sl_permutation;

/* n is 1 to 2^62. `stream` gives each use of one seed its own permutation: an epoch's number, or a constant below. */
sl_permutation sl_permutation_make(int64_t n, uint64_t seed, uint64_t stream);
#define SL_PERMUTATION_SPLIT UINT64_MAX /* chooses the validation samples */

/* The image of i, 0 <= i < n. Takes about 30 ns. Any thread may call it. */
int64_t sl_permutation_at(const sl_permutation *permutation, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
