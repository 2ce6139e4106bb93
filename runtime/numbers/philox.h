/* Random numbers as a pure function of their position: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011).
 *
 * Seed, step, operation and the element's index in the global batch determine a number, so every thread, rank and
 * device computes the same one. Element i takes word i % 4 of block i / 4. The rounds are branch-free, so that loops
 * over blocks vectorise; the functions serve C and CUDA alike. */
#ifndef SL_PHILOX_H
#define SL_PHILOX_H

#include <math.h>
#include <stdint.h>

#ifndef SL_HOST_DEVICE
#ifdef __CUDACC__
#define SL_HOST_DEVICE __host__ __device__ static inline
#else
#define SL_HOST_DEVICE static inline
#endif
#endif

/* The bijection of the paper's section 3.4: ten rounds over the counter (4 words) under the key (2 words). */
SL_HOST_DEVICE void sl_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
#ifdef __CUDA_ARCH__
#pragma unroll
#elif defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* The four words of elements 4 * block .. 4 * block + 3. Step and block count below 2^48; no two (seed, step,
 * operation, block) share a counter and key. */
SL_HOST_DEVICE void sl_random_u32x4(uint64_t seed, uint64_t step, uint32_t operation, uint64_t block, uint32_t out[4]) {
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32 & 0xFFFFu) | (uint32_t)(step >> 32) << 16,
                               (uint32_t)step, operation};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  sl_philox4x32(counter, key, out);
}

/* The word of one element; for bulk use sl_random_fill, which makes each block once. */
SL_HOST_DEVICE uint32_t sl_random_u32(uint64_t seed, uint64_t step, uint32_t operation, uint64_t element) {
  uint32_t word[4];
  sl_random_u32x4(seed, step, operation, element / 4, word);
  return word[element % 4];
}

/* out[i] = the word of element first + i, i in [0, n). */
SL_HOST_DEVICE void sl_random_fill(uint64_t seed, uint64_t step, uint32_t operation, uint64_t first, int64_t n,
                                   uint32_t *out) {
  int64_t i = 0;
  for (; i < n && (first + (uint64_t)i) % 4; i++) out[i] = sl_random_u32(seed, step, operation, first + (uint64_t)i);
  const uint64_t block = (first + (uint64_t)i) / 4;
  const int64_t blocks = (n - i) / 4;
  uint32_t *bulk = out + i;
  for (int64_t b = 0; b < blocks; b++) {
    uint32_t word[4];
    sl_random_u32x4(seed, step, operation, block + (uint64_t)b, word);
    bulk[4 * b] = word[0];
    bulk[4 * b + 1] = word[1];
    bulk[4 * b + 2] = word[2];
    bulk[4 * b + 3] = word[3];
  }
  for (i += 4 * blocks; i < n; i++) out[i] = sl_random_u32(seed, step, operation, first + (uint64_t)i);
}

/* Uniform in [0, 1), a multiple of 2^-24, so exact in a float. */
SL_HOST_DEVICE float sl_random_uniform(uint32_t word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

/* Two normal numbers of this standard deviation from two words (Box and Muller, 1958), of 24 bits each, so that both
 * uniform numbers are exact in a float; the logarithm's argument is in (0, 1]. */
SL_HOST_DEVICE void sl_random_normal2(uint32_t a, uint32_t b, double deviation, double out[2]) {
  const double u = ((a >> 8) + 1) * (1.0 / 16777216.0), angle = 6.283185307179586 * ((b >> 8) * (1.0 / 16777216.0));
  const double radius = deviation * sqrt(-2 * log(u));
  out[0] = radius * cos(angle);
  out[1] = radius * sin(angle);
}

/* The standard normal number of one element: its pair's two words (2j, 2j + 1 of one block) give its pair's two
 * numbers. */
SL_HOST_DEVICE double sl_random_normal(uint64_t seed, uint64_t step, uint32_t operation, uint64_t element) {
  uint32_t word[4];
  double pair[2];
  sl_random_u32x4(seed, step, operation, element / 4, word);
  const uint64_t first = element % 4 & 2u;
  sl_random_normal2(word[first], word[first + 1], 1, pair);
  return pair[element % 2];
}

#endif
