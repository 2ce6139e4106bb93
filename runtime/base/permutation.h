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

/* n >= 1, at most 2^62. `stream` tells apart permutations of one seed: the number of the epoch, or one of the below. */
sl_permutation sl_permutation_make(int64_t n, uint64_t seed, uint64_t stream);
#define SL_PERMUTATION_SPLIT UINT64_MAX /* the stream that chooses validation samples */

/* Where i goes, 0 <= i < n. About 30 ns. Safe from any thread. */
int64_t sl_permutation_at(const sl_permutation *permutation, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
