/* starling scale: speedup, efficiency, losses and the verdict. A step's time falls into parts; against ideal scaling
 * each part of the first point would shrink with the count (strong scaling) or stay (weak). What a part takes more is
 * its loss, so the losses add up to what the step takes more than in ideal scaling. */
#include <math.h>
#include <stdlib.h>

#include "tools/scale/parts.h"

const char *const sl__scale_part_names[SL__SCALE_PARTS] = {"kernels", "exchange", "dependency", "runtime", "slowest"};

static const double HALF = 0.5; /* of their share: below it added nodes do not pay */

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
 * Ranks meet in the sums of the step, so all have the time of the slowest: the mean of the largest of their times. */
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

void sl__scale_figures(sl__scale_series *series, int weak, double price, int by_nodes, double minutes) {
  const sl__scale_point *first = first_of(series), *before = NULL;
  for (int i = 0; i < series->n; i++) {
    sl__scale_point *p = &series->point[i];
    p->added = p->cost = p->ratio = p->lost_cost = NAN;
    if (p->reason) continue;
    const double times = (double)p->count / first->count, ideal = weak ? 1 : 1 / times;
    const double hour = price * (by_nodes ? p->count : 1);
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

/* Which part of the excess over ideal scaling is the largest. */
static void put_why(FILE *to, const sl__scaling *s, const sl__scale_point *p) {
  static const char *const meaning[SL__SCALE_PARTS] = {
      "in kernels: work that is not divided, as each rank does all of it, such as the optimizer's updates, or smaller "
      "and less efficient tasks",
      "in exchanges that no task hides: a faster network, --zero or larger batches help",
      "without a ready task: the batch is too small for so many workers, or its critical path too long",
      "in the runtime: submission, the scheduling policy and copies between memories",
      "in the wait for the slowest rank (--jitter)"};
  const int most = sl__scale_largest_loss(p);
  double excess = 0;
  for (int k = 0; k < SL__SCALE_PARTS; k++) excess += p->loss[k];
  if (excess <= 0 || most < 0) {
    fprintf(to, " On %d %s nothing is lost against ideal scaling.", p->count, sl__scale_unit(s, p->count));
    return;
  }
  fprintf(to, " On %d %s a step takes %.3f ms, %.3f ms more than in ideal scaling. The largest loss, %.3f ms, is %s.",
          p->count, sl__scale_unit(s, p->count), 1e3 * p->step, 1e3 * excess, 1e3 * p->loss[most], meaning[most]);
}

sl_status sl__scale_verdict(const sl__scaling *s, const sl__scale_series *series, char **text) {
  size_t n;
  int last = -1, before = -1;
  *text = NULL;
  FILE *to = open_memstream(text, &n);
  if (!to) return sl_no_memory("for the verdict");
  const int stop = sl__scale_stop(series);
  for (int i = 0; i < series->n && (stop < 0 || i <= stop); i++)
    if (!series->point[i].reason) before = last, last = i;
  const sl__scale_point *p = &series->point[last];
  if (before < 0) {
    fprintf(to, "One number of %s alone shows no scaling: give several, such as 1,2,4.", sl__scale_unit(s, 2));
  } else {
    const int added = p->count - series->point[before].count, bring = (int)lround(100 * p->added);
    char those[48];
    snprintf(those, sizeof those, added == 1 ? "one" : "%d", added);
    if (stop >= 0)
      fprintf(to, "It stops paying at %d %s: ", p->count, sl__scale_unit(s, p->count));
    else
      fprintf(to, "It pays up to %d %s, the most of these: ", p->count, sl__scale_unit(s, p->count));
    if (bring < 0)
      fprintf(to, "with the %s added, samples/s fall.", those);
    else
      fprintf(to, "the %s added %s %d%% of %s share.", those, added == 1 ? "brings" : "bring", bring,
              added == 1 ? "its" : "their");
    put_why(to, s, p);
  }
  return fclose(to) == 0 ? SL_OK : sl_no_memory("for the verdict");
}

sl_status sl__scale_loss_text(const sl__scaling *s, const sl__scale_series *series, char **text) {
  const double minutes = s->o->checkpoint_minutes;
  size_t n;
  *text = NULL;
  FILE *to = open_memstream(text, &n);
  if (!to) return sl_no_memory("for the cost of a lost node");
  for (int i = 0; i < series->n; i++) {
    const sl__scale_point *p = &series->point[i];
    if (p->reason) continue;
    if (p->count < 2) {
      fprintf(to, "The only node lost: nothing trains until there is another.");
    } else {
      fprintf(to, "Of %d nodes one lost: ", p->count);
      if (p->left_reason)
        fprintf(to, "no figures for %d: %s.", p->count - 1, p->left_reason);
      else
        fprintf(to, "%.4g samples/s on %d, %.1f%% of before.", p->left, p->count - 1, 100 * p->left / p->samples);
    }
    fprintf(to, " The work since the last checkpoint is lost: %.4g of %.4g minutes in the mean, %.4g samples",
            minutes / 2, minutes, p->lost_samples);
    if (isfinite(p->lost_cost))
      fprintf(to, ", %.4g%s%s", p->lost_cost, *sl__scale_currency(s) ? " " : "", sl__scale_currency(s));
    fputs(".\n", to);
  }
  return fclose(to) == 0 ? SL_OK : sl_no_memory("for the cost of a lost node");
}
