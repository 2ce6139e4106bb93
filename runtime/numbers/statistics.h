/* Statistics that sum up a measurement: a sample of n > 0 numbers, none of them NaN. */
#ifndef SL_STATISTICS_H
#define SL_STATISTICS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void sl_sort(double *x, size_t n); /* ascending */
/* Sorts x. The number in the middle; of an even n, the mean of the two in the middle. */
double sl_median(double *x, size_t n);
/* The quantile of sorted numbers at `share`, from 0 (the least number) to 1 (the largest), by the nearest rank. */
double sl_quantile(const double *sorted, size_t n, double share);
/* Median of |x - middle|. If middle is the median of x, this is the MAD, a spread that outliers hardly change. room[n]:
 * scratch memory. */
double sl_absolute_deviation(const double *x, size_t n, double middle, double *room);

double sl_mean(const double *x, size_t n);
/* Each number counts as at most `most`. */
double sl_mean_at_most(const double *x, size_t n, double most);
double sl_deviation_at_most(const double *x, size_t n, double mean, double most);
double sl_deviation(const double *x, size_t n, double mean); /* standard deviation, of these n: over n, not n - 1 */

#ifdef __cplusplus
}
#endif
#endif
