/* Plots as SVG, for pages and papers: plain data in, one <svg> element out, that stands as a file of its own or within
 * HTML. It scales (viewBox), needs no script, and every mark has its value as a tooltip.
 *
 *   const double step[] = {1, 2, 3}, loss[] = {2.3, 1.1, 0.7};
 *   const sl__series curve = {.kind = SL__LINE, .name = "training", .colour = "op0", .n = 3, .x = step, .y = loss};
 *   sl__plot plot = {.title = "Loss", .x_label = "step", .series = &curve, .n_series = 1};
 *   char *text;
 *   SL_TRY(sl__svg_plot(&plot, &text)); ... free(text);
 *
 * Colours have names, those of the variables of `starling report`: paper, ink, soft, line; kernels, and the causes of
 * idle time; op0 to op9; other; accent. Each is written as an attribute (for programs that know no CSS), and as a class
 * that takes the page's variable of that name where there is one: so a page that defines --ink and the rest for light
 * and dark colours its plots with it, and a file alone is light on white. */
#ifndef SL_TOOLS_SVG_H
#define SL_TOOLS_SVG_H

#include <stdio.h>

#include "runtime/base/status.h"

typedef enum sl__mark {
  SL__LINE,   /* through (x[i], y[i]); a NaN breaks it */
  SL__POINTS, /* at (x[i], y[i]), with an interval low[i] to high[i] where these are given: of x in rows, else of y */
  SL__BARS,   /* rows only: in row i a bar of length x[i], behind those of earlier series */
  SL__BOXES   /* rows only: a box from low[i] to high[i] in row y[i]; many of them stay one path, without tooltips */
} sl__mark;

typedef struct sl__series {
  sl__mark kind;
  const char *name;   /* in the legend and in tooltips; NULL: in neither */
  const char *colour; /* a name of those above */
  int n;
  const double *x, *y, *low, *high; /* [n] */
} sl__series;

typedef struct sl__plot {
  const char *title, *x_label, *y_label; /* NULL: none */
  const char *unit;                      /* behind values in tooltips: "%", " ms"; NULL: none */
  const char *const *row;                /* names of rows from the top; NULL: y is a number */
  int n_rows;
  double least, most; /* of x; equal: what the data need */
  int logarithmic;    /* both axes; no rows. What is not above 0 is left out */
  int from_zero;      /* the axes of the data (x of rows, else y) begin at 0 at the latest */
  const double *rule; /* a line across at this value (of x in rows, else of y); NULL: none */
  const sl__series *series;
  int n_series;
  double width, height; /* in pixels of 1:1; 0: 720, and what the rows need or 300 */
} sl__plot;

/* *text: the caller's to free(). SL_EINVAL: an unknown colour, bars or boxes without rows, logarithmic with rows.
 */
sl_status sl__svg_plot(const sl__plot *plot, char **text);

/* Text as the content or an attribute's value of XML and HTML: markup is escaped; what is no UTF-8, or no character
 * that XML allows, becomes U+FFFD. */
void sl__svg_escape(FILE *to, const char *text);

#endif
