/* Philox against Random123's known answers, and properties that Starling relies on: bulk equals single, names never
 * collide, uniform and normal numbers have the right moments. */
#include "runtime/numbers/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"

static void known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } kat[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
    uint32_t out[4];
    sl_philox4x32(kat[i].counter, kat[i].key, out);
    assert_memory_equal(out, kat[i].out, sizeof out);
  }
}

static void bulk_is_single(void **state) {
  (void)state;
  uint32_t bulk[64];
  for (uint64_t first = 0; first < 6; first++)
    for (int64_t n = 0; n < 23; n++) {
      memset(bulk, 0xAB, sizeof bulk);
      sl_random_fill(5, 7, 9, first, n, bulk);
      for (int64_t i = 0; i < n; i++) assert_int_equal(bulk[i], sl_random_u32(5, 7, 9, first + (uint64_t)i));
      assert_int_equal(bulk[n], 0xABABABAB);
    }
}

/* Each part of the name, low and high bits, changes the number. Block and step share a word and must not collide. */
static void names_differ(void **state) {
  (void)state;
  const uint64_t big = (uint64_t)1 << 40;
  uint32_t word[][4] = {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
  sl_random_u32x4(1, 2, 3, 4, word[0]);
  sl_random_u32x4(1 + big, 2, 3, 4, word[1]);
  sl_random_u32x4(2, 2, 3, 4, word[2]);
  sl_random_u32x4(1, 2 + big, 3, 4, word[3]);
  sl_random_u32x4(1, 3, 3, 4, word[4]);
  sl_random_u32x4(1, 2, 3, 4 + big, word[5]);
  sl_random_u32x4(1, 2, 3, 5, word[6]);
  sl_random_u32x4(1, 2, 4, 4, word[7]);
  sl_random_u32x4(1, 2 + big, 3, 4 + big, word[8]);
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < i; j++) assert_memory_not_equal(word[i], word[j], sizeof word[i]);
}

static void uniform(void **state) {
  (void)state;
  assert_true(sl_random_uniform(0) == 0.0f);
  assert_true(sl_random_uniform(0xFFFFFFFFu) < 1.0f);
  enum { N = 1 << 18, BINS = 16 };
  uint32_t *word = malloc(N * sizeof *word);
  assert_non_null(word);
  sl_random_fill(42, 0, 1, 0, N, word);
  double sum = 0, lag = 0, chi = 0;
  int bin[BINS] = {0};
  for (int i = 0; i < N; i++) {
    const double u = (double)sl_random_uniform(word[i]);
    sum += u;
    bin[(int)(u * BINS)]++;
    if (i) lag += (u - 0.5) * ((double)sl_random_uniform(word[i - 1]) - 0.5);
  }
  for (int b = 0; b < BINS; b++) chi += pow(bin[b] - (double)N / BINS, 2) / ((double)N / BINS);
  free(word);
  assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N)); /* five standard errors */
  assert_true(fabs(lag / N) < 5 / 12.0 / sqrt(N));
  assert_true(chi < 45); /* 15 degrees of freedom: one in ten thousand */
}

static void normal(void **state) {
  (void)state;
  enum { N = 1 << 17 };
  double sum = 0, square = 0, fourth = 0, pair = 0;
  for (int i = 0; i < N; i++) {
    const double z = sl_random_normal(42, 0, 1, (uint64_t)i);
    assert_true(isfinite(z));
    sum += z;
    square += z * z;
    fourth += z * z * z * z;
    if (i % 2) pair += z * sl_random_normal(42, 0, 1, (uint64_t)i - 1);
  }
  assert_true(fabs(sum / N) < 5 / sqrt(N));
  assert_true(fabs(square / N - 1) < 5 * sqrt(2.0 / N));
  assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
  assert_true(fabs(pair / (N / 2)) < 5 / sqrt(N / 2));
  double out[2];
  sl_random_normal2(0, 0, 1, out);
  assert_true(isfinite(out[0]) && out[0] > 5);
  sl_random_normal2(0xFFFFFFFFu, 0, 1, out);
  assert_true(out[0] == 0);
  sl_random_normal2(0, 0, 3, out);
  assert_true(out[0] > 15);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers), cmocka_unit_test(bulk_is_single),
                                     cmocka_unit_test(names_differ), cmocka_unit_test(uniform),
                                     cmocka_unit_test(normal)};
  return cmocka_run_group_tests_name("runtime/philox", tests, NULL, NULL);
}
