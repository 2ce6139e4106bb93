/* exp, log, erf and GELU, written once for the CPU's vectors and for a GPU's threads, so that both give the same bits.
 * The functions use only additions, products, fused multiply-adds, divisions and integers, which IEEE 754 rounds alike
 * everywhere. They call no function of libm, whose bits change with its version and with the processor. On a processor
 * without fused multiply-add (x86's baseline) sl_fma rounds twice, so that kernel set has bits of its own.
 *
 * Included by math.h, where sl_vec is a vector of SL_LANES floats, and by cuda.h, where it is a float. An element's
 * result depends on its value alone, not on its lane. Polynomials are minimax fits (Remez); errors are below 2 units in
 * the last place of exp(x), of erf(x) and, for GELU, of the larger of |x| and |y|. NaN gives NaN. */
#ifndef SL_FUNCTIONS_H
#define SL_FUNCTIONS_H

/* exp(x) = 2^n exp(r), |r| <= log(2) / 2; correct down to denormal numbers and up to infinity. */
static SL_FUNCTION sl_vec sl_exp(sl_vec x) {
  const float magic = 0x1.8p23f; /* adding it rounds to a whole number, which is then in the low bits */
  x = sl_select(x > 89.0f, sl_splat(89.0f), x);
  x = sl_select(x < -104.0f, sl_splat(-104.0f), x);
  sl_vec t = sl_fma(x, sl_splat(0x1.715476p0f), sl_splat(magic)), n = t - magic;
  sl_vec r =
      sl_fma(n, sl_splat(-0x1.62ep-1f), x); /* log 2 in two parts; the first is so short that n times it is exact */
  r = sl_fma(n, sl_splat(-0x1.0bfbe8p-15f), r);
  sl_vec p = SL_POLYNOMIAL(r, 0x1.6a2256p-10f, 0x1.123b02p-7f, 0x1.5558f8p-5f, 0x1.55549p-3f, 0x1.fffffcp-2f);
  sl_vec e = 1.0f + sl_fma(r * r, p, r);
  sl_veci whole = sl_bits(t) - 0x4b400000, half = whole >> 1;
  sl_vec a = sl_of_bits(sl_shift(half + 127, 23)), b = sl_of_bits(sl_shift(whole - half + 127, 23));
  return e * a * b;
}

/* exp(x) for x that is at most a rounding error above 0, or NaN; the result is 0 below -87. It has about half of the
 * instructions of sl_exp, from which it is derived. */
static SL_FUNCTION sl_vec sl_exp_low(sl_vec x) {
  const float magic = 0x1.8p23f + 127; /* the whole number left in the low bits is an exponent */
  sl_vec t = sl_fma(x, sl_splat(0x1.715476p0f), sl_splat(magic)), n = t - magic;
  sl_vec r = sl_fma(n, sl_splat(-0x1.62ep-1f), x);
  r = sl_fma(n, sl_splat(-0x1.0bfbe8p-15f), r);
  sl_vec p = SL_POLYNOMIAL(r, 0x1.6a2256p-10f, 0x1.123b02p-7f, 0x1.5558f8p-5f, 0x1.55549p-3f, 0x1.fffffcp-2f);
  sl_vec e = (1.0f + sl_fma(r * r, p, r)) * sl_of_bits(sl_shift(sl_bits(t), 23));
  return sl_zero_below(-87.0f, x, e);
}

/* erf(x) = x + x P(x^2) up to 1, sign(x) (1 - exp(Q(|x|))) beyond; 1 from 4.1 on. */
static SL_FUNCTION sl_vec sl_erf(sl_vec x) {
  sl_vec a = sl_abs(x);
  sl_vec p = SL_POLYNOMIAL(x * x, 7.853861089e-5f, -8.010193533714e-4f, 5.188327673674e-3f, -2.685381192786e-2f,
                           1.128358514840522e-1f, -3.761262582421299e-1f, 1.283791657267128e-1f);
  sl_vec small = sl_fma(x, p, x);
  sl_vec t = sl_select(a > 4.1f, sl_splat(4.1f), a);
  sl_vec q =
      SL_POLYNOMIAL(t, 1.9242507193573098e-4f, -3.0085280398519784e-3f, 2.2087606763513557e-2f, -1.0364025564206035e-1f,
                    -6.375170847451348e-1f, -1.1274749427603277f, -2.447235080608595e-4f);
  sl_vec large = sl_of_bits(sl_bits(1.0f - sl_exp(q)) | (sl_bits(x) & INT32_MIN));
  return sl_select(a <= 1.0f, small, large);
}

#define SL_SQRT_HALF 0.70710678118654752f
#define SL_SQRT_2_BY_PI 0.79788456080286536f

/* x Phi(x), and its derivative Phi(x) + x phi(x). */
static SL_FUNCTION sl_vec sl_gelu_erf(sl_vec x) { return 0.5f * x * (1.0f + sl_erf(x * SL_SQRT_HALF)); }
static SL_FUNCTION sl_vec sl_gelu_erf_slope(sl_vec x) {
  sl_vec density = 0.39894228040143268f * sl_exp(x * x * -0.5f);
  return sl_fma(x, density, sl_fma(sl_splat(0.5f), sl_erf(x * SL_SQRT_HALF), sl_splat(0.5f)));
}

/* x (1 + tanh u) / 2 = x / (1 + e), e = exp(-2u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static SL_FUNCTION sl_vec sl_gelu_tanh_exp(sl_vec x) {
  return sl_exp(x * sl_fma(x * x, sl_splat(-2 * 0.044715f * SL_SQRT_2_BY_PI), sl_splat(-2 * SL_SQRT_2_BY_PI)));
}
static SL_FUNCTION sl_vec sl_gelu_tanh(sl_vec x) { return x * (1.0f / (1.0f + sl_gelu_tanh_exp(x))); }
/* s + 2 x u' s (1 - s), s = 1 / (1 + e), where 1 - s = e s. Beyond 9, s is 0 or 1; below, e is finite. */
static SL_FUNCTION sl_vec sl_gelu_tanh_slope(sl_vec x) {
  x = sl_select(x > 9.0f, sl_splat(9.0f), x);
  x = sl_select(x < -9.0f, sl_splat(-9.0f), x);
  sl_vec e = sl_gelu_tanh_exp(x), s = 1.0f / (1.0f + e);
  sl_vec slope2 = sl_fma(x * x, sl_splat(6 * 0.044715f * SL_SQRT_2_BY_PI), sl_splat(2 * SL_SQRT_2_BY_PI)); /* 2 u' */
  return sl_fma(x * slope2 * (e * s), s, s);
}

/* exp and log of one double, for values of which a row has one or two. Errors are below 1 unit in the last place.
 *
 * exp(x) = 2^n exp(r) as above, by the Taylor series up to r^13: the next term is below 2^-58 of the sum. */
static SL_FUNCTION double sl_exp_d(double x) {
  const double magic = 0x1.8p52;
  if (!(x <= 710)) return x > 710 ? (double)INFINITY : x;
  if (x < -746) return 0;
  const double t = sl_fmad(x, 0x1.71547652b82fep0, magic), n = t - magic;
  const double r = sl_fmad(n, -0x1.ef35793c76730p-45, sl_fmad(n, -0x1.62e42fefa3800p-1, x));
  double p = 1.6059043836821613e-10; /* 1 / 13! */
  p = sl_fmad(p, r, 2.0876756987868099e-9);
  p = sl_fmad(p, r, 2.5052108385441719e-8);
  p = sl_fmad(p, r, 2.7557319223985891e-7);
  p = sl_fmad(p, r, 2.7557319223985891e-6);
  p = sl_fmad(p, r, 2.4801587301587302e-5);
  p = sl_fmad(p, r, 1.9841269841269841e-4);
  p = sl_fmad(p, r, 1.3888888888888889e-3);
  p = sl_fmad(p, r, 8.3333333333333333e-3);
  p = sl_fmad(p, r, 4.1666666666666667e-2);
  p = sl_fmad(p, r, 0.16666666666666667);
  p = sl_fmad(p, r, 0.5);
  const double e = 1 + sl_fmad(r * r, p, r);
  const int64_t whole = (int64_t)n, half = whole >> 1;
  return e * sl_of_bits_d((half + 1023) << 52) * sl_of_bits_d((whole - half + 1023) << 52);
}

/* log(x) for x > 0 that is not denormal; infinity and NaN stay. x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), and
 * log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R), s = f / (2 + f), R = 2 (s^2 / 3 + s^4 / 5 + ...), which loses nothing to
 * cancellation. */
static SL_FUNCTION double sl_log_d(double x) {
  if (!(x < (double)INFINITY)) return x;
  const int64_t bits = sl_bits_d(x), above = bits - 0x3fe6a09e667f3bcd, n = above >> 52;
  const double f = sl_of_bits_d(bits - n * ((int64_t)1 << 52)) - 1, s = f / (2 + f), z = s * s, square = 0.5 * f * f;
  double p = 2.0 / 21;
  p = sl_fmad(p, z, 2.0 / 19);
  p = sl_fmad(p, z, 2.0 / 17);
  p = sl_fmad(p, z, 2.0 / 15);
  p = sl_fmad(p, z, 2.0 / 13);
  p = sl_fmad(p, z, 2.0 / 11);
  p = sl_fmad(p, z, 2.0 / 9);
  p = sl_fmad(p, z, 2.0 / 7);
  p = sl_fmad(p, z, 2.0 / 5);
  p = sl_fmad(p, z, 2.0 / 3);
  const double low = sl_fmad((double)n, 0x1.ef35793c76730p-45, s * sl_fmad(z, p, square));
  return sl_fmad((double)n, 0x1.62e42fefa3800p-1, f - (square - low));
}

#endif
