/* tools/text/sample.c: which tokens can be drawn, how often, and that a seed repeats the draws. */
#include "tools/text/sample.h"

#include <math.h>

#include "tests/support/scratch.h"

enum { N = 6, DRAWS = 20000 };
/* Probabilities 0.4, 0.25, 0.15, 0.1, 0.07, 0.03 in another order: tokens 3, 0, 5, 1, 4, 2. */
static const double p[N] = {0.25, 0.1, 0.03, 0.4, 0.07, 0.15};

static void logits_of(float *logits) {
  for (int i = 0; i < N; i++) logits[i] = (float)log(p[i]) + 3;
}

static int32_t draw_one(const sl__sampling *s, const float *logits, int64_t n, uint64_t draw) {
  sl__candidate room[64];
  int32_t token = -1;
  assert_ok(sl__sample(s, logits, n, draw, room, &token));
  assert_in_range(token, 0, n - 1);
  return token;
}

/* Frequencies over DRAWS draws are within five standard deviations of the expected ones. */
static void assert_drawn(const sl__sampling *s, const double *expected) {
  float logits[N];
  int count[N] = {0};
  logits_of(logits);
  for (uint64_t d = 0; d < DRAWS; d++) count[draw_one(s, logits, N, d)]++;
  for (int i = 0; i < N; i++) {
    if (expected[i] == 0) assert_int_equal(count[i], 0);
    assert_near((double)count[i] / DRAWS, expected[i], 5 * sqrt(expected[i] * (1 - expected[i]) / DRAWS));
  }
}

static void greedy(void **state) {
  (void)state;
  float logits[N] = {1, 5, -INFINITY, 5, 2, 0};
  for (uint64_t d = 0; d < 100; d++) {
    assert_int_equal(draw_one(&(sl__sampling){.temperature = 0, .top_p = 1, .seed = d}, logits, N, d), 1);
    assert_int_equal(draw_one(&(sl__sampling){.temperature = 1, .top_k = 1, .top_p = 1}, logits, N, d), 1);
    assert_int_equal(draw_one(&(sl__sampling){.temperature = 1, .top_p = 0}, logits, N, d), 1);
  }
}

static void the_whole_distribution(void **state) {
  (void)state;
  assert_drawn(&(sl__sampling){.temperature = 1, .top_p = 1, .seed = 5}, p);
}

static void temperature(void **state) {
  (void)state;
  double expected[N], total = 0;
  for (int i = 0; i < N; i++) total += p[i] * p[i];
  for (int i = 0; i < N; i++) expected[i] = p[i] * p[i] / total;
  assert_drawn(&(sl__sampling){.temperature = 0.5, .top_p = 1, .seed = 6}, expected);
}

static void top_k(void **state) {
  (void)state;
  const double three[N] = {0.25 / 0.8, 0, 0, 0.4 / 0.8, 0, 0.15 / 0.8};
  assert_drawn(&(sl__sampling){.temperature = 1, .top_k = 3, .top_p = 1, .seed = 7}, three);
  assert_drawn(&(sl__sampling){.temperature = 1, .top_k = 99, .top_p = 1, .seed = 8}, p);
}

static void top_p(void **state) {
  (void)state;
  const double two[N] = {0.25 / 0.65, 0, 0, 0.4 / 0.65, 0, 0}, three[N] = {0.25 / 0.8, 0, 0, 0.4 / 0.8, 0, 0.15 / 0.8};
  assert_drawn(&(sl__sampling){.temperature = 1, .top_p = 0.6, .seed = 9}, two);
  assert_drawn(&(sl__sampling){.temperature = 1, .top_p = 0.66, .seed = 10}, three);
  /* Top-k leaves three, whose sum is 0.8; the first two are 0.8125 of that. */
  assert_drawn(&(sl__sampling){.temperature = 1, .top_k = 3, .top_p = 0.81, .seed = 11}, two);
}

static void a_seed_says_which(void **state) {
  (void)state;
  float logits[N];
  int differ = 0, follow = 0;
  logits_of(logits);
  for (uint64_t d = 0; d < 200; d++) {
    const sl__sampling a = {.temperature = 1, .top_p = 1, .seed = 1}, b = {.temperature = 1, .top_p = 1, .seed = 2};
    assert_int_equal(draw_one(&a, logits, N, d), draw_one(&a, logits, N, d));
    differ += draw_one(&a, logits, N, d) != draw_one(&b, logits, N, d);
    follow += draw_one(&a, logits, N, d) != draw_one(&a, logits, N, d + 1);
  }
  assert_true(differ > 50 && follow > 50);
}

/* A token with probability 0 is never drawn, not even if rounding leaves the sum short. */
static void impossible_tokens(void **state) {
  (void)state;
  const float logits[4] = {-INFINITY, 0, -INFINITY, -1000};
  for (uint64_t d = 0; d < 1000; d++)
    assert_int_equal(draw_one(&(sl__sampling){.temperature = 1, .top_p = 1}, logits, 4, d), 1);
}

static void what_is_not_finite(void **state) {
  (void)state;
  sl__candidate room[2];
  int32_t token;
  const sl__sampling s = {.temperature = 1, .top_p = 1};
  assert_fails(SL_ENONFINITE, "token 1 is nan", sl__sample(&s, (float[]){0, (float)fabs(NAN)}, 2, 0, room, &token));
  assert_fails(SL_ENONFINITE, "token 0 is inf", sl__sample(&s, (float[]){INFINITY, 0}, 2, 0, room, &token));
  assert_fails(SL_ENONFINITE, "all tokens have probability 0",
               sl__sample(&s, (float[]){-INFINITY, -INFINITY}, 2, 0, room, &token));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(greedy),
      cmocka_unit_test(the_whole_distribution),
      cmocka_unit_test(temperature),
      cmocka_unit_test(top_k),
      cmocka_unit_test(top_p),
      cmocka_unit_test(a_seed_says_which),
      cmocka_unit_test(impossible_tokens),
      cmocka_unit_test(what_is_not_finite),
  };
  return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
