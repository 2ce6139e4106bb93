/* runtime/exchange/compress.c: a message plus its residual equals the original; the rounding; the choice of elements.
 */
#include "runtime/exchange/compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"

enum { N = 5000 };

static float next(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  const float x = (float)(*seed >> 8) / (float)(1 << 24) - 0.5f;
  return x * x * x * expf((float)(*seed % 23) - 11.0f);
}

static void texts(void **state) {
  (void)state;
  sl_compression c;
  assert_ok(sl_compression_parse("none", &c));
  assert_int_equal(c.kind, SL_COMPRESSION_NONE);
  assert_ok(sl_compression_parse("bf16", &c));
  assert_int_equal(c.kind, SL_COMPRESSION_BF16);
  assert_ok(sl_compression_parse("topk", &c));
  assert_true(c.kind == SL_COMPRESSION_TOPK && c.fraction == 0.01);
  assert_ok(sl_compression_parse("topk=0.25", &c));
  assert_true(c.kind == SL_COMPRESSION_TOPK && c.fraction == 0.25);
  const char *wrong[] = {"",        "fp16",     "topk=",     "topk=0", "topk=0.3",
                         "topk=-1", "topk=nan", "topk=0.1x", "bf16=1", "topkx"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(SL_EINVAL, "choose none, bf16, topk", sl_compression_parse(wrong[i], &c));
    assert_int_equal(c.kind, SL_COMPRESSION_NONE);
  }
}

/* During the warm-up the fraction halves each round, from a quarter to the requested one. For sums, twice as much is
 * sent. */
static void warmup(void **state) {
  (void)state;
  sl_compression c;
  assert_ok(sl_compression_parse("topk", &c));
  assert_int_equal(c.warmup, 0);
  assert_true(sl_compression_at(&c, 0, 0).fraction == 0.01);
  c.warmup = 10;
  const double want[] = {0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.03125, 0.03125, 0.015625, 0.015625, 0.01, 0.01};
  for (size_t r = 0; r < sizeof want / sizeof *want; r++) {
    const sl_compression now = sl_compression_at(&c, r, 0);
    assert_true(now.kind == SL_COMPRESSION_TOPK && now.warmup == 0 && now.fraction == want[r]);
    assert_true(sl_compression_at(&c, r, 1).fraction == 2 * want[r]);
  }
  assert_ok(sl_compression_parse("topk=0.25", &c));
  c.warmup = 10;
  assert_true(sl_compression_at(&c, 0, 0).fraction == 0.25);
  assert_ok(sl_compression_parse("bf16", &c));
  assert_int_equal(sl_compression_at(&c, 0, 0).kind, SL_COMPRESSION_BF16);
}

/* A larger fraction never takes fewer bytes; at a hundredth a message has little more than 3 bytes for each float sent.
 */
static void bytes(void **state) {
  (void)state;
  const char *ways[] = {"topk=0.25", "topk=0.1", "topk=0.013", "topk=0.01", "topk=0.0001"};
  sl_compression c;
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    assert_ok(sl_compression_parse(ways[w], &c));
    for (int64_t n = 1; n < 200000; n++) assert_true(sl_compressed_bytes(&c, n) <= sl_compressed_bytes(&c, n + 1));
  }
  assert_ok(sl_compression_parse("topk", &c));
  assert_in_range(sl_compressed_bytes(&c, 1000000), 30000, 31000);
}

/* Message plus residual is exactly the previous value, so nothing is lost in the end. */
static void nothing_is_lost(void **state) {
  (void)state;
  const char *ways[] = {"bf16", "topk", "topk=0.2", "topk=0.0001"};
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
    for (int64_t n = 1; n <= N; n = n * 3 + 1) {
      sl_compression c;
      assert_ok(sl_compression_parse(ways[w], &c));
      static float x[N], residual[N], said[N], before[N];
      const size_t bytes = sl_compressed_bytes(&c, n);
      unsigned char *message = malloc(bytes + 1);
      message[bytes] = 0xa5;
      uint32_t seed = 7;
      memset(residual, 0, sizeof residual);
      for (int round = 0; round < 5; round++) {
        for (int64_t i = 0; i < n; i++) x[i] = next(&seed), before[i] = x[i] + residual[i];
        sl_compress(&c, x, residual, n, message);
        memset(said, 0xff, sizeof said);
        sl_decompress(&c, message, n, said);
        int64_t sent = 0;
        for (int64_t i = 0; i < n; i++) {
          assert_true(said[i] + residual[i] == before[i]);
          sent += said[i] != 0;
        }
        if (c.kind == SL_COMPRESSION_TOPK) assert_int_equal(sent, (int64_t)ceil(c.fraction * (double)n));
      }
      assert_int_equal(message[bytes], 0xa5);
      free(message);
    }
}

static void bf16_rounds_to_nearest(void **state) {
  (void)state;
  const sl_compression c = {SL_COMPRESSION_BF16, 0, 0};
  const struct {
    uint32_t x;
    uint16_t want;
  } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
               {0x80000000, 0x0000}, {0x00000001, 0x0000}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80},
               {0xff800000, 0xff80}, {0xbf7fffff, 0xbf80}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float x, residual = 0;
    uint16_t got;
    memcpy(&x, &cases[i].x, sizeof x);
    sl_compress(&c, &x, &residual, 1, &got);
    assert_int_equal(got, cases[i].want);
    assert_true(isfinite(residual));
  }
  for (uint32_t u = 0x7f800001; u < 0x7f80ffff; u += 77) { /* a NaN stays a NaN */
    float x, residual = 0, back;
    uint16_t got;
    memcpy(&x, &u, sizeof x);
    sl_compress(&c, &x, &residual, 1, &got);
    sl_decompress(&c, &got, 1, &back);
    assert_true(isnan(back) && residual == 0);
  }
}

static void topk_takes_the_largest(void **state) {
  (void)state;
  const sl_compression c = {SL_COMPRESSION_TOPK, 0.02, 0};
  static float x[N], residual[N], said[N];
  uint32_t seed = 3;
  for (int i = 0; i < N; i++) x[i] = next(&seed), residual[i] = 0;
  x[4321] = NAN, x[17] = -INFINITY;
  char message[N];
  assert_in_range(sl_compressed_bytes(&c, N), 1, sizeof message);
  sl_compress(&c, x, residual, N, message);
  sl_decompress(&c, message, N, said);
  assert_true(isnan(said[4321]) && isinf(said[17])); /* so that the broken step is detected */
  assert_true(residual[4321] == 0 && residual[17] == 0);
  float least = INFINITY, most = 0;
  for (int i = 0; i < N; i++) {
    if (i == 4321 || i == 17) continue;
    assert_true(isfinite(said[i]));
    if (said[i] != 0 && fabsf(said[i]) < least) least = fabsf(said[i]);
    if (said[i] == 0 && fabsf(x[i]) > most) most = fabsf(x[i]);
  }
  assert_true(most <= least * 1.01f); /* except magnitudes that 8 bits cannot distinguish */
  for (int i = 0; i < N; i++) x[i] = 1, residual[i] = 0;
  sl_compress(&c, x, residual, N, message);
  sl_decompress(&c, message, N, said);
  for (int i = 0; i < N; i++) assert_true(said[i] == (i < N / 50 ? 1 : 0));
}

/* The elements sent lie at the beginning, at the end, together, or far apart. */
static void indices(void **state) {
  (void)state;
  sl_compression c;
  const char *ways[] = {"topk=0.25", "topk=0.02", "topk=0.0004"};
  static float x[N], residual[N], said[N];
  char message[2 * N];
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    assert_ok(sl_compression_parse(ways[w], &c));
    const int k = (int)ceil(c.fraction * N), firsts[] = {0, N - k, N / 3};
    for (int apart = 1; apart <= N / k; apart = apart * 2 + 1)
      for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        memset(x, 0, sizeof x);
        memset(residual, 0, sizeof residual);
        for (int i = 0; i < k; i++) x[(firsts[f] + i * apart) % N] = (float)(i % 100 + 1);
        assert_in_range(sl_compressed_bytes(&c, N), 1, sizeof message);
        sl_compress(&c, x, residual, N, message);
        sl_decompress(&c, message, N, said);
        assert_memory_equal(said, x, sizeof x);
      }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts),
      cmocka_unit_test(warmup),
      cmocka_unit_test(bytes),
      cmocka_unit_test(nothing_is_lost),
      cmocka_unit_test(bf16_rounds_to_nearest),
      cmocka_unit_test(topk_takes_the_largest),
      cmocka_unit_test(indices),
  };
  return cmocka_run_group_tests_name("runtime/compress", tests, NULL, NULL);
}
