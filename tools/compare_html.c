/* starling compare: its figures as one page that needs nothing else: words, plots, table, machine, how to repeat it. It
 * has the style of `starling report`, and no script. */
#include <stdlib.h>
#include <string.h>

#include "report_style.h"
#include "tools/compare_parts.h"
#include "tools/svg.h"

static void put(FILE *to, const char *text) { sl__svg_escape(to, text); }

static void name_of(const sl__variant *v, char *text, size_t n) {
  snprintf(text, n, "%s%s", v->policy, v->priorities ? "" : ", no priorities");
}

/* A row of a plot for each policy that ran: names, and the figures at these offsets. */
typedef struct rows {
  int n;
  char (*name)[96];
  const char **text;
  double *at; /* 0, 1, 2 ... */
} rows;

static sl_status make_rows(const sl__comparison *c, rows *r) {
  r->name = calloc((size_t)c->n, sizeof *r->name), r->text = calloc((size_t)c->n, sizeof *r->text);
  r->at = calloc((size_t)c->n, sizeof *r->at);
  if (!r->name || !r->text || !r->at) return sl_fail(SL_ENOMEM, "no memory for %d policies", c->n);
  for (int i = 0; i < c->n; i++) {
    if (c->variant[i].reason) continue;
    name_of(&c->variant[i], r->name[r->n], sizeof r->name[0]);
    r->text[r->n] = r->name[r->n], r->at[r->n] = r->n;
    r->n++;
  }
  return SL_OK;
}

static void column(const sl__comparison *c, size_t offset, double *to) {
  for (int i = 0; i < c->n; i++)
    if (!c->variant[i].reason) *to++ = *(const double *)(const void *)((const char *)&c->variant[i].figures + offset);
}

static sl_status put_plot(FILE *to, const sl__plot *plot) {
  char *svg;
  SL_TRY(sl__svg_plot(plot, &svg));
  fprintf(to, "<figure>\n%s</figure>\n", svg);
  free(svg);
  return SL_OK;
}

static sl_status put_ratios(const sl__comparison *c, const rows *r, FILE *to) {
  double *x = malloc(3 * ((size_t)r->n + 1) * sizeof *x), one = 1;
  char label[160];
  if (!x) return sl_fail(SL_ENOMEM, "no memory for a plot");
  double *low = x + r->n, *high = low + r->n;
  column(c, offsetof(sl__figures, ratio), x);
  column(c, offsetof(sl__figures, low), low), column(c, offsetof(sl__figures, high), high);
  snprintf(label, sizeof label, "ratio to %s; left of 1 is faster", c->variant[c->base].policy);
  const sl__series points = {
      .kind = SL__POINTS, .colour = "accent", .n = r->n, .x = x, .y = r->at, .low = low, .high = high};
  const sl_status status = put_plot(to, &(sl__plot){.title = "Time of a step, with 95% intervals",
                                                    .x_label = label,
                                                    .row = r->text,
                                                    .n_rows = r->n,
                                                    .rule = &one,
                                                    .series = &points,
                                                    .n_series = 1});
  free(x);
  return status;
}

static sl_status put_shares(const sl__comparison *c, const rows *r, FILE *to) {
  sl__series bars[1 + SL_IDLE_CAUSES];
  double *x = malloc((1 + SL_IDLE_CAUSES) * ((size_t)r->n + 1) * sizeof *x);
  if (!x) return sl_fail(SL_ENOMEM, "no memory for a plot");
  for (int k = 0; k <= SL_IDLE_CAUSES; k++) {
    const char *name = k ? sl_idle_cause_name((sl_idle_cause)(k - 1)) : "kernels";
    column(c, k ? offsetof(sl__figures, idle) + (size_t)(k - 1) * sizeof(double) : offsetof(sl__figures, kernels),
           x + k * r->n);
    bars[k] = (sl__series){.kind = SL__BARS, .name = name, .colour = name, .n = r->n, .x = x + k * r->n};
  }
  const sl_status status = put_plot(to, &(sl__plot){.title = "Where the workers’ time went",
                                                    .x_label = "% of worker time, mean of all repetitions",
                                                    .unit = " %",
                                                    .row = r->text,
                                                    .n_rows = r->n,
                                                    .most = 100,
                                                    .series = bars,
                                                    .n_series = 1 + SL_IDLE_CAUSES});
  free(x);
  return status;
}

static void put_table(const sl__comparison *c, FILE *to) {
  char moved[32], energy[32];
  fputs(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"All figures\"><table><thead><tr><th>policy</th>"
      "<th>priorities</th><th>step, ms</th><th>ratio</th><th>95% interval</th><th>of bound, %</th><th>kernels, %</th>"
      "<th>inflation</th>",
      to);
  for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, "<th>%s, %%</th>", sl_idle_cause_name((sl_idle_cause)k));
  fputs("<th>moved, MB</th><th>energy, J</th></tr></thead>\n<tbody>\n", to);
  for (int i = 0; i < c->n; i++) {
    const sl__variant *v = &c->variant[i];
    const sl__figures *f = &v->figures;
    if (v->reason) continue;
    fputs("<tr><td>", to), put(to, v->policy);
    fprintf(to,
            "</td><td>%s</td><td>%.3f</td><td>%.3f</td><td>%.3f to %.3f</td><td>%.1f</td><td>%.1f</td><td>%.3f</td>",
            v->priorities ? "on" : "off", 1e3 * f->step, f->ratio, f->low, f->high, 100 * f->of_bound, f->kernels,
            f->inflation);
    for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, "<td>%.1f</td>", f->idle[k]);
    fprintf(to, "<td>%s</td><td>%s</td></tr>\n", sl__compare_moved(c, v, moved), sl__compare_energy(c, v, energy));
  }
  fputs("</tbody></table></div>\n", to);
  if (c->no_energy) fputs("<p class=\"note\">Energy: ", to), put(to, c->no_energy), fputs("</p>\n", to);
}

static void put_others(const sl__comparison *c, FILE *to) {
  int any = 0;
  for (int i = 0; i < c->n; i++) {
    const sl__variant *v = &c->variant[i];
    char name[96];
    if (!v->reason) continue;
    if (!any++) fputs("<h2>Cannot serve</h2>\n<ul>\n", to);
    name_of(v, name, sizeof name);
    fputs("<li>", to), put(to, name), fputs(": ", to), put(to, v->reason), fputs("</li>\n", to);
  }
  if (any) fputs("</ul>\n", to);
}

/* Rows of what stands in an object of JSON, those of objects within it named by their path; lists on one line. */
static void put_facts(FILE *to, const char *path, const json_t *json) {
  const char *key;
  json_t *value;
  size_t i;
  if (json_is_object(json)) {
    json_object_foreach((json_t *)json, key, value) {
      char inner[256];
      snprintf(inner, sizeof inner, "%s%s%s", path, *path ? " " : "", key);
      if (strcmp(inner, "command") != 0) put_facts(to, inner, value);
    }
    return;
  }
  if (json_is_null(json)) return;
  fputs("<tr><td>", to), put(to, path), fputs("</td><td class=\"meaning\">", to);
  if (json_is_array(json)) {
    json_array_foreach((json_t *)json, i, value) {
      if (i) fputs("; ", to);
      put(to, json_is_string(value) ? json_string_value(value) : "");
    }
  } else if (json_is_string(json)) {
    put(to, json_string_value(json));
  } else {
    fprintf(to, "%.15g", json_number_value(json));
  }
  fputs("</td></tr>\n", to);
}

static sl_status put_page(const sl__comparison *c, const rows *r, FILE *to) {
  char text[512], *command;
  fputs(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>Scheduling policies: ",
      to);
  put(to, c->o->model);
  fputs("</title>\n<style>\n", to);
  fwrite(report_style, 1, sizeof report_style, to);
  fputs(
      "pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .5rem; background: var(--field); border: 1px "
      "solid var(--line); border-radius: "
      "4px; }\nfigure { margin: 1rem 0; overflow-x: auto; }\nfigure svg { min-width: 34rem; }\nth { vertical-align: "
      "bottom; }\n</style>\n</head>\n<body>\n<h1>Scheduling "
      "policies: ",
      to);
  put(to, c->o->model);
  fprintf(to,
          "</h1>\n<p id=\"subtitle\">%d repetitions in turn, %d workers of %d threads. Ratios are to %s, paired by "
          "repetition, with 95%% intervals of their bootstrap.</p>\n<main>\n<div id=\"answer\"><p>",
          c->repetitions, c->workers, c->threads, c->variant[c->base].policy);
  put(to, sl__compare_verdict(c, text, sizeof text));
  if (sl__compare_uncalibrated(c))
    fputs("</p>\n<p><strong>", to), put(to, sl__compare_mark(c, text, sizeof text)), fputs("</strong>", to);
  fprintf(
      to,
      "</p>\n<p>%s</p>\n<p>No schedule of this step takes less than %.3f ms: the bound, from the times of its tasks "
      "when they run alone.</p></div>\n",
      sl__compare_same_bits(c) ? "All left the same bytes."
                               : "They did not leave the same bytes: that is a defect; please report it.",
      1e3 * c->bound);
  SL_TRY(put_ratios(c, r, to));
  SL_TRY(put_shares(c, r, to));
  fputs("<h2>All figures</h2>\n", to);
  put_table(c, to);
  fputs(
      "<p class=\"note\">Step: median of the processes’ medians. Of bound: the bound over the step. Inflation: time in "
      "kernels over that of the same kernels run alone. The rest are parts of worker time, means of the processes: in "
      "kernels, and idle by "
      "cause. docs/timeline.md has the rules.</p>\n",
      to);
  put_others(c, to);
  fputs("<h2>How to repeat it</h2>\n<pre>", to);
  SL_TRY(sl__compare_command(c, &command));
  put(to, command);
  free(command);
  fputs(
      "</pre>\n<h2>Machine and versions</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Machine "
      "and versions\"><table>\n",
      to);
  put_facts(to, "", c->environment);
  fputs("</table></div>\n</main>\n</body>\n</html>\n", to);
  return SL_OK;
}

sl_status sl__compare_html(const sl__comparison *c, char **text) {
  size_t bytes;
  rows r = {0};
  FILE *to = NULL;
  sl_status status = SL_OK;
  *text = NULL;
  SL_TRY_OUT(make_rows(c, &r));
  to = open_memstream(text, &bytes);
  if (!to) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for the page"));
  status = put_page(c, &r, to);
  if (fclose(to) != 0 && status == SL_OK) status = sl_fail(SL_ENOMEM, "no memory for the page");
  if (status != SL_OK) free(*text), *text = NULL;
out:
  free(r.name), free(r.text), free(r.at);
  return status;
}
