/* Vector mathematics for kernels: exp, erf and GELU on whole registers, partial loads and stores, and sums in
 * double. These functions are ours because libm has no vectors in the baseline, and its bits change between
 * versions.
 *
 * An element's result depends on its value alone, not on its place in the array: the ends of arrays go through the
 * same instructions, padded. Polynomials are minimax fits (Remez); errors are below 2 units in the last place of
 * exp(x), of erf(x) and, for GELU, of the larger of |x| and |y|. NaN gives NaN. */
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
static inline sl_vec sl_abs(sl_vec x) { return (sl_vec)((sl_veci)x & 0x7fffffff); }

/* Loads the first n < SL_LANES elements; the others are `fill`. */
static inline sl_vec sl_load_n(const float *p, int64_t n, float fill) {
  sl_vec v = sl_splat(fill);
  memcpy(&v, p, (size_t)n * sizeof *p);
  return v;
}
static inline void sl_store_n(float *p, sl_vec v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof *p); }

/* Loads up to SL_LANES of the n elements left, none if n < 1; the others are `fill`. */
static inline sl_vec sl_load_left(const float *p, int64_t n, float fill) {
  return n >= SL_LANES ? sl_load(p) : sl_load_n(p, sl_max64(n, 0), fill);
}

/* Sums along a row go over SL_SUM_LANES lanes under every instruction set, in as many vectors as that takes: element i
 * is added to lane i % SL_SUM_LANES, then the lanes are added by halves. So AVX2 and AVX-512 have the same bits.
 * Several such sums, added up at the end, overlap additions. */
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

/* Maximum over lanes. NaN counts as the maximum. */
static inline float sl_max_lanes(sl_vec v) {
  float a[SL_LANES];
  memcpy(a, &v, sizeof a);
  for (int n = SL_LANES / 2; n; n /= 2)
    for (int i = 0; i < n; i++) a[i] = a[i + n] > a[i] || a[i + n] != a[i + n] ? a[i + n] : a[i];
  return a[0];
}
static inline sl_vec sl_greater(sl_vec a, sl_vec b) { return sl_select((b > a) | (b != b), b, a); }
static inline float sl_max_row(const float *x, int64_t n) {
  sl_vec m = sl_splat(-INFINITY);
  int64_t i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) m = sl_greater(m, sl_load(x + i));
  if (i < n) m = sl_greater(m, sl_load_n(x + i, n - i, -INFINITY));
  return sl_max_lanes(m);
}

/* The polynomial of n coefficients at x, the highest power's coefficient first. */
#define SL_POLYNOMIAL(x, ...) \
  sl_polynomial(x, (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
static inline __attribute__((always_inline)) sl_vec sl_polynomial(sl_vec x, const float *coefficient, const int n) {
  sl_vec p = sl_splat(coefficient[0]);
  for (int i = 1; i < n; i++) p = sl_fma(p, x, sl_splat(coefficient[i]));
  return p;
}

/* exp(x) = 2^n exp(r), |r| <= log(2) / 2; correct down to denormal numbers and up to infinity. */
static inline sl_vec sl_exp(sl_vec x) {
  const float magic = 0x1.8p23f; /* adding it rounds to a whole number, which is then in the low bits */
  x = sl_select(x > 89.0f, sl_splat(89.0f), x);
  x = sl_select(x < -104.0f, sl_splat(-104.0f), x);
  sl_vec t = sl_fma(x, sl_splat(0x1.715476p0f), sl_splat(magic)), n = t - magic;
  sl_vec r =
      sl_fma(n, sl_splat(-0x1.62ep-1f), x); /* log 2 in two parts; the first is so short that n times it is exact */
  r = sl_fma(n, sl_splat(-0x1.0bfbe8p-15f), r);
  sl_vec p = SL_POLYNOMIAL(r, 0x1.6a2256p-10f, 0x1.123b02p-7f, 0x1.5558f8p-5f, 0x1.55549p-3f, 0x1.fffffcp-2f);
  sl_vec e = 1.0f + sl_fma(r * r, p, r);
  sl_veci whole = (sl_veci)t - 0x4b400000, half = whole >> 1;
  sl_vec a = (sl_vec)((sl_vecw)(half + 127) << 23), b = (sl_vec)((sl_vecw)(whole - half + 127) << 23);
  return e * a * b;
}

/* erf(x) = x + x P(x^2) up to 1, sign(x) (1 - exp(Q(|x|))) beyond; 1 from 4.1 on. */
static inline sl_vec sl_erf(sl_vec x) {
  sl_vec a = sl_abs(x);
  sl_vec p = SL_POLYNOMIAL(x * x, 7.853861089e-5f, -8.010193533714e-4f, 5.188327673674e-3f, -2.685381192786e-2f,
                           1.128358514840522e-1f, -3.761262582421299e-1f, 1.283791657267128e-1f);
  sl_vec small = sl_fma(x, p, x);
  sl_vec t = sl_select(a > 4.1f, sl_splat(4.1f), a);
  sl_vec q =
      SL_POLYNOMIAL(t, 1.9242507193573098e-4f, -3.0085280398519784e-3f, 2.2087606763513557e-2f, -1.0364025564206035e-1f,
                    -6.375170847451348e-1f, -1.1274749427603277f, -2.447235080608595e-4f);
  sl_vec large = (sl_vec)((sl_veci)(1.0f - sl_exp(q)) | ((sl_veci)x & INT32_MIN));
  return sl_select(a <= 1.0f, small, large);
}

#define SL_SQRT_HALF 0.70710678118654752f
#define SL_SQRT_2_BY_PI 0.79788456080286536f

/* x Phi(x), and its derivative Phi(x) + x phi(x). */
static inline sl_vec sl_gelu_erf(sl_vec x) { return 0.5f * x * (1.0f + sl_erf(x * SL_SQRT_HALF)); }
static inline sl_vec sl_gelu_erf_slope(sl_vec x) {
  sl_vec density = 0.39894228040143268f * sl_exp(x * x * -0.5f);
  return sl_fma(x, density, sl_fma(sl_splat(0.5f), sl_erf(x * SL_SQRT_HALF), sl_splat(0.5f)));
}

/* x (1 + tanh u) / 2 = x / (1 + e), e = exp(-2u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline sl_vec sl_gelu_tanh_exp(sl_vec x) {
  return sl_exp(x * sl_fma(x * x, sl_splat(-2 * 0.044715f * SL_SQRT_2_BY_PI), sl_splat(-2 * SL_SQRT_2_BY_PI)));
}
static inline sl_vec sl_gelu_tanh(sl_vec x) { return x * (1.0f / (1.0f + sl_gelu_tanh_exp(x))); }
/* s + 2 x u' s (1 - s), s = 1 / (1 + e), where 1 - s = e s. Beyond 9, s is 0 or 1; below, e is finite. */
static inline sl_vec sl_gelu_tanh_slope(sl_vec x) {
  x = sl_select(x > 9.0f, sl_splat(9.0f), x);
  x = sl_select(x < -9.0f, sl_splat(-9.0f), x);
  sl_vec e = sl_gelu_tanh_exp(x), s = 1.0f / (1.0f + e);
  sl_vec slope2 = sl_fma(x * x, sl_splat(6 * 0.044715f * SL_SQRT_2_BY_PI), sl_splat(2 * SL_SQRT_2_BY_PI)); /* 2 u' */
  return sl_fma(x * slope2 * (e * s), s, s);
}

/* A vector of doubles with as many bytes, loaded from half as many floats. */
enum { SL_LANES_D = SL_LANES / 2 };
typedef double sl_vecd __attribute__((vector_size(SL_LANES * 4)));
typedef double sl_vecdu __attribute__((vector_size(SL_LANES * 4), aligned(8)));
typedef float sl_vechu __attribute__((vector_size(SL_LANES * 2), aligned(4)));
static inline sl_vecd sl_load_d(const float *p) { return __builtin_convertvector(*(const sl_vechu *)p, sl_vecd); }
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

/* Sums in double go over SL_SUM_LANES_D lanes, which are added in order. */
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
