/* Register tiles of matrix products, and transposition: see product.h. The code is plain C on vector types. The
 * compiler keeps the accumulators in registers because all loops over the tile have constant bounds. */
#include "codelets/kernels/product.h"

#include "codelets/kernels/product_sizes.h"
#include "runtime/base/time.h"

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef void tile(int64_t k, const void *restrict a, int64_t a_row, const int32_t *restrict a_at,
                  const float *restrict b, int64_t b_row, float *restrict c, int64_t c_row, const float *start, int add,
                  const sl_product_copy *copy);

/* How a tile multiplies: floats, or pairs of bf16 by VDPBF16PS. */
typedef enum { FLOATS, PAIRS } arithmetic;

static inline __attribute__((always_inline)) sl_vec multiply_add(const arithmetic how, sl_vec w, sl_vec x, sl_vec sum) {
#ifdef SL_ISA_AVX512
  if (how == PAIRS) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
#endif
  (void)how;
  return sl_fma(w, x, sum);
}

static inline __attribute__((always_inline)) void tile_of(const arithmetic how, const int rows, const int vectors,
                                                          const int dense, int64_t k, const void *restrict a,
                                                          int64_t a_row, const int32_t *restrict a_at,
                                                          const float *restrict b, int64_t b_row, float *restrict c,
                                                          int64_t c_row, const float *start, int add,
                                                          const sl_product_copy *copy) {
  const int64_t element = how == FLOATS ? sizeof(float) : sizeof(sl_bf16);
  sl_vec sum[SL_PRODUCT_ROWS][2];
  a_row *= element;
  UNROLL
  for (int m = 0; m < rows; m++) {
    UNROLL
    for (int v = 0; v < vectors; v++) {
      __builtin_prefetch(c + m * c_row + v * SL_LANES, 1);
      sum[m][v] = sl_load(start + v * SL_LANES);
    }
  }
  /* Keeps the compiler from holding the addresses of all results in registers through the loop. */
  __asm__("" : "+r"(c), "+r"(c_row));
  for (int64_t i = 0; i < k; i++) {
    const char *at = (const char *)a + a_at[i] * element;
    sl_vec x[2];
    if (copy) {
      __builtin_prefetch(copy->from + copy->from_at[i + SL_PRODUCT_AHEAD]);
      sl_store(copy->to + copy->to_at[i], sl_load(copy->from + copy->from_at[i]));
    }
    UNROLL
    for (int v = 0; v < vectors; v++) x[v] = sl_load(b + v * SL_LANES);
    b += b_row;
    UNROLL
    for (int m = 0; m < rows; m++) {
      const sl_vec w = sl_splat_at(dense ? at + m * (int64_t)sizeof(float) : at);
      if (!dense) {
        at += a_row;
        __asm__("" : "+r"(at)); /* otherwise clang keeps one pointer per row on the stack */
      }
      UNROLL
      for (int v = 0; v < vectors; v++) sum[m][v] = multiply_add(how, w, x[v], sum[m][v]);
    }
  }
  UNROLL
  for (int m = 0; m < rows; m++) {
    UNROLL
    for (int v = 0; v < vectors; v++) {
      float *at = c + m * c_row + v * SL_LANES;
      sl_store(at, add ? sl_load(at) + sum[m][v] : sum[m][v]);
    }
  }
}

#if SL_PRODUCT_ROWS == 14
#define EACH_ROWS(X, v) \
  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v) X(13, v) X(14, v)
#else
#define EACH_ROWS(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#endif
/* Variants: rows at any stride; the same with packing; adjacent rows (a gradient's broadcast factor). */
#define DEFINE_TILE(attribute, how, kind, rows, vectors, dense, packing)                                           \
  attribute static void kind##_##rows##_##vectors(                                                                 \
      int64_t k, const void *restrict a, int64_t a_row, const int32_t *restrict a_at, const float *restrict b,     \
      int64_t b_row, float *restrict c, int64_t c_row, const float *start, int add, const sl_product_copy *copy) { \
    (void)a_row, (void)copy;                                                                                       \
    tile_of(how, rows, vectors, dense, k, a, a_row, a_at, b, b_row, c, c_row, start, add, packing);                \
  }
#define DEFINE_TILES(rows, vectors)                      \
  DEFINE_TILE(, FLOATS, strided, rows, vectors, 0, NULL) \
  DEFINE_TILE(, FLOATS, packing, rows, vectors, 0, copy) \
  DEFINE_TILE(, FLOATS, dense, rows, vectors, 1, NULL)
EACH_ROWS(DEFINE_TILES, 1)
EACH_ROWS(DEFINE_TILES, 2)

enum { KIND_STRIDED, KIND_PACKING, KIND_DENSE, KIND_COUNT };
typedef tile *const tile_table[KIND_COUNT][2][SL_PRODUCT_ROWS];
#define STRIDED(rows, vectors) strided_##rows##_##vectors,
#define PACKING(rows, vectors) packing_##rows##_##vectors,
#define DENSE(rows, vectors) dense_##rows##_##vectors,
static const tile_table tiles = {
    {{EACH_ROWS(STRIDED, 1)}, {EACH_ROWS(STRIDED, 2)}},
    {{EACH_ROWS(PACKING, 1)}, {EACH_ROWS(PACKING, 2)}},
    {{EACH_ROWS(DENSE, 1)}, {EACH_ROWS(DENSE, 2)}},
};

#ifdef SL_ISA_AVX512
#define BF16 __attribute__((target("avx512bf16")))
#define DEFINE_PAIR_TILES(rows, vectors)                          \
  DEFINE_TILE(BF16, PAIRS, pairs_strided, rows, vectors, 0, NULL) \
  DEFINE_TILE(BF16, PAIRS, pairs_packing, rows, vectors, 0, copy) \
  DEFINE_TILE(BF16, PAIRS, pairs_dense, rows, vectors, 1, NULL)
EACH_ROWS(DEFINE_PAIR_TILES, 1)
EACH_ROWS(DEFINE_PAIR_TILES, 2)
#define PAIRS_STRIDED(rows, vectors) pairs_strided_##rows##_##vectors,
#define PAIRS_PACKING(rows, vectors) pairs_packing_##rows##_##vectors,
#define PAIRS_DENSE(rows, vectors) pairs_dense_##rows##_##vectors,
static const tile_table pair_tiles = {
    {{EACH_ROWS(PAIRS_STRIDED, 1)}, {EACH_ROWS(PAIRS_STRIDED, 2)}},
    {{EACH_ROWS(PAIRS_PACKING, 1)}, {EACH_ROWS(PAIRS_PACKING, 2)}},
    {{EACH_ROWS(PAIRS_DENSE, 1)}, {EACH_ROWS(PAIRS_DENSE, 2)}},
};
#endif

static const float zeros[SL_PRODUCT_COLUMNS];

/* Computes a tile by whole registers; results in columns beyond `columns` go to a buffer. The function is not inlined,
 * so that the compiler moves no addition out of the mode that product_pairs sets (denormals are zero). */
static __attribute__((noinline)) void compute(tile *t, int64_t rows, int64_t columns, int64_t k, const void *a,
                                              int64_t a_row, const int32_t *a_at, const float *b, int64_t b_row,
                                              float *c, int64_t c_row, const float *start, int add,
                                              const sl_product_copy *copy) {
  if (start == NULL) start = zeros;
  if (columns % SL_LANES == 0) {
    t(k, a, a_row, a_at, b, b_row, c, c_row, start, add, copy);
    return;
  }
  float whole[SL_PRODUCT_ROWS * SL_PRODUCT_COLUMNS] __attribute__((aligned(64)));
  t(k, a, a_row, a_at, b, b_row, whole, SL_PRODUCT_COLUMNS, start, 0, copy);
  for (int64_t m = 0; m < rows; m++)
    for (int64_t n = 0; n < columns; n++) {
      float sum = whole[m * SL_PRODUCT_COLUMNS + n];
      c[m * c_row + n] = add ? c[m * c_row + n] + sum : sum;
    }
}

void SL_SHARED(product)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, const int32_t *a_at,
                        const float *b, int64_t b_row, float *c, int64_t c_row, const float *start, int add,
                        const sl_product_copy *copy) {
  const int kind = copy ? KIND_PACKING : a_row == 1 ? KIND_DENSE : KIND_STRIDED;
  compute(tiles[kind][columns > SL_LANES][rows - 1], rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add,
          copy);
}

void SL_SHARED(product_flushed)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row,
                                const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                                const float *start, int add, const sl_product_copy *copy) {
  const unsigned long before = sl_flush_begin();
  SL_SHARED(product)(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add, copy);
  sl_flush_end(before);
}

#ifdef SL_ISA_BASE
int64_t sl__fast_bytes = 64 << 20; /* of product_sizes.h */

int sl_product_pairs_choice = -1, sl_product_tiles_choice = 1;
#endif

#ifdef SL_ISA_AVX512
void SL_SHARED(product_pairs)(int64_t rows, int64_t columns, int64_t k, const sl_bf16 *a, int64_t a_row,
                              const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                              const float *start, int add, const sl_product_copy *copy) {
  const int kind = copy ? KIND_PACKING : a_row == 2 ? KIND_DENSE : KIND_STRIDED;
  const unsigned long before = sl_flush_begin();
  compute(pair_tiles[kind][columns > SL_LANES][rows - 1], rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start,
          add, copy);
  sl_flush_end(before);
}

/* Time in ns of a large tile over 256 numbers, the shortest of several measurements. */
static int64_t time_of(int pairs) {
  enum { K = 256 };
  static const float a[SL_PRODUCT_ROWS * K], b[K * SL_PRODUCT_COLUMNS];
  float c[SL_PRODUCT_ROWS * SL_PRODUCT_COLUMNS];
  int32_t at[K];
  int64_t best = INT64_MAX;
  for (int i = 0; i < K; i++) at[i] = i * (pairs ? 2 : 1);
  for (int i = 0; i < 20; i++) {
    const int64_t from = sl_now();
    if (pairs) SL_SHARED(product_pairs)
    (SL_PRODUCT_ROWS, SL_PRODUCT_COLUMNS, K / 2, (const sl_bf16 *)(const void *)a, K, at, b, SL_PRODUCT_COLUMNS, c,
     SL_PRODUCT_COLUMNS, NULL, 0, NULL);
    else SL_SHARED(product_flushed)(SL_PRODUCT_ROWS, SL_PRODUCT_COLUMNS, K, a, K, at, b, SL_PRODUCT_COLUMNS, c,
                                    SL_PRODUCT_COLUMNS, NULL, 0, NULL);
    best = sl_min64(best, sl_now() - from);
  }
  return best;
}

int SL_SHARED(product_has_pairs)(void) {
  static _Atomic int faster = -1; /* several threads may measure at once, and may even differ: the bits are the same */
  if (!__builtin_cpu_supports("avx512bf16")) return 0;
  if (sl_product_pairs_choice >= 0) return sl_product_pairs_choice;
  int known = faster;
  if (known < 0) faster = known = time_of(1) < time_of(0);
  return known;
}
#else
int SL_SHARED(product_has_pairs)(void) { return 0; }
#endif

#if defined __clang__ || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t lanes __attribute__((vector_size(SL_LANES * 4)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif

/* Transposes a square: exchanges elements, then pairs of elements (both within 128 bits), then 128-bit quarters. */
static inline __attribute__((always_inline)) void turn(sl_vec r[SL_LANES]) {
  sl_vec t[SL_LANES];
#if SL_LANES == 16
#define LOW1 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH1 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#elif SL_LANES == 8
#define LOW1 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH1 2, 10, 3, 11, 6, 14, 7, 15
#define LOW2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH2 2, 3, 10, 11, 6, 7, 14, 15
#else
#define LOW1 0, 4, 1, 5
#define HIGH1 2, 6, 3, 7
#define LOW2 0, 1, 4, 5
#define HIGH2 2, 3, 6, 7
#endif
  UNROLL
  for (int i = 0; i < SL_LANES; i += 4) {
    sl_vec a = SHUFFLE(r[i], r[i + 1], LOW1), b = SHUFFLE(r[i], r[i + 1], HIGH1);
    sl_vec c = SHUFFLE(r[i + 2], r[i + 3], LOW1), d = SHUFFLE(r[i + 2], r[i + 3], HIGH1);
    t[i] = SHUFFLE(a, c, LOW2), t[i + 1] = SHUFFLE(a, c, HIGH2);
    t[i + 2] = SHUFFLE(b, d, LOW2), t[i + 3] = SHUFFLE(b, d, HIGH2);
  }
  /* t[4 g + q] holds, in quarter j, rows 4 g .. 4 g + 3 of column 4 j + q. */
#if SL_LANES == 16
  UNROLL
  for (int q = 0; q < 4; q++) {
    sl_vec a = SHUFFLE(t[q], t[4 + q], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    sl_vec b = SHUFFLE(t[q], t[4 + q], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    sl_vec c = SHUFFLE(t[8 + q], t[12 + q], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    sl_vec d = SHUFFLE(t[8 + q], t[12 + q], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    r[q] = SHUFFLE(a, c, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    r[8 + q] = SHUFFLE(a, c, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    r[4 + q] = SHUFFLE(b, d, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    r[12 + q] = SHUFFLE(b, d, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }
#elif SL_LANES == 8
  UNROLL
  for (int q = 0; q < 4; q++) {
    r[q] = SHUFFLE(t[q], t[4 + q], 0, 1, 2, 3, 8, 9, 10, 11);
    r[4 + q] = SHUFFLE(t[q], t[4 + q], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#else
  memcpy(r, t, sizeof t);
#endif
}

void SL_SHARED(transpose)(int64_t rows, int64_t columns, const float *from, int64_t from_row, float *to,
                          int64_t to_row) {
  int64_t whole_rows = rows - rows % SL_LANES, whole_columns = columns - columns % SL_LANES;
  for (int64_t i = 0; i < whole_rows; i += SL_LANES)
    for (int64_t j = 0; j < whole_columns; j += SL_LANES) {
      sl_vec r[SL_LANES];
      UNROLL
      for (int l = 0; l < SL_LANES; l++) r[l] = sl_load(from + (i + l) * from_row + j);
      turn(r);
      UNROLL
      for (int l = 0; l < SL_LANES; l++) sl_store(to + (j + l) * to_row + i, r[l]);
    }
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j++) to[j * to_row + i] = from[i * from_row + j];
}

/* add_columns for n vectors of columns. In one pass, because additions to one sum wait for each
 * other, and those to n sums overlap. */
static inline __attribute__((always_inline)) void add_vectors(int n, int64_t rows, const float *from, int64_t from_row,
                                                              float *to) {
  sl_vec sum[4] = {{0}, {0}, {0}, {0}};
  for (int64_t i = 0; i < rows; i++)
    for (int v = 0; v < n; v++) sum[v] += sl_load(from + i * from_row + v * SL_LANES);
  for (int v = 0; v < n; v++) sl_store(to + v * SL_LANES, sl_load(to + v * SL_LANES) + sum[v]);
}

void SL_SHARED(add_columns)(int64_t rows, int64_t columns, const float *from, int64_t from_row, float *to) {
  int64_t j = 0;
  for (; j + 4 * SL_LANES <= columns; j += 4 * SL_LANES) add_vectors(4, rows, from + j, from_row, to + j);
  switch ((columns - j) / SL_LANES) {
    case 3:
      add_vectors(3, rows, from + j, from_row, to + j);
      break;
    case 2:
      add_vectors(2, rows, from + j, from_row, to + j);
      break;
    case 1:
      add_vectors(1, rows, from + j, from_row, to + j);
      break;
  }
  for (j = columns / SL_LANES * SL_LANES; j < columns; j++) {
    float sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += from[i * from_row + j];
    to[j] += sum;
  }
}
