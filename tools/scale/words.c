/* starling scale: units, the subtitle, the verdict and the cost of a lost node in words. */
#include <math.h>
#include <stdlib.h>

#include "models/data_kind.h"
#include "tools/scale/parts.h"

const char *sl__scale_unit(const sl__scaling *s, int n) {
  return s->simulated ? (n == 1 ? "node" : "nodes") : (n == 1 ? "rank" : "ranks");
}

const char *sl__scale_rate(const sl__scaling *s, double *units) {
  const sl_data_kind *kind = s->model->family->data;
  *units = (double)kind->units(&s->data);
  return *units > 1 ? kind->rate : NULL;
}

const char *sl__scale_currency(const sl__scaling *s) { return s->simulated ? s->machine.currency : ""; }

static const sl__scale_point *first_of(const sl__scale_series *s) {
  int i = 0;
  while (i < s->n - 1 && s->point[i].reason) i++;
  return &s->point[i];
}

sl_status sl__scale_subtitle(const sl__scaling *s, char **text) {
  const sl__scale_point *p = first_of(&s->is), *last = &s->is.point[s->is.n - 1];
  size_t n;
  *text = NULL;
  FILE *to = open_memstream(text, &n);
  if (!to) return sl_no_memory("for a title");
  if (s->simulated)
    fprintf(to, "simulated on %s, %lld %s a node of %d CPU workers and %d GPUs; ", s->machine.name,
            (long long)s->o->ranks_per_node, s->o->ranks_per_node == 1 ? "rank" : "ranks", p->workers, p->gpus);
  else if (s->hosts.n > 0)
    fprintf(to, "measured on up to %d hosts, on each of which ranks share the cores; ", last->nodes);
  else
    fprintf(to, "measured on this machine, whose cores its ranks share; ");
  if (s->o->weak)
    fprintf(to, "weak scaling: batch %lld in %d leaves, growing to %lld in %d", (long long)p->batch, p->leaves,
            (long long)last->batch, last->leaves);
  else
    fprintf(to, "strong scaling: batch %lld in %d leaves", (long long)p->batch, p->leaves);
  return fclose(to) == 0 ? SL_OK : sl_no_memory("for a title");
}

/* Which part of the excess over ideal scaling is the largest. */
static void put_why(FILE *to, const sl__scaling *s, const sl__scale_point *p) {
  static const char *const meaning[SL__SCALE_PARTS] = {
      "in kernels: work that is not divided, as each rank does all of it, such as the optimizer's updates, or smaller "
      "and less efficient tasks",
      "in exchanges that no task hides: a faster network or larger batches help",
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
