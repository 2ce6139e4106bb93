/* tasks/graph/init.c: initial contents of tensors: constants, and distributions of the requested width. Elements depend
 * on seed, name and index, not on the tensor's size. */
#include "tasks/graph/init.h"

#include <math.h>

#include "tests/support/scratch.h"

enum { N = 40000 };
static float x[N], y[N];

static void fill(sl_init init, uint64_t seed, const char *name, int64_t n, float *to) {
  const sl_shape shape = SL_SHAPE(n);
  sl_init_fill(&init, seed, name, SL_F32, &shape, to);
}

static void constants(void **state) {
  (void)state;
  double d[3] = {7, 7, 7};
  int32_t i[3];
  int64_t l[3];
  const sl_shape shape = SL_SHAPE(3);
  fill((sl_init){SL_INIT_CONSTANT, 1.5}, 1, "w", 5, x);
  for (int k = 0; k < 5; k++) assert_true(x[k] == 1.5f);
  sl_init_fill(&(sl_init){SL_INIT_CONSTANT, 0}, 1, "w", SL_F64, &shape, d);
  for (int k = 0; k < 3; k++) assert_true(d[k] == 0);
  sl_init_fill(&(sl_init){SL_INIT_CONSTANT, -2}, 1, "w", SL_I32, &shape, i);
  sl_init_fill(&(sl_init){SL_INIT_CONSTANT, -2}, 1, "w", SL_I64, &shape, l);
  for (int k = 0; k < 3; k++) assert_true(i[k] == -2 && l[k] == -2);
}

/* Mean 0, second and fourth moments, within five standard errors. */
static void moments(const float *of, double second, double fourth, double eighth) {
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < N; i++) {
    const double v = (double)of[i];
    sum += v, squares += v * v, fourths += v * v * v * v;
  }
  assert_near(sum / N, 0, 5 * sqrt(second / N));
  assert_near(squares / N, second, 5 * sqrt((fourth - second * second) / N));
  assert_near(fourths / N, fourth, 5 * sqrt((eighth - fourth * fourth) / N));
}

static void distributions(void **state) {
  (void)state;
  fill((sl_init){SL_INIT_UNIFORM, 0.5}, 1, "w", N, x);
  for (int i = 0; i < N; i++) assert_true(x[i] >= -0.5f && x[i] < 0.5f);
  moments(x, 0.25 / 3, 0.0625 / 5, 0.00390625 / 9);
  fill((sl_init){SL_INIT_NORMAL, 2}, 1, "w", N, x);
  moments(x, 4, 3 * 16, 105 * 256);
  double pairs = 0;
  for (int i = 0; i + 1 < N; i += 2) pairs += (double)x[i] * (double)x[i + 1]; /* numbers are made in pairs */
  assert_near(pairs / (N / 2), 0, 5 * 4 / sqrt(N / 2));
}

static int same(const float *a, const float *b, int n) {
  int count = 0;
  for (int i = 0; i < n; i++) count += a[i] == b[i];
  return count;
}

static void streams(void **state) {
  (void)state;
  for (int kind = SL_INIT_UNIFORM; kind <= SL_INIT_NORMAL; kind++) {
    const sl_init init = {(sl_init_kind)kind, 1};
    fill(init, 1, "fc1.weight", 1000, x);
    for (int n = 1; n <= 9; n++) {
      memset(y, 0, sizeof y);
      fill(init, 1, "fc1.weight", n, y);
      assert_int_equal(same(x, y, n), n);
      assert_true(y[n] == 0); /* nothing is written after the end */
    }
    fill(init, 2, "fc1.weight", 1000, y);
    assert_true(same(x, y, 1000) < 5);
    fill(init, 1, "fc2.weight", 1000, y);
    assert_true(same(x, y, 1000) < 5);
    assert_true(same(x, x + 4, 996) < 5);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(constants), cmocka_unit_test(distributions),
                                     cmocka_unit_test(streams)};
  return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
