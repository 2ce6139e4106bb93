/* starling scale: speedup, efficiency and losses. A step's time is divided into parts. In ideal scaling each part of
 * the first point shrinks with the count (strong scaling) or stays the same (weak). A part's excess over this is its
 * loss; the losses add up to the step's excess. */
#include <math.h>

#include "tools/scale/parts.h"

const char *const sl__scale_part_names[SL__SCALE_PARTS] = {"kernels", "exchange", "dependency", "runtime", "slowest"};

static const double HALF = 0.5; /* added nodes pay if they bring at least this part of the ideal speedup */

/* The integral of x n phi(x) Phi(x)^(n-1), the mean of the largest order statistic: H. A. David, H. N. Nagaraja, Order
 * Statistics, 3rd edition, 2003, equation 3.1.1. The trapezoidal rule on the whole line, which converges
 * exponentially for this integrand. */
double sl__scale_largest(int n) {
  const double h = 1.0 / 64, end = 12, pi = 3.14159265358979323846;
  double sum = 0;
  for (double x = -end; x <= end; x += h) {
    const double density = exp(-x * x / 2) / sqrt(2 * pi), below = erfc(-x / sqrt(2)) / 2;
    sum += x * n * density * pow(below, n - 1) * h;
  }
  return sum;
}

/* The time that each rank computes is normal, with a standard deviation of `percent`, and independent of the others'.
 * Ranks meet in the sums of the step, so every rank takes the time of the slowest one. On average this is the mean of
 * the largest of their times. */
void sl__scale_jitter(sl__scale_series *series, double percent, double idle) {
  for (int i = 0; i < series->n; i++) {
    sl__scale_point *p = &series->point[i];
    if (p->reason) continue;
    const double computes = p->step - p->part[SL__SCALE_EXCHANGE];
    const double wait = computes * percent / 100 * sl__scale_largest(p->ranks);
    p->part[SL__SCALE_SLOWEST] = wait;
    p->step += wait;
    p->energy += wait * idle * p->count; /* each rank computes as long as before in the mean */
  }
}

static const sl__scale_point *first_of(const sl__scale_series *s) {
  for (int i = 0; i < s->n; i++)
    if (!s->point[i].reason) return &s->point[i];
  return NULL;
}

void sl__scale_figures(sl__scale_series *series, int weak, double price, double minutes) {
  const sl__scale_point *first = first_of(series), *before = NULL;
  for (int i = 0; i < series->n; i++) {
    sl__scale_point *p = &series->point[i];
    p->added = p->cost = p->ratio = p->lost_cost = NAN;
    if (p->reason) continue;
    const double times = (double)p->count / first->count, ideal = weak ? 1 : 1 / times;
    const double hour = price * p->nodes;
    p->samples = (double)p->batch / p->step;
    p->speedup = p->samples / first->samples;
    p->efficiency = p->speedup / times;
    if (before) p->added = (p->speedup - before->speedup) / ((double)(p->count - before->count) / first->count);
    for (int k = 0; k < SL__SCALE_PARTS; k++) p->loss[k] = p->part[k] - first->part[k] * ideal;
    p->cost = hour * p->step / 3600 / (double)p->batch * 1000;
    p->lost_samples = p->samples * 60 * minutes / 2; /* a loss falls anywhere between two checkpoints */
    p->lost_cost = hour * minutes / 120;
    before = p;
  }
}

int sl__scale_largest_loss(const sl__scale_point *p) {
  int most = -1;
  for (int k = 0; k < SL__SCALE_PARTS; k++)
    if (p->loss[k] > 1e-9 * p->step && (most < 0 || p->loss[k] > p->loss[most])) most = k;
  return most;
}

int sl__scale_stop(const sl__scale_series *s) {
  for (int i = 0; i < s->n; i++)
    if (!s->point[i].reason && s->point[i].added < HALF) return i;
  return -1;
}
