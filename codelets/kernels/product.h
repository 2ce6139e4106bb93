/* The register tile of matrix products, on which linear layers, convolutions and attention are built.
 *
 * One factor is read element by element and broadcast: its rows lie a fixed stride apart, and a table gives the offsets
 * of its columns. The other factor is read in vectors. The table makes im2col unnecessary: for each filter tap and
 * channel it holds the offset of the element from the first tap in the (padded) image.
 *
 * Every element of the result is one chain of multiply-adds in the order of k, whatever the shape of the tile and the
 * width of the vectors. So neither tiles nor teams nor the choice of AVX2 or AVX-512 change bits. Only SL_PRODUCT_DEPTH
 * and fused multiply-adds change them. */
#ifndef SL_PRODUCT_H
#define SL_PRODUCT_H

#include "codelets/kernels/kernel.h"
#include "codelets/kernels/product_sizes.h"

/* Largest tile: SL_PRODUCT_ROWS x SL_PRODUCT_COLUMNS; accumulators, two vectors and a broadcast fill the registers
 * (32 with AVX-512 and on AArch64 and POWER, else 16). */
#if SL_LANES == 16 || defined __aarch64__ || defined __powerpc64__
#define SL_PRODUCT_ROWS 14
#else
#define SL_PRODUCT_ROWS 6
#endif
#define SL_PRODUCT_COLUMNS (2 * SL_LANES)
/* Maxima over all instruction sets, for scratch rules, which are compiled once for all kernels. */
enum { SL_PRODUCT_ROWS_MOST = 14, SL_PRODUCT_COLUMNS_MOST = 32 };
/* Packing during a product: in step i of its k loop, SL_LANES elements are copied from from + from_at[i] to to +
 * to_at[i], so packing the next panel takes no time of its own. from_at has SL_PRODUCT_AHEAD further entries, which
 * are only prefetched. */
enum { SL_PRODUCT_AHEAD = 16 };
typedef struct sl_product_copy {
  const float *from;
  float *to;
  const int32_t *from_at, *to_at;
} sl_product_copy;

/* c[m c_row + n] = start[n] + sum over i < k of a[m a_row + a_at[i]] b[i b_row + n] for m < rows, n < columns; with
 * add, the right side is added to c. Strides count elements. rows <= SL_PRODUCT_ROWS, columns <= SL_PRODUCT_COLUMNS;
 * start may be NULL (zeros). b and start must be readable up to the next multiple of SL_LANES columns. copy may be
 * NULL; it needs a_row != 1. */
void SL_SHARED(product)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, const int32_t *a_at,
                        const float *b, int64_t b_row, float *c, int64_t c_row, const float *start, int add,
                        const sl_product_copy *copy);

/* Products of factors in bf16. Numbers 2 i and 2 i + 1 of k are a pair of 4 bytes; denormals count as zero, in factors
 * and sums. Sums have one of two orders; sl_tiles.blocks of the plan chooses the order. Each order is that of an
 * instruction. On a CPU without the instruction, fused multiply-adds of the widened numbers give the same bits. (x86's
 * baseline does not fuse, so it has bits of its own.)
 *
 * by pairs, as AVX512-BF16's VDPBF16PS: c[m][n] is one chain. For each pair, the product of the second numbers is added
 * first, then the product of the first numbers; each addition is rounded once.
 *
 * by blocks, as TDPBF16PS of AMX: in each block of 16 pairs, the products of the pairs' first numbers form one chain
 * from 0, and the products of the second numbers form another. The sum of the two chains is added to c[m][n].
 *
 * (Both: Intel's Architecture Instruction Set Extensions reference. For sums by pairs, Starling uses VDPBF16PS or
 * multiply-adds, whichever is faster: VDPBF16PS takes the time of one multiply-add on AMD's Zen 4, and of four on an
 * Intel Xeon.)
 *
 * a_row and a_at count numbers of 2 bytes; k, b_row and the copy count pairs. a_row = 2: rows of pairs side by side.
 * product_pairs: by VDPBF16PS.
 * product_flushed: by pairs, as `product` on widened numbers, k in the order 1, 0, 3, 2 ..., an odd last number paired
 * with zero; strides and copy count floats.
 * product_blocks: by blocks, by tiles where the CPU has them. rows <= SL_BLOCK_ROWS. With add, c is where the sum
 * begins. Within 16 steps a_at must ascend. b must be readable up to the next multiple of 16 columns. */
void SL_SHARED(product_pairs)(int64_t rows, int64_t columns, int64_t k, const sl_bf16 *a, int64_t a_row,
                              const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                              const float *start, int add, const sl_product_copy *copy);
void SL_SHARED(product_flushed)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row,
                                const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                                const float *start, int add, const sl_product_copy *copy);
void SL_SHARED(product_blocks)(int64_t rows, int64_t columns, int64_t k, const sl_bf16 *a, int64_t a_row,
                               const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                               const float *start, int add);
/* Number of pairs in a block; largest number of rows in a product by blocks, which is two tiles. */
enum { SL_BLOCK = 16, SL_BLOCK_ROWS = 32 };
/* Whether the CPU has VDPBF16PS and is faster with it; the first call measures this. Tests can decide it:
 * sl_product_pairs_choice 0: no; 1: yes; -1: measure. sl_product_tiles_choice 0: compute blocks without tiles, for
 * tests. */
int SL_SHARED(product_has_pairs)(void);
extern int sl_product_pairs_choice, sl_product_tiles_choice;

/* Lets denormals count as zero in this thread, as the bf16 instructions do, and returns the previous mode. */
static inline unsigned long sl_flush_begin(void) {
#if defined __x86_64__
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040); /* FTZ, DAZ */
  return before;
#elif defined __aarch64__
  unsigned long before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"(before | 1ul << 24)); /* FZ */
  return before;
#else
  return 0;
#endif
}
static inline void sl_flush_end(unsigned long before) {
#if defined __x86_64__
  __builtin_ia32_ldmxcsr((unsigned)before);
#elif defined __aarch64__
  __asm__ volatile("msr fpcr, %0" : : "r"(before));
#else
  (void)before;
#endif
}

/* The 4 bytes at p, in every lane. */
static inline __attribute__((always_inline)) sl_vec sl_splat_at(const void *p) {
#ifdef SL_ISA_AVX2
  float x; /* by VBROADCASTSS: with integers, as VPBROADCASTD, products take 1% longer on Zen 4 */
  memcpy(&x, p, sizeof x);
  return (sl_vec){x, x, x, x, x, x, x, x};
#else
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return (sl_vec)(x - (sl_vec_bits){0});
#endif
}

/* to[j to_row + i] = from[i from_row + j] for i < rows, j < columns. */
void SL_SHARED(transpose)(int64_t rows, int64_t columns, const float *from, int64_t from_row, float *to,
                          int64_t to_row);

/* Sums the columns of from[rows][columns] in the order of rows and adds the sums to `to`. */
void SL_SHARED(add_columns)(int64_t rows, int64_t columns, const float *from, int64_t from_row, float *to);

/* First element of piece i when n elements are cut into `pieces` pieces whose sizes differ by at most one. */
static inline int64_t sl_piece(int64_t n, int64_t pieces, int64_t i) {
  return n / pieces * i + sl_min64(i, n % pieces);
}

/* A row stride of at least n elements that spreads a tile's rows over the sets of an L1 cache: no multiple of 2 KB. */
static inline int64_t sl_spread_stride(int64_t n) {
  n = sl_tiles_of(n, 16) * 16;
  return n % 256 == 0 ? n + 16 : n;
}
static inline int sl_stride_clashes(int64_t stride) { return stride > 0 && stride % 256 == 0; }

static inline int64_t sl_round_up(int64_t n, int64_t to) { return sl_tiles_of(n, to) * to; }

#endif
