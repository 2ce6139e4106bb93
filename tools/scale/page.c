/* starling scale: the page: verdict, speedup and the parts of a step as plots, the table, and the command. */
#include "tools/compare/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/svg.h"
#include "tools/scale/parts.h"

static sl_status draw_speedup(const sl__scaling *s, char **svg) {
  enum { LINES = 3 };
  const sl__scale_series *of[LINES] = {NULL, &s->is, &s->changed};
  sl__series line[LINES];
  double *room = malloc(2 * LINES * (size_t)s->is.n * sizeof *room);
  int n = 0;
  if (!room) return sl_no_memory("for a plot");
  for (int l = 0; l < LINES; l++) {
    double *x = room + 2 * l * s->is.n, *y = x + s->is.n;
    int points = 0;
    for (int i = 0; i < (of[l] ? of[l]->n : s->is.n); i++) {
      const sl__scale_point *p = of[l] ? &of[l]->point[i] : &s->is.point[i];
      if (p->reason) continue;
      x[points] = p->count;
      y[points++] = of[l] ? p->speedup : p->speedup / p->efficiency;
    }
    if (!points) continue;
    line[n++] = (sl__series){.kind = SL__LINE,
                             .name = l == 0   ? "ideal"
                                     : l == 1 ? "as it is"
                                              : "changed",
                             .colour = l == 0   ? "soft"
                                       : l == 1 ? "accent"
                                                : "op1",
                             .n = points,
                             .x = x,
                             .y = y};
  }
  const sl_status status = sl__svg_plot(&(sl__plot){.title = "Speedup",
                                                    .x_label = sl__scale_unit(s, 2),
                                                    .y_label = "samples/s over those of the first",
                                                    .logarithmic = 1,
                                                    .series = line,
                                                    .n_series = n},
                                        svg);
  free(room);
  return status;
}

static sl_status draw_parts(const sl__scaling *s, const sl__scale_series *series, char **svg) {
  static const char *const colour[SL__SCALE_PARTS] = {"kernels", "exchange", "dependency", "runtime", "op5"};
  char(*name)[32] = calloc((size_t)series->n, sizeof *name);
  const char **row = calloc((size_t)series->n, sizeof *row);
  double *x = calloc(SL__SCALE_PARTS * (size_t)series->n, sizeof *x);
  sl__series bars[SL__SCALE_PARTS];
  int n = 0;
  sl_status status = SL_OK;
  if (!name || !row || !x) SL_TRY_OUT(sl_no_memory("for a plot"));
  for (int i = 0; i < series->n; i++) {
    const sl__scale_point *p = &series->point[i];
    if (p->reason) continue;
    snprintf(name[n], sizeof name[n], "%d %s", p->count, sl__scale_unit(s, p->count));
    row[n] = name[n];
    for (int k = 0; k < SL__SCALE_PARTS; k++) x[k * series->n + n] = 1e3 * fmax(p->part[k], 0);
    n++;
  }
  for (int k = 0; k < SL__SCALE_PARTS; k++)
    bars[k] = (sl__series){
        .kind = SL__BARS, .name = sl__scale_part_names[k], .colour = colour[k], .n = n, .x = x + k * series->n};
  status = sl__svg_plot(
      &(sl__plot){.title = series->title ? "Where a step's time goes, changed" : "Where a step's time goes",
                  .x_label = "ms",
                  .unit = " ms",
                  .row = row,
                  .n_rows = n,
                  .from_zero = 1,
                  .series = bars,
                  .n_series = s->o->jitter > 0 ? SL__SCALE_PARTS : SL__SCALE_SLOWEST},
      svg);
out:
  free(name), free(row), free(x);
  return status;
}

static void put_cell(FILE *to, const char *format, double x) {
  fputs("<td>", to);
  if (isfinite(x))
    fprintf(to, format, x);
  else
    fputs("-", to);
  fputs("</td>", to);
}

static void put_table(const sl__scaling *s, const sl__scale_series *series, FILE *to) {
  double units;
  const char *rate = sl__scale_rate(s, &units);
  fprintf(to,
          "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"All figures\"><table><thead><tr><th>%s</th>"
          "<th>job's ranks</th><th>step, ms</th><th>samples/s</th>",
          sl__scale_unit(s, 2));
  if (rate) fprintf(to, "<th>%s</th>", rate);
  fputs("<th>speedup</th><th>efficiency, %</th>", to);
  for (int k = 0; k < SL__SCALE_PARTS; k++) fprintf(to, "<th>%s, ms</th>", sl__scale_part_names[k]);
  fputs("<th>energy, J</th><th>cost of 1000</th>", to);
  fputs(series->title ? "<th>ratio</th></tr></thead>\n<tbody>\n" : "</tr></thead>\n<tbody>\n", to);
  for (int i = 0; i < series->n; i++) {
    const sl__scale_point *p = &series->point[i];
    if (p->reason) {
      fprintf(to, "<tr><td>%d</td><td class=\"meaning\">no figures: ", p->count);
      sl__svg_escape(to, p->reason);
      fputs("</td></tr>\n", to);
      continue;
    }
    fprintf(to, "<tr><td>%d</td><td>%d</td>", p->count, p->ranks);
    put_cell(to, "%.3f", 1e3 * p->step), put_cell(to, "%.1f", p->samples);
    if (rate) put_cell(to, "%.0f", units * p->samples);
    put_cell(to, "%.3f", p->speedup), put_cell(to, "%.1f", 100 * p->efficiency);
    for (int k = 0; k < SL__SCALE_PARTS; k++) put_cell(to, "%.3f", 1e3 * p->part[k]);
    put_cell(to, "%.4g", p->energy), put_cell(to, "%.4g", p->cost);
    if (series->title) put_cell(to, "%.3f", p->ratio);
    fputs("</tr>\n", to);
  }
  fputs("</tbody></table></div>\n", to);
}

/* A text as a paragraph, which it frees. */
static void put_paragraph(FILE *to, char *text) {
  fputs("<p>", to), sl__svg_escape(to, text), fputs("</p>\n", to);
  free(text);
}

static sl_status put_plot(FILE *to, sl_status status, char *svg) {
  if (status == SL_OK) fprintf(to, "<figure>\n%s</figure>\n", svg);
  free(svg);
  return status;
}

static sl_status put_page(const sl__scaling *s, FILE *to) {
  char *text, *svg = NULL;
  sl__page_begin(to, "Scaling: ", s->o->model);
  SL_TRY(sl__scale_subtitle(s, &text));
  fputs("<p id=\"subtitle\">", to), sl__svg_escape(to, text), fputs("</p>\n<main>\n<div id=\"answer\">", to);
  free(text);
  SL_TRY(sl__scale_verdict(s, &s->is, &text));
  put_paragraph(to, text);
  if (s->o->lost_node) {
    SL_TRY(sl__scale_loss_text(s, s->changed.n ? &s->changed : &s->is, &text));
    put_paragraph(to, text);
  }
  fputs("</div>\n", to);
  const sl_status drawn = draw_speedup(s, &svg);
  SL_TRY(put_plot(to, drawn, drawn == SL_OK ? svg : NULL));
  const sl_status parts = draw_parts(s, &s->is, &svg);
  SL_TRY(put_plot(to, parts, parts == SL_OK ? svg : NULL));
  fputs("<h2>All figures</h2>\n", to);
  put_table(s, &s->is, to);
  if (s->changed.n) {
    fputs("<h2>Changed: ", to), sl__svg_escape(to, s->changed.title), fputs("</h2>\n", to);
    SL_TRY(sl__scale_verdict(s, &s->changed, &text));
    put_paragraph(to, text);
    const sl_status changed = draw_parts(s, &s->changed, &svg);
    SL_TRY(put_plot(to, changed, changed == SL_OK ? svg : NULL));
    put_table(s, &s->changed, to);
  }
  fputs(
      "<p class=\"note\">The parts of a step are means over a rank's workers: in kernels; idle because an exchange is "
      "under way; without a ready task; in the runtime. docs/how-to/scale.md has the rules.</p>\n",
      to);
  SL_TRY(sl__page_repeat(to, s->o));
  sl__page_end(to);
  return SL_OK;
}

sl_status sl__scale_html(const sl__scaling *s, char **text) {
  size_t bytes;
  *text = NULL;
  FILE *to = open_memstream(text, &bytes);
  if (!to) return sl_no_memory("for the page");
  sl_status status = put_page(s, to);
  if (fclose(to) != 0 && status == SL_OK) status = sl_no_memory("for the page");
  if (status != SL_OK) free(*text), *text = NULL;
  return status;
}
