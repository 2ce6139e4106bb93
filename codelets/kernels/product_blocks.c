/* Products of bf16 by blocks: see product.h. AMX's tiles compute the products, if the CPU has them. Otherwise fused
 * multiply-adds of widened numbers give the same bits at a fraction of the speed. */
#include "codelets/kernels/product.h"
#include "runtime/processors/isa.h"

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Element (m, i) of a, where i counts pairs. */
static inline const sl_bf16 *pair_at(const sl_bf16 *a, int64_t a_row, const int32_t *a_at, int64_t m, int64_t i) {
  return a + m * a_row + a_at[i];
}

/* ---- by multiply-adds -------------------------------------------------------------------------------------------- */

enum { STRIP = 4 }; /* rows at once: sums, chains and factors fill 16 registers */

static inline __attribute__((always_inline)) void strip(const int rows, int64_t k, const sl_bf16 *a, int64_t a_row,
                                                        const int32_t *a_at, const float *b, int64_t b_row,
                                                        sl_vec sum[STRIP]) {
  for (int64_t i = 0; i < k; i += SL_BLOCK) {
    sl_vec first[STRIP], second[STRIP];
    UNROLL
    for (int m = 0; m < rows; m++) first[m] = second[m] = sl_splat(0);
    for (int64_t p = i; p < sl_min64(k, i + SL_BLOCK); p++) {
      const sl_vec_bits x = (sl_vec_bits)sl_load(b + p * b_row), high = 0xffff0000 - (sl_vec_bits){0};
      UNROLL
      for (int m = 0; m < rows; m++) {
        const sl_vec_bits w = (sl_vec_bits)sl_splat_at(pair_at(a, a_row, a_at, m, p));
        first[m] = sl_fma((sl_vec)(w << 16), (sl_vec)(x << 16), first[m]);
        second[m] = sl_fma((sl_vec)(w & high), (sl_vec)(x & high), second[m]);
      }
    }
    UNROLL
    for (int m = 0; m < rows; m++) sum[m] += first[m] + second[m];
  }
}

/* The function is not inlined, so that the compiler moves no addition out of the mode in which denormals are zero. */
static __attribute__((noinline)) void by_multiply_adds(int64_t rows, int64_t columns, int64_t k, const sl_bf16 *a,
                                                       int64_t a_row, const int32_t *a_at, const float *b,
                                                       int64_t b_row, float *c, int64_t c_row, const float *start,
                                                       int add) {
  for (int64_t m = 0; m < rows; m += STRIP, a += STRIP * a_row, c += STRIP * c_row) {
    const int64_t here = sl_min64(STRIP, rows - m);
    for (int64_t n = 0; n < columns; n += SL_LANES) {
      const int64_t left = sl_min64(SL_LANES, columns - n);
      sl_vec sum[STRIP];
      for (int64_t r = 0; r < here; r++) {
        float line[SL_LANES] = {0};
        if (add || start) memcpy(line, add ? c + r * c_row + n : start + n, (size_t)left * sizeof *line);
        sum[r] = sl_load(line);
      }
      if (here == STRIP)
        strip(STRIP, k, a, a_row, a_at, b + n, b_row, sum);
      else
        for (int64_t r = 0; r < here; r++) strip(1, k, a + r * a_row, a_row, a_at, b + n, b_row, sum + r);
      for (int64_t r = 0; r < here; r++) {
        float line[SL_LANES];
        sl_store(line, sum[r]);
        memcpy(c + r * c_row + n, line, (size_t)left * sizeof *line);
      }
    }
  }
}

/* ---- by tiles ---------------------------------------------------------------------------------------------------- */

#if defined SL_ISA_AVX512 && defined SL_HAVE_AMX
/* Tiles 0 to 3 hold c, as 2 x 2 tiles of 16 x 16 sums. Tiles 4 and 5 hold rows of a, tiles 6 and 7 columns of b, in
 * pairs. */
enum { SIDE = 16, LINE = 64 }; /* rows of a tile; bytes of a row */

typedef struct tile_configuration {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_configuration;

/* Sets the sizes of the tiles for `rows` rows of a. Most calls need the same sizes as the previous call and change
 * nothing. */
static void configure(int rows) {
  static _Thread_local int now;
  if (rows == now) return;
  now = rows;
  const uint8_t upper = (uint8_t)sl_min64(SIDE, rows), lower = (uint8_t)sl_max64(1, rows - SIDE);
  const tile_configuration t = {.palette = 1,
                                .row_bytes = {LINE, LINE, LINE, LINE, LINE, LINE, LINE, LINE},
                                .rows = {upper, upper, lower, lower, upper, lower, SIDE, SIDE}};
  __asm__ volatile("ldtilecfg %0" : : "m"(t));
}

#define TILE_LOAD(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(stride)) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define TILE_MULTIPLY(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)

/* Copies up to 16 pairs of each row into to[rows][16]; pairs from `pairs` on become zeros. */
static void gather(int64_t rows, int64_t pairs, const sl_bf16 *a, int64_t a_row, const int32_t *a_at, float *to) {
  if (a_row == 2) { /* pairs of neighbouring rows lie side by side: turned from lines [16][rows] */
    float lines[SL_BLOCK * SL_BLOCK_ROWS] __attribute__((aligned(64)));
    const __mmask16 upper = (__mmask16)((1u << sl_min64(SIDE, rows)) - 1),
                    lower = (__mmask16)((1u << sl_max64(0, rows - SIDE)) - 1);
    for (int64_t i = 0; i < SL_BLOCK; i++) {
      const float *from = (const float *)(const void *)(a + a_at[sl_min64(i, pairs - 1)]);
      const __mmask16 here = i < pairs ? 0xffff : 0;
      _mm512_store_ps(lines + i * SL_BLOCK_ROWS, _mm512_maskz_loadu_ps(upper & here, from));
      if (lower) _mm512_store_ps(lines + i * SL_BLOCK_ROWS + SIDE, _mm512_maskz_loadu_ps(lower & here, from + SIDE));
    }
    SL_SHARED(transpose)(SL_BLOCK, rows > SIDE ? SL_BLOCK_ROWS : SIDE, lines, SL_BLOCK_ROWS, to, SL_BLOCK);
    return;
  }
  const __mmask16 some = (__mmask16)((1u << pairs) - 1);
  const __m512i at = _mm512_srai_epi32(_mm512_maskz_loadu_epi32(some, a_at), 1);
  for (int64_t m = 0; m < rows; m++)
    _mm512_store_ps(to + m * SL_BLOCK,
                    _mm512_mask_i32gather_ps(_mm512_setzero_ps(), some, at, (const void *)(a + m * a_row), 4));
}

static inline __attribute__((always_inline)) void multiply(const int lower, const int right, const void *a,
                                                           int64_t a_stride, const float *b, int64_t b_stride) {
  TILE_LOAD(4, a, a_stride);
  TILE_LOAD(6, b, b_stride);
  TILE_MULTIPLY(0, 4, 6);
  if (right) {
    TILE_LOAD(7, b + SIDE, b_stride);
    TILE_MULTIPLY(1, 4, 7);
  }
  if (lower) {
    TILE_LOAD(5, (const char *)a + SIDE * a_stride, a_stride);
    TILE_MULTIPLY(2, 5, 6);
    if (right) TILE_MULTIPLY(3, 5, 7);
  }
}

static inline __attribute__((always_inline)) void tiles(const int lower, const int right, int64_t rows, int64_t k,
                                                        const sl_bf16 *a, int64_t a_row, const int32_t *a_at,
                                                        const float *b, int64_t b_row, float *c, int64_t c_row,
                                                        const float *start, int add) {
  const int64_t c_stride = c_row * (int64_t)sizeof *c, b_stride = b_row * (int64_t)sizeof *b,
                a_stride = a_row * (int64_t)sizeof *a, from_stride = add ? c_stride : 0; /* start: the same for rows */
  const float *from = add ? c : start;
  float *below = c + SIDE * c_row;
  if (from) {
    const float *from_below = add ? below : start;
    TILE_LOAD(0, from, from_stride);
    if (right) TILE_LOAD(1, from + SIDE, from_stride);
    if (lower) TILE_LOAD(2, from_below, from_stride);
    if (lower && right) TILE_LOAD(3, from_below + SIDE, from_stride);
  } else {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
  }
  float left[SL_BLOCK_ROWS * SL_BLOCK] __attribute__((aligned(64)));
  const int64_t whole = k - k % SL_BLOCK;
  for (int64_t i = 0; i < whole; i += SL_BLOCK) {
    if (a_row != 2 && a_at[i + SL_BLOCK - 1] == a_at[i] + 2 * (SL_BLOCK - 1)) {
      multiply(lower, right, a + a_at[i], a_stride, b + i * b_row, b_stride);
    } else {
      gather(rows, SL_BLOCK, a, a_row, a_at + i, left);
      multiply(lower, right, left, LINE, b + i * b_row, b_stride);
    }
  }
  if (whole < k) {
    float right_lines[SL_BLOCK * 2 * SIDE] __attribute__((aligned(64)));
    for (int64_t i = 0; i < SL_BLOCK; i++)
      for (int half = 0; half <= right; half++) {
        const float *line = b + (whole + i) * b_row + half * SIDE;
        sl_store(right_lines + i * 2 * SIDE + half * SIDE, whole + i < k ? sl_load(line) : sl_splat(0));
      }
    gather(rows, k - whole, a, a_row, a_at + whole, left);
    multiply(lower, right, left, LINE, right_lines, 2 * LINE);
  }
  TILE_STORE(0, c, c_stride);
  if (right) TILE_STORE(1, c + SIDE, c_stride);
  if (lower) TILE_STORE(2, below, c_stride);
  if (lower && right) TILE_STORE(3, below + SIDE, c_stride);
}

static void by_tiles(int64_t rows, int64_t columns, int64_t k, const sl_bf16 *a, int64_t a_row, const int32_t *a_at,
                     const float *b, int64_t b_row, float *c, int64_t c_row, const float *start, int add) {
  /* Sums come in whole tiles; results in columns beyond `columns` go to a buffer. */
  float whole[SL_BLOCK_ROWS * 2 * SIDE] __attribute__((aligned(64)));
  float *to = c;
  int64_t to_row = c_row;
  if (columns % SIDE) {
    to = whole, to_row = 2 * SIDE;
    for (int64_t m = 0; add && m < rows; m++) memcpy(to + m * to_row, c + m * c_row, (size_t)columns * sizeof *c);
  }
  configure((int)rows);
  const int lower = rows > SIDE, right = columns > SIDE;
  if (lower && right)
    tiles(1, 1, rows, k, a, a_row, a_at, b, b_row, to, to_row, start, add);
  else if (lower)
    tiles(1, 0, rows, k, a, a_row, a_at, b, b_row, to, to_row, start, add);
  else if (right)
    tiles(0, 1, rows, k, a, a_row, a_at, b, b_row, to, to_row, start, add);
  else
    tiles(0, 0, rows, k, a, a_row, a_at, b, b_row, to, to_row, start, add);
  for (int64_t m = 0; to != c && m < rows; m++) memcpy(c + m * c_row, to + m * to_row, (size_t)columns * sizeof *c);
}
#endif

void SL_SHARED(product_blocks)(int64_t rows, int64_t columns, int64_t k, const sl_bf16 *a, int64_t a_row,
                               const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                               const float *start, int add) {
#if defined SL_ISA_AVX512 && defined SL_HAVE_AMX
  if (sl_product_tiles_choice && sl_isa_has_tiles()) {
    by_tiles(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add);
    return;
  }
#endif
  const unsigned long before = sl_flush_begin();
  by_multiply_adds(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add);
  sl_flush_end(before);
}
