/* Where the chains of matrix products end, on CPUs and GPUs alike; and the scratch memory of the CUDA products
 * (product_cuda.h), for the scratch_cuda rules of operations, which are C. */
#ifndef SL_PRODUCT_SIZES_H
#define SL_PRODUCT_SIZES_H

#include <stddef.h>
#include <stdint.h>

/* Length of a chain over k. A longer sum is divided into pieces of about this length, so that a panel of the vector
 * factor stays in the L2 cache. */
enum { SL_PRODUCT_DEPTH = 1024 };
/* Number of rows that linear_dw adds up in one chain. */
enum { SL_LINEAR_SUM_BLOCK = 256 };

/* Number of tiles that keep a large GPU busy, and the memory that the pieces of one product may take before they are
 * added. */
enum { SL_CUDA_TILES = 264, SL_CUDA_PARTS_BYTES = 32 << 20 };

/* Bytes that the fast kernels of convolutions and attention may take for the matrices that they do at once, at least
 * one row: 64 MB; tests take less. Do not change it while a program exists. */
#ifdef __cplusplus
extern "C" int64_t sl__fast_bytes;
#else
extern int64_t sl__fast_bytes;
#endif

static inline int64_t sl_cuda_tiles(int64_t M, int64_t N, int64_t side) {
  return (M + side - 1) / side * ((N + side - 1) / side);
}
/* Whether tiles of 128 x 128 are enough for the GPU, when `deep` pieces run at once; else they are 64 x 64. */
static inline int sl_cuda_product_large(int64_t M, int64_t N, int64_t deep) {
  return sl_cuda_tiles(M, N, 128) * deep >= 2 * SL_CUDA_TILES;
}
/* Number of pieces that run at once: 1 if the tiles are enough. */
static inline int sl_cuda_product_at_once(int64_t M, int64_t N, int pieces) {
  if (M * N == 0 || sl_cuda_tiles(M, N, 64) >= SL_CUDA_TILES) return 1;
  const int64_t wanted = (SL_CUDA_TILES + sl_cuda_tiles(M, N, 64) - 1) / sl_cuda_tiles(M, N, 64) * 2;
  const int64_t room = SL_CUDA_PARTS_BYTES / (M * N * (int64_t)sizeof(float));
  const int64_t n = wanted < room ? wanted : room;
  return (int)(n < 1 ? 1 : n < pieces ? n : pieces);
}
static inline size_t sl_cuda_product_bytes(int64_t M, int64_t N, int pieces, int adds_after) {
  const int at_once = sl_cuda_product_at_once(M, N, pieces);
  return ((size_t)(at_once > 1 ? at_once : 0) + (adds_after ? 1 : 0)) * (size_t)(M * N) * sizeof(float);
}
/* Bytes of the sums in float for a result of n numbers in bf16. In scratch memory they lie before the parts of the
 * product. */
static inline size_t sl_cuda_narrow_bytes(int64_t n) { return ((size_t)n * sizeof(float) + 255) / 256 * 256; }
static inline size_t sl_cuda_column_bytes(int pieces, int64_t N) { return (size_t)pieces * (size_t)N * sizeof(float); }

#endif
