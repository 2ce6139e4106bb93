/* exp, log, erf and GELU against libm in higher precision, over their whole range. The program uses the baseline's
 * kernels; kernels with fused multiply-adds have the same formulas and round less often. */
#if !defined SL_ISA_AVX2 && !defined SL_ISA_AVX512
#define SL_ISA_BASE
#endif
#include "codelets/kernels/math.h"

#include "tests/support/scratch.h"

/* Units in the last place of a float of size x. */
static double ulp(double x) {
  float f = fabsf((float)x);
  if (!(f < INFINITY)) return FLT_MAX * 0x1p-24;
  return fmax((double)nextafterf(f, INFINITY) - (double)f, 0x1p-149);
}

/* Largest error of f against g over [from, to], in units of the larger of |g| and size(x); NaN where f is one. */
static double worst(sl_vec (*f)(sl_vec), double (*g)(double), double (*size)(double), float from, float to) {
  double most = 0;
  const int steps = 400000;
  for (int i = 0; i < steps; i += SL_LANES) {
    float x[SL_LANES], y[SL_LANES];
    for (int l = 0; l < SL_LANES; l++) x[l] = (float)((double)from + ((double)to - (double)from) * (i + l) / steps);
    sl_store(y, f(sl_load(x)));
    for (int l = 0; l < SL_LANES; l++) {
      double want = g((double)x[l]), error = fabs((double)y[l] - want);
      if ((double)y[l] == want || ((double)(float)want == INFINITY && y[l] == INFINITY)) continue;
      error /= ulp(fmax(fabs(want), size ? size((double)x[l]) : 0));
      if (isnan(error)) return error;
      if (error > most) most = error;
    }
  }
  return most;
}

static void within(double error, double bound, const char *what) {
  print_message("# %s: %.2f units in the last place\n", what, error);
  if (!(error <= bound)) fail_msg("%s: %.3g units in the last place, %.3g are allowed", what, error, bound);
}

static sl_vec vec_exp(sl_vec x) { return sl_exp(x); }
static sl_vec vec_erf(sl_vec x) { return sl_erf(x); }

static void exponential(void **state) {
  (void)state;
  within(worst(vec_exp, exp, NULL, -87.3f, 88.7f), 1.5, "exp over its range");
  within(worst(vec_exp, exp, NULL, -1, 1), 1.5, "exp around 0");
  within(worst(vec_exp, exp, NULL, -104, -87.3f), 1.5, "exp down to the smallest number");
  within(worst(vec_exp, exp, NULL, 88.7f, 1e4f), 1.5, "exp beyond the largest number");
}

static void error_function(void **state) {
  (void)state;
  within(worst(vec_erf, erf, NULL, -6, 6), 2.5, "erf over its range");
  within(worst(vec_erf, erf, NULL, -1e-3f, 1e-3f), 1.5, "erf around 0");
}

/* The largest error of f against g over numbers between `from` and `to`, evenly or by equal factors, in units in
 * the last place of the result. */
static double worst_d(double (*f)(double), long double (*g)(long double), double from, double to, int grows) {
  const int steps = 400000;
  double most = 0;
  for (int i = 0; i < steps; i++) {
    const double part = (i + 0.37) / steps,
                 x = grows ? exp(log(from) + part * (log(to) - log(from))) : from + (to - from) * part;
    const long double want = g((long double)x), unit = ldexpl(1, (int)fmaxl(logbl(want), -1022) - 52);
    const double error = (double)(fabsl((long double)f(x) - want) / unit);
    if (isnan(error)) return error;
    most = fmax(most, error);
  }
  return most;
}
static double one_exp_d(double x) { return sl_exp_d(x); }
static double one_log_d(double x) { return sl_log_d(x); }

/* Without fused multiply-adds a rounding error more. */
static void doubles(void **state) {
  (void)state;
  const double bound = SL_FUSES ? 1 : 2;
  within(worst_d(one_exp_d, expl, -708, 709, 0), bound, "exp of a double over its range");
  within(worst_d(one_exp_d, expl, -1, 1, 0), bound, "exp of a double around 0");
  within(worst_d(one_exp_d, expl, -745, -708, 0), bound, "exp of a double down to the smallest number");
  within(worst_d(one_log_d, logl, 1e-300, 1e300, 1), bound, "log of a double over its range");
  within(worst_d(one_log_d, logl, 1, 100, 1), bound, "log of a double from 1 on");
  within(worst_d(one_log_d, logl, 0.5, 1, 0), bound, "log of a double below 1");
  assert_true(sl_exp_d(0) == 1 && sl_exp_d(-INFINITY) == 0 && sl_exp_d(INFINITY) == INFINITY && isnan(sl_exp_d(NAN)));
  assert_true(sl_exp_d(-1e300) == 0 && sl_exp_d(1e300) == INFINITY);
  assert_true(sl_log_d(1) == 0 && sl_log_d(INFINITY) == INFINITY && isnan(sl_log_d(NAN)));
}

static const double pi = 3.14159265358979323846;
static double argument(double x) { return sqrt(2 / pi) * (x + 0.044715 * x * x * x); }
static double by_erf(double x) { return x / 2 * (1 + erf(x / sqrt(2))); }
static double by_erf_slope(double x) { return (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi); }
static double by_tanh(double x) { return x / 2 * (1 + tanh(argument(x))); }
static double by_tanh_slope(double x) {
  double t = tanh(argument(x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
}
static double same(double x) { return fabs(x); }
static double one(double x) { return 1 + fabs(x); }
static sl_vec vec_by_erf(sl_vec x) { return sl_gelu_erf(x); }
static sl_vec vec_by_tanh(sl_vec x) { return sl_gelu_tanh(x); }
static sl_vec vec_by_erf_slope(sl_vec x) { return sl_gelu_erf_slope(x); }
static sl_vec vec_by_tanh_slope(sl_vec x) { return sl_gelu_tanh_slope(x); }

static void gelu(void **state) {
  (void)state;
  within(worst(vec_by_erf, by_erf, same, -20, 20), 2, "gelu by erf");
  within(worst(vec_by_tanh, by_tanh, same, -20, 20), 2, "gelu by tanh");
  within(worst(vec_by_erf_slope, by_erf_slope, one, -20, 20), 2, "slope of gelu by erf");
  within(worst(vec_by_tanh_slope, by_tanh_slope, one, -20, 20), 3, "slope of gelu by tanh");
}

static void odd_numbers(void **state) {
  (void)state;
  sl_vec (*const functions[])(sl_vec) = {vec_exp,     vec_erf,          vec_by_erf,
                                         vec_by_tanh, vec_by_erf_slope, vec_by_tanh_slope};
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    sl_vec y = functions[f](sl_splat(NAN));
    assert_true(isnan(y[0]) && isnan(y[SL_LANES - 1]));
  }
  assert_true(sl_exp(sl_splat(INFINITY))[0] == INFINITY);
  assert_true(sl_exp(sl_splat(-INFINITY))[0] == 0);
  assert_true(sl_exp(sl_splat(0))[0] == 1);
  assert_true(sl_erf(sl_splat(INFINITY))[0] == 1 && sl_erf(sl_splat(-INFINITY))[0] == -1);
  assert_true(sl_gelu_erf_slope(sl_splat(1e20f))[0] == 1 && sl_gelu_tanh_slope(sl_splat(1e20f))[0] == 1);
  assert_true(fabsf(sl_gelu_tanh_slope(sl_splat(-1e20f))[0]) < 1e-20f &&
              fabsf(sl_gelu_erf_slope(sl_splat(-1e20f))[0]) < 1e-20f);
}

static void rows(void **state) {
  (void)state;
  float x[3 * SL_LANES + 1];
  for (int n = 1; n <= 3 * SL_LANES; n++)
    for (int at = 0; at < n; at++) {
      for (int i = 0; i <= 3 * SL_LANES; i++)
        x[i] = i < n ? -3 - (float)(i % 5) : 1e9f; /* elements after n are not read */
      x[at] = -2;
      assert_true(sl_max_row(x, n) == -2);
      x[at] = NAN;
      assert_true(isnan(sl_max_row(x, n)));
    }
  sl_sum s;
  for (int i = 0; i < SL_SUM_LANES; i++) s.v[i / SL_LANES][i % SL_LANES] = (float)(1 << i);
  assert_true(sl_sum_lanes(s) == (float)((1 << SL_SUM_LANES) - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exponential), cmocka_unit_test(error_function), cmocka_unit_test(gelu),
      cmocka_unit_test(odd_numbers), cmocka_unit_test(rows),           cmocka_unit_test(doubles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
