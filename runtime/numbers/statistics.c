/* Median, quantiles, mean and deviations. */
#include "runtime/numbers/statistics.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void sl_sort(double *x, size_t n) { qsort(x, n, sizeof *x, ascending); }

double sl_median(double *x, size_t n) {
  sl_sort(x, n);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double sl_quantile(const double *sorted, size_t n, double share) {
  return sorted[(size_t)(share * (double)(n - 1) + 0.5)];
}

double sl_absolute_deviation(const double *x, size_t n, double middle, double *room) {
  for (size_t i = 0; i < n; i++) room[i] = fabs(x[i] - middle);
  return sl_median(room, n);
}

double sl_mean(const double *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  return sum / (double)n;
}

double sl_mean_at_most(const double *x, size_t n, double most) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i] < most ? x[i] : most;
  return sum / (double)n;
}

double sl_deviation_at_most(const double *x, size_t n, double mean, double most) {
  double squares = 0;
  for (size_t i = 0; i < n; i++) {
    const double off = fmin(x[i], most) - mean;
    squares += off * off;
  }
  return sqrt(squares / (double)n);
}

double sl_deviation(const double *x, size_t n, double mean) { return sl_deviation_at_most(x, n, mean, INFINITY); }
