/* starling compare: draws the plots, for the page and as files for papers. */
#include <stdlib.h>

#include "tools/compare/parts.h"
#include "tools/report/svg.h"

char *sl__compare_name(const sl__variant *v, char *text, size_t n) {
  snprintf(text, n, "%s%s", v->policy, v->priorities ? "" : ", no priorities");
  return text;
}

/* The rows of a plot, one for each policy that ran: names, and the figures at these offsets. */
typedef struct rows {
  int n;
  char (*name)[96];
  const char **text;
  double *at; /* 0, 1, 2 ... */
} rows;

static sl_status make_rows(const sl__comparison *c, rows *r) {
  r->name = calloc((size_t)c->n, sizeof *r->name), r->text = calloc((size_t)c->n, sizeof *r->text);
  r->at = calloc((size_t)c->n, sizeof *r->at);
  if (!r->name || !r->text || !r->at) return sl_no_memory("for %d policies", c->n);
  for (int i = 0; i < c->n; i++) {
    if (sl__compare_absent(&c->variant[i])) continue;
    sl__compare_name(&c->variant[i], r->name[r->n], sizeof r->name[0]);
    r->text[r->n] = r->name[r->n], r->at[r->n] = r->n;
    r->n++;
  }
  return SL_OK;
}

static void column(const sl__comparison *c, size_t offset, double *to) {
  for (int i = 0; i < c->n; i++)
    if (!sl__compare_absent(&c->variant[i]))
      *to++ = *(const double *)(const void *)((const char *)&c->variant[i].figures + offset);
}

static sl_status draw_ratios(const sl__comparison *c, const rows *r, char **svg) {
  double *x = malloc(3 * ((size_t)r->n + 1) * sizeof *x), one = 1;
  char label[160];
  if (!x) return sl_no_memory("for a plot");
  double *low = x + r->n, *high = low + r->n;
  column(c, offsetof(sl__figures, ratio), x);
  column(c, offsetof(sl__figures, low), low), column(c, offsetof(sl__figures, high), high);
  snprintf(label, sizeof label, "ratio to %s; left of 1 is faster", c->variant[c->base].policy);
  const sl__series points = {
      .kind = SL__POINTS, .colour = "accent", .n = r->n, .x = x, .y = r->at, .low = low, .high = high};
  const sl_status status = sl__svg_plot(&(sl__plot){.title = "Time of a step, with 95% intervals",
                                                    .x_label = label,
                                                    .row = r->text,
                                                    .n_rows = r->n,
                                                    .rule = &one,
                                                    .series = &points,
                                                    .n_series = 1},
                                        svg);
  free(x);
  return status;
}

static sl_status draw_shares(const sl__comparison *c, const rows *r, char **svg) {
  sl__series bars[1 + SL_IDLE_CAUSES];
  double *x = malloc((1 + SL_IDLE_CAUSES) * ((size_t)r->n + 1) * sizeof *x);
  if (!x) return sl_no_memory("for a plot");
  for (int k = 0; k <= SL_IDLE_CAUSES; k++) {
    const char *name = k ? sl_idle_cause_name((sl_idle_cause)(k - 1)) : "kernels";
    column(c, k ? offsetof(sl__figures, idle) + (size_t)(k - 1) * sizeof(double) : offsetof(sl__figures, kernels),
           x + k * r->n);
    bars[k] = (sl__series){.kind = SL__BARS, .name = name, .colour = name, .n = r->n, .x = x + k * r->n};
  }
  const sl_status status = sl__svg_plot(&(sl__plot){.title = "Where the workers’ time went",
                                                    .x_label = "% of worker time, mean of all repetitions",
                                                    .unit = " %",
                                                    .row = r->text,
                                                    .n_rows = r->n,
                                                    .most = 100,
                                                    .series = bars,
                                                    .n_series = 1 + SL_IDLE_CAUSES},
                                        svg);
  free(x);
  return status;
}

sl_status sl__compare_plots(const sl__comparison *c, char *plot[SL__COMPARE_PLOTS]) {
  rows r = {0};
  plot[0] = plot[1] = NULL;
  sl_status status = make_rows(c, &r);
  if (status == SL_OK) status = draw_ratios(c, &r, &plot[0]);
  if (status == SL_OK) status = draw_shares(c, &r, &plot[1]);
  free(r.name), free(r.text), free(r.at);
  return status;
}
