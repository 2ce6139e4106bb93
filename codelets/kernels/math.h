/* Vector mathematics for kernels: partial loads and stores, maxima, sums in float and double over fixed lanes, and the
 * functions of functions.h on whole registers. The last elements of an array are padded to a full vector and go through
 * the same instructions. */
#ifndef SL_MATH_H
#define SL_MATH_H

#include <float.h>

#include "codelets/kernels/kernel.h"

typedef int32_t sl_veci __attribute__((vector_size(SL_LANES * 4)));
typedef uint32_t sl_vecw __attribute__((vector_size(SL_LANES * 4)));

/* Selects a where the mask (all ones or zero, as comparisons give it) is set, b elsewhere. */
static inline sl_vec sl_select(sl_veci mask, sl_vec a, sl_vec b) {
  return (sl_vec)((mask & (sl_veci)a) | (~mask & (sl_veci)b));
}
/* a where a > b, b elsewhere: b if one of them is NaN. */
static inline sl_vec sl_larger(sl_vec a, sl_vec b) {
#if defined SL_ISA_AVX512 /* GCC 12 selects by three instructions */
  return (sl_vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined SL_ISA_AVX2
  return (sl_vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return sl_select(a > b, a, b);
#endif
}
/* 0 where x < limit, y elsewhere. */
static inline sl_vec sl_zero_below(float limit, sl_vec x, sl_vec y) {
#if defined SL_ISA_AVX512
  return (sl_vec)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(limit), _CMP_NLT_UQ), (__m512)y);
#else
  return sl_select(x < limit, sl_splat(0), y);
#endif
}
static inline sl_vec sl_abs(sl_vec x) { return (sl_vec)((sl_veci)x & 0x7fffffff); }

/* Loads the first n < SL_LANES elements; the other lanes are `fill`. */
static inline sl_vec sl_load_n_f32(const float *p, int64_t n, float fill) {
  sl_vec v = sl_splat(fill);
  memcpy(&v, p, (size_t)n * sizeof *p);
  return v;
}
static inline sl_vec sl_load_n_bf16(const sl_bf16 *p, int64_t n, float fill) {
  float a[SL_LANES];
  for (int i = 0; i < SL_LANES; i++) a[i] = i < n ? sl_get(p + i) : fill;
  return sl_load(a);
}
static inline void sl_store_n_f32(float *p, sl_vec v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof *p); }
static inline void sl_store_n_bf16(sl_bf16 *p, sl_vec v, int64_t n) {
  sl_bf16 a[SL_LANES];
  sl_store(a, v);
  memcpy(p, a, (size_t)n * sizeof *p);
}
#define sl_load_n(p, n, fill) SL_BY_TYPE(p, sl_load_n)(p, n, fill)
#define sl_store_n(p, v, n) SL_BY_TYPE(p, sl_store_n)(p, v, n)

/* Loads up to SL_LANES of the n elements that are left, none if n < 1; the other lanes are `fill`. */
static inline sl_vec sl_load_left_f32(const float *p, int64_t n, float fill) {
  return n >= SL_LANES ? sl_load(p) : sl_load_n(p, sl_max64(n, 0), fill);
}
static inline sl_vec sl_load_left_bf16(const sl_bf16 *p, int64_t n, float fill) {
  return n >= SL_LANES ? sl_load(p) : sl_load_n(p, sl_max64(n, 0), fill);
}
#define sl_load_left(p, n, fill) SL_BY_TYPE(p, sl_load_left)(p, n, fill)

/* Under every instruction set, a sum along a row has SL_SUM_LANES lanes, which take one or more vectors. Element i is
 * added to lane i % SL_SUM_LANES; at the end the lanes are added by halves. So AVX2 and AVX-512 give the same bits.
 * Some kernels keep several such sums and add them up at the end, because independent additions overlap. */
enum { SL_SUM_LANES = 16, SL_SUM_VECTORS = SL_SUM_LANES / SL_LANES };
typedef struct sl_sum {
  sl_vec v[SL_SUM_VECTORS];
} sl_sum;
static inline sl_sum sl_sum_add(sl_sum a, sl_sum b) {
  for (int w = 0; w < SL_SUM_VECTORS; w++) a.v[w] += b.v[w];
  return a;
}
static inline float sl_sum_lanes(sl_sum s) {
  float a[SL_SUM_LANES];
  memcpy(a, s.v, sizeof a);
  for (int n = SL_SUM_LANES / 2; n; n /= 2)
    for (int i = 0; i < n; i++) a[i] += a[i + n];
  return a[0];
}

/* Maximum over lanes; NaN if a lane is NaN. */
static inline float sl_max_lanes(sl_vec v) {
  float a[SL_LANES];
  memcpy(a, &v, sizeof a);
  for (int n = SL_LANES / 2; n; n /= 2)
    for (int i = 0; i < n; i++) a[i] = a[i + n] > a[i] || a[i + n] != a[i + n] ? a[i + n] : a[i];
  return a[0];
}
static inline sl_vec sl_greater(sl_vec a, sl_vec b) { return sl_select((b > a) | (b != b), b, a); }
/* The maximum of n numbers. */
#define SL_MAX_ROW(name, type)                                                  \
  static inline float name(const type *x, int64_t n) {                          \
    sl_vec m = sl_splat(-INFINITY);                                             \
    int64_t i = 0;                                                              \
    for (; i + SL_LANES <= n; i += SL_LANES) m = sl_greater(m, sl_load(x + i)); \
    if (i < n) m = sl_greater(m, sl_load_n(x + i, n - i, -INFINITY));           \
    return sl_max_lanes(m);                                                     \
  }
SL_MAX_ROW(sl_max_row_f32, float)
SL_MAX_ROW(sl_max_row_bf16, sl_bf16)
#undef SL_MAX_ROW
#define sl_max_row(x, n) SL_BY_TYPE(x, sl_max_row)(x, n)

/* The polynomial of n coefficients at x, the highest power's coefficient first. */
#define SL_POLYNOMIAL(x, ...) \
  sl_polynomial(x, (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
static inline __attribute__((always_inline)) sl_vec sl_polynomial(sl_vec x, const float *coefficient, const int n) {
  sl_vec p = sl_splat(coefficient[0]);
  for (int i = 1; i < n; i++) p = sl_fma(p, x, sl_splat(coefficient[i]));
  return p;
}

/* Bits of a float as an integer, and back; of a double. */
static inline sl_veci sl_bits(sl_vec x) { return (sl_veci)x; }
static inline sl_vec sl_of_bits(sl_veci x) { return (sl_vec)x; }
static inline sl_veci sl_shift(sl_veci x, int left) { return (sl_veci)((sl_vecw)x << left); }
static inline int64_t sl_bits_d(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline double sl_of_bits_d(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define SL_FUNCTION inline
#include "codelets/kernels/functions.h"

/* A vector of doubles with as many bytes, loaded from half as many floats. */
enum { SL_LANES_D = SL_LANES / 2 };
typedef double sl_vecd __attribute__((vector_size(SL_LANES * 4)));
typedef double sl_vecdu __attribute__((vector_size(SL_LANES * 4), aligned(8)));
typedef float sl_vechu __attribute__((vector_size(SL_LANES * 2), aligned(4)));
static inline sl_vecd sl_load_d_f32(const float *p) { return __builtin_convertvector(*(const sl_vechu *)p, sl_vecd); }
static inline sl_vecd sl_load_d_bf16(const sl_bf16 *p) {
  float a[SL_LANES_D];
  for (int i = 0; i < SL_LANES_D; i++) a[i] = sl_get(p + i);
  return sl_load_d_f32(a);
}
#define sl_load_d(p) SL_BY_TYPE(p, sl_load_d)(p)
static inline sl_vecd sl_fma_d(sl_vecd a, sl_vecd b, sl_vecd c) {
#if defined SL_ISA_AVX512
  return (sl_vecd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined SL_ISA_AVX2
  return (sl_vecd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif SL_FUSES
  for (int i = 0; i < SL_LANES_D; i++) c[i] = sl_fmad(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

/* A sum in double has SL_SUM_LANES_D lanes; at the end the lanes are added in order. */
enum { SL_SUM_LANES_D = 8, SL_SUM_VECTORS_D = SL_SUM_LANES_D / SL_LANES_D };
typedef struct sl_sum_d {
  sl_vecd v[SL_SUM_VECTORS_D];
} sl_sum_d;
static inline sl_sum_d sl_sum_add_d(sl_sum_d a, sl_sum_d b) {
  for (int w = 0; w < SL_SUM_VECTORS_D; w++) a.v[w] += b.v[w];
  return a;
}
/* Adds the squares of SL_SUM_LANES_D floats. */
static inline void sl_sum_squares_d(sl_sum_d *s, const float *p) {
  for (int w = 0; w < SL_SUM_VECTORS_D; w++) {
    sl_vecd v = sl_load_d(p + w * SL_LANES_D);
    s->v[w] = sl_fma_d(v, v, s->v[w]);
  }
}
static inline double sl_sum_lanes_d(sl_sum_d s) {
  double lane[SL_SUM_LANES_D], total = 0;
  memcpy(lane, s.v, sizeof lane);
  for (int j = 0; j < SL_SUM_LANES_D; j++) total += lane[j];
  return total;
}

#endif
