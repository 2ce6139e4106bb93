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
    for (int k = 1; k <= 4; k++) assert_true(same(x, x + k, 996) < 5);
  }
}

/* A part has what the whole has there. */
static void parts(void **state) {
  (void)state;
  enum { ROWS = 9, COLUMNS = 14 };
  const sl_part cases[] = {{SL_SHAPE(ROWS, COLUMNS), 1, ROWS, COLUMNS, 4, 7},
                           {SL_SHAPE(ROWS, COLUMNS), ROWS, COLUMNS, 1, 3, 8},
                           {SL_SHAPE(ROWS, COLUMNS), 3, 3, COLUMNS, 2, 3}};
  for (int kind = SL_INIT_CONSTANT; kind <= SL_INIT_NORMAL; kind++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      const sl_init init = {(sl_init_kind)kind, 0.5};
      const int64_t n = cases[i].outer * (cases[i].to - cases[i].from) * cases[i].inner;
      float want[ROWS * COLUMNS];
      fill(init, 3, "fc1.weight", ROWS * COLUMNS, x);
      sl_part_take(&cases[i], sizeof *x, x, want);
      for (int64_t k = 0; k <= n; k++) y[k] = -7;
      sl_init_fill_part(&init, 3, "fc1.weight", SL_F32, &cases[i], y);
      assert_int_equal(same(want, y, (int)n), n);
      assert_true(y[n] == -7); /* nothing is written after the end */
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(constants), cmocka_unit_test(distributions),
                                     cmocka_unit_test(streams), cmocka_unit_test(parts)};
  return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
