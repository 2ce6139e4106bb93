/* starling compare: computes the figures over all repetitions, and the verdict. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numbers/philox.h"
#include "runtime/numbers/statistics.h"
#include "tools/compare/parts.h"

enum { DRAWS = 20000 };

/* Finds the repetitions in which both policies ran: their numbers go to *at. Returns how many there are. */
static int common(const sl__variant *base, const sl__variant *v, int n, int *at) {
  int found = 0;
  for (int r = 0; r < n; r++)
    if (base->measured[r].there && v->measured[r].there) at[found++] = r;
  return found;
}

/* Median of one field over these repetitions; room holds as many values. */
static double median_of(const sl__variant *v, const int *at, int n, size_t offset, double *room) {
  for (int i = 0; i < n; i++) room[i] = *(const double *)(const void *)((const char *)&v->measured[at[i]] + offset);
  return sl_median(room, (size_t)n);
}

static double mean_of(const sl__variant *v, const int *at, int n, size_t offset) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += *(const double *)(const void *)((const char *)&v->measured[at[i]] + offset);
  return sum / n;
}

/* Median of the paired ratios, and its percentile bootstrap (Efron 1979): repetitions are drawn with replacement.
 * drawn has room for n, medians for DRAWS. */
static void compare(const sl__variant *base, sl__variant *v, const int *at, int n, int others, double *ratio,
                    double *drawn, double *medians) {
  for (int i = 0; i < n; i++) ratio[i] = v->measured[at[i]].step / base->measured[at[i]].step;
  v->figures.low = v->figures.high = NAN, v->figures.surely = INFINITY;
  for (int d = 0; d < DRAWS && n >= SL__LEAST_REPETITIONS; d++) {
    for (int i = 0; i < n; i++) {
      uint32_t x[4];
      sl_random_u32x4(1, (uint64_t)d, 0, (uint64_t)i, x);
      drawn[i] = ratio[x[0] % (unsigned)n];
    }
    medians[d] = sl_median(drawn, (size_t)n);
  }
  if (n >= SL__LEAST_REPETITIONS) {
    sl_sort(medians, DRAWS);
    v->figures.low = sl_quantile(medians, DRAWS, 0.025), v->figures.high = sl_quantile(medians, DRAWS, 0.975);
    /* The interval that holds for all policies at once (Bonferroni), because the best of many looks better than it is.
     */
    v->figures.surely = sl_quantile(medians, DRAWS, 1 - 0.025 / (others > 0 ? others : 1));
  }
  v->figures.ratio = sl_median(ratio, (size_t)n);
}

/* Number of policies that ran, without the base. */
static int others_of(const sl__comparison *c) {
  int n = -1;
  for (int i = 0; i < c->n; i++) n += !sl__compare_absent(&c->variant[i]);
  return n;
}

const char *sl__compare_absent(const sl__variant *v) {
  return v->reason ? v->reason : v->figures.n == 0 ? "it had not run before the comparison was stopped" : NULL;
}

sl_status sl__compare_figures(sl__comparison *c) {
  const size_t most = (size_t)c->repetitions;
  double *ratio = malloc(most * sizeof *ratio), *drawn = malloc(most * sizeof *drawn),
         *medians = malloc(DRAWS * sizeof *medians);
  int *at = malloc(most * sizeof *at);
  sl_status status = SL_OK;
  if (!ratio || !drawn || !medians || !at) SL_TRY_OUT(sl_no_memory("for %d repetitions", c->repetitions));
  c->base = -1;
  for (int i = 0; i < c->n && c->base < 0; i++)
    if (!c->variant[i].reason) c->base = i;
  if (c->base < 0) SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "no policy ran: %s", c->variant[0].reason));
  const sl__variant *base = &c->variant[c->base];
  for (int i = 0; i < c->n; i++) c->variant[i].figures.n = common(base, &c->variant[i], c->repetitions, at);
  for (int i = 0; i < c->n; i++) {
    sl__variant *v = &c->variant[i];
    sl__figures *f = &v->figures;
    if (sl__compare_absent(v)) continue;
    const int n = common(base, v, c->repetitions, at);
    compare(base, v, at, n, others_of(c), ratio, drawn, medians);
    f->step = median_of(v, at, n, offsetof(sl__measured, step), drawn);
    f->moved = median_of(v, at, n, offsetof(sl__measured, moved), drawn);
    f->energy = c->no_energy ? NAN : median_of(v, at, n, offsetof(sl__measured, energy), drawn);
    f->of_bound = c->bound / f->step;
    f->kernels = mean_of(v, at, n, offsetof(sl__measured, kernels));
    for (int k = 0; k < SL_IDLE_CAUSES; k++)
      f->idle[k] = mean_of(v, at, n, offsetof(sl__measured, idle) + (size_t)k * sizeof(double));
    for (int r = 0; r < n; r++)
      drawn[r] = v->measured[at[r]].kernels / 100 * v->measured[at[r]].step * (c->workers + c->gpus) / c->kernels;
    f->inflation = sl_median(drawn, (size_t)n);
  }
out:
  free(ratio), free(drawn), free(medians), free(at);
  return status;
}

int sl__compare_uncalibrated(const sl__comparison *c) { return c->models_needed && c->calibrated < c->kinds; }

char *sl__compare_mark(const sl__comparison *c, char *text, size_t n) {
  snprintf(
      text, n,
      "Uncalibrated: policies with dm or heft in their names used performance models with samples of only %d of %d "
      "kinds of tasks.",
      c->calibrated, c->kinds);
  return text;
}

char *sl__compare_partial(const sl__comparison *c, char *text, size_t n) {
  snprintf(text, n,
           "Partial: stopped by a signal in repetition %d of about %d; the figures cover the measurements until then.",
           c->repetitions, c->planned);
  return text;
}

char *sl__compare_verdict(const sl__comparison *c, char *text, size_t n) {
  const sl__variant *base = &c->variant[c->base], *best = base;
  const int others = others_of(c);
  for (int i = 0; i < c->n; i++) {
    const sl__variant *v = &c->variant[i];
    if (!sl__compare_absent(v) && v->figures.surely < 1 && v->figures.ratio < best->figures.ratio) best = v;
  }
  int used;
  if (base->figures.n < SL__LEAST_REPETITIONS) {
    snprintf(text, n, "No verdict: a verdict needs at least %d repetitions.", SL__LEAST_REPETITIONS);
    return text;
  }
  if (best == base)
    used = snprintf(text, n, "No policy is faster than %s beyond the noise of this machine: take %s.", base->policy,
                    base->policy);
  else
    used = snprintf(text, n, "Take %s%s: a step takes %.1f%% less than with %s (95%% interval %.1f to %.1f%%).",
                    best->policy, best->priorities ? "" : " without priorities", 100 * (1 - best->figures.ratio),
                    base->policy, 100 * (1 - best->figures.high), 100 * (1 - best->figures.low));
  /* The probability that one of this many equally fast policies beats the base in every repetition by chance. */
  if (best != base && used > 0 && (size_t)used < n && ldexp(others, -best->figures.n) > 0.05)
    snprintf(text + used, n - (size_t)used,
             " With %d policies and %d repetitions this may be chance: use more --repetitions.", others,
             best->figures.n);
  return text;
}

int sl__compare_same_bits(const sl__comparison *c) {
  const char *digest = c->variant[c->base].digest;
  for (int i = 0; i < c->n; i++)
    if (!sl__compare_absent(&c->variant[i]) && strcmp(c->variant[i].digest, digest) != 0) return 0;
  return strcmp(digest, "varies") != 0;
}
