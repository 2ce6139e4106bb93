/* Statistics of a sample of n numbers, none of them NaN, n > 0: what a measurement is summed up by. */
#ifndef SL_STATISTICS_H
#define SL_STATISTICS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void sl_sort(double *x, size_t n); /* ascending */
/* Sorts x. The number in the middle; of an even n, the mean of the two in the middle. */
double sl_median(double *x, size_t n);
/* Of sorted numbers, the one at this share of the way from the least (0) to the largest (1), by the nearest rank. */
double sl_quantile(const double *sorted, size_t n, double share);
/* Median of |x - middle|, room[n]: from the median of x it is the MAD, a spread that outliers hardly change. */
double sl_absolute_deviation(const double *x, size_t n, double middle, double *room);

double sl_mean(const double *x, size_t n);
double sl_deviation(const double *x, size_t n, double mean); /* standard deviation, of these n: over n, not n - 1 */

#ifdef __cplusplus
}
#endif
#endif
