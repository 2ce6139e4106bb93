/* runtime/numbers/statistics.c: the figures of samples that one can sum up by hand, of odd and even size. */
#include "runtime/numbers/statistics.h"

#include <math.h>

#include "tests/support/scratch.h"

static void the_median_is_the_middle(void **state) {
  (void)state;
  assert_near(sl_median((double[]){7}, 1), 7, 0);
  assert_near(sl_median((double[]){9, 1}, 2), 5, 0);
  assert_near(sl_median((double[]){5, -1e300, 3}, 3), 3, 0);
  assert_near(sl_median((double[]){4, 1, 1e300, 2}, 4), 3, 0);
  assert_near(sl_median((double[]){INFINITY, 1, 2}, 3), 2, 0);
  double x[] = {3, 1, 2, 2};
  sl_median(x, 4);
  for (int i = 0; i < 3; i++) assert_true(x[i] <= x[i + 1]);
}

static void quantiles_go_by_the_nearest_rank(void **state) {
  double x[101];
  (void)state;
  for (int i = 0; i < 101; i++) x[i] = 100 - i;
  sl_sort(x, 101);
  for (int p = 0; p <= 100; p++) assert_near(sl_quantile(x, 101, p / 100.0), p, 0);
  assert_near(sl_quantile(x, 101, 0.976), 98, 0);
  assert_near(sl_quantile(x, 11, 0.1), 1, 0);
  assert_near(sl_quantile(x, 11, 0.9), 9, 0);
  assert_near(sl_quantile(x, 1, 0), 0, 0);
  assert_near(sl_quantile(x, 1, 1), 0, 0);
}

static void an_outlier_hardly_changes_the_absolute_deviation(void **state) {
  double room[5];
  (void)state;
  assert_near(sl_absolute_deviation((double[]){1, 2, 3, 4, 5}, 5, 3, room), 1, 0);
  assert_near(sl_absolute_deviation((double[]){1, 2, 3, 4, 1e9}, 5, 3, room), 1, 0);
  assert_near(sl_absolute_deviation((double[]){2, 4, 6, 8}, 4, 5, room), 2, 0);
}

static void mean_and_deviation(void **state) {
  const double x[] = {2, 4, 4, 4, 5, 5, 7, 9};
  (void)state;
  assert_near(sl_mean(x, 8), 5, 0);
  assert_near(sl_deviation(x, 8, 5), 2, 0);
  assert_near(sl_mean(x, 1), 2, 0);
  assert_near(sl_mean_at_most(x, 8, 100), 5, 0);
  assert_near(sl_mean_at_most(x, 8, 5), 4.25, 0);
  assert_near(sl_mean_at_most((double[]){3, INFINITY}, 2, 4), 3.5, 0);
  assert_near(sl_deviation(x, 1, 2), 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_median_is_the_middle),
      cmocka_unit_test(quantiles_go_by_the_nearest_rank),
      cmocka_unit_test(an_outlier_hardly_changes_the_absolute_deviation),
      cmocka_unit_test(mean_and_deviation),
  };
  return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
