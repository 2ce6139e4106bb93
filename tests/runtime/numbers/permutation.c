/* runtime/numbers/permutation.c: the permutation is a bijection for any n, depends on seed and stream, and looks
 * uniform.
 */
#include "runtime/numbers/permutation.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static void check_bijection(int64_t n, uint64_t seed, uint64_t stream) {
  sl_permutation p = sl_permutation_make(n, seed, stream);
  uint8_t *seen = calloc((size_t)n, 1);
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = sl_permutation_at(&p, i);
    if (at < 0 || at >= n || seen[at])
      fail_msg("n %lld: %lld goes to %lld, which is outside or taken", (long long)n, (long long)i, (long long)at);
    seen[at] = 1;
  }
  free(seen);
}

static void is_a_bijection(void **state) {
  (void)state;
  for (int64_t n = 1; n <= 300; n++) check_bijection(n, 42, (uint64_t)n);
  const int64_t others[] = {1023, 1024, 1025, 4095, 4096, 4097, 60000, 65535, 65536, 65537, 262145, 1000003};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    for (uint64_t seed = 0; seed < 3; seed++) check_bijection(others[i], seed, SL_PERMUTATION_SPLIT);
}

static void large_n_stays_within(void **state) {
  (void)state;
  const int64_t n = ((int64_t)1 << 40) + 12345;
  sl_permutation p = sl_permutation_make(n, 7, 0);
  int64_t low = 0;
  for (int64_t i = 0; i < 10000; i++) {
    const int64_t at = sl_permutation_at(&p, n - 1 - i);
    assert_true(at >= 0 && at < n);
    low += at < n / 2;
  }
  assert_in_range(low, 4700, 5300); /* 6 standard deviations about 5000 */
}

/* Recorded values: a resumed run depends on the same order. */
static void is_the_same_for_ever(void **state) {
  (void)state;
  static const int64_t expected[2][8] = {{10531, 54197, 30446, 49810, 44184, 46721, 42743, 50577},
                                         {19140, 43423, 17744, 57050, 48957, 41873, 50100, 41666}};
  for (int e = 0; e < 2; e++) {
    sl_permutation p = sl_permutation_make(60000, 1, (uint64_t)e);
    for (int i = 0; i < 8; i++) assert_int_equal(sl_permutation_at(&p, i), expected[e][i]);
  }
}

/* Chi-squared of the places of element 0, and of the pair (0, 1), over many streams. */
static void is_uniform_over_streams(void **state) {
  (void)state;
  enum { N = 10, DRAWS = 90000 };
  double first[N] = {0}, pair[N][N] = {{0}};
  for (uint64_t s = 0; s < DRAWS; s++) {
    sl_permutation p = sl_permutation_make(N, 3, s);
    const int64_t a = sl_permutation_at(&p, 0), b = sl_permutation_at(&p, 1);
    first[a]++, pair[a][b]++;
  }
  double chi = 0, chi2 = 0;
  for (int a = 0; a < N; a++) {
    chi += pow(first[a] - DRAWS / 10.0, 2) / (DRAWS / 10.0);
    for (int b = 0; b < N; b++)
      if (a != b) chi2 += pow(pair[a][b] - DRAWS / 90.0, 2) / (DRAWS / 90.0);
  }
  if (chi > 33.7) fail_msg("chi-squared of 9 degrees is %g (1 in 10,000: 33.7)", chi);
  if (chi2 > 146) fail_msg("chi-squared of 89 degrees is %g (1 in 10,000: 146)", chi2);
}

/* Neighbours must not stay neighbours: within a permutation, the correlation of i and its place is about n^-1/2. */
static void leaves_no_order(void **state) {
  (void)state;
  const int64_t n = 60000;
  sl_permutation p = sl_permutation_make(n, 5, 5);
  double sum = 0, steps = 0;
  int64_t before = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = sl_permutation_at(&p, i);
    sum += ((double)i / n - 0.5) * ((double)at / n - 0.5) * 12;
    if (i) steps += fabs((double)(at - before)) / n;
    before = at;
  }
  assert_true(fabs(sum / n) < 0.025);            /* 6 standard deviations */
  assert_true(fabs(steps / n - 1.0 / 3) < 0.01); /* mean distance of two uniform numbers */
}

static void seed_and_stream_matter(void **state) {
  (void)state;
  const int64_t n = 1000;
  const uint64_t keys[4][2] = {{1, 0}, {2, 0}, {1, 1}, {0, 1}};
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < a; b++) {
      sl_permutation p = sl_permutation_make(n, keys[a][0], keys[a][1]),
                     q = sl_permutation_make(n, keys[b][0], keys[b][1]);
      int same = 0;
      for (int64_t i = 0; i < n; i++) same += sl_permutation_at(&p, i) == sl_permutation_at(&q, i);
      assert_in_range(same, 0, 8); /* 1 expected */
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_a_bijection),       cmocka_unit_test(large_n_stays_within),
      cmocka_unit_test(is_the_same_for_ever), cmocka_unit_test(is_uniform_over_streams),
      cmocka_unit_test(leaves_no_order),      cmocka_unit_test(seed_and_stream_matter),
  };
  return cmocka_run_group_tests_name("permutation", tests, NULL, NULL);
}
