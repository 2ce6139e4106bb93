/* Plots as SVG, for pages and papers: takes plain data and returns one <svg> element that works as a file of its own
 * or inside HTML. It scales (viewBox) and needs no script; every mark has its value as a tooltip.
 *
 * const double step[] = {1, 2, 3}, loss[] = {2.3, 1.1, 0.7};
 * const sl__series curve = {.kind = SL__LINE, .name = "training", .colour = "op0", .n = 3, .x = step, .y = loss};
 * sl__plot plot = {.title = "Loss", .x_label = "step", .series = &curve, .n_series = 1};
 * char *text;
 * SL_TRY(sl__svg_plot(&plot, &text)); ... free(text);
 *
 * Colours are names of the variables of `starling report`: paper, ink, soft, line; kernels, and the causes of idle
 * time; op0 to op9; other; accent. Each is written as an attribute, for programs without CSS, and as a class, which
 * takes the page's variable of that name if it exists. So a page that defines --ink and the others for light and
 * dark colours its plots with them, and a file alone is light on white. */
#ifndef SL_TOOLS_SVG_H
#define SL_TOOLS_SVG_H

#include <stdio.h>

#include "runtime/base/status.h"

typedef enum sl__mark {
  SL__LINE,   /* through (x[i], y[i]); NaN interrupts it */
  SL__POINTS, /* at (x[i], y[i]), with an interval low[i] to high[i] if given: of x with rows, else of y */
  SL__BARS,   /* rows only: in row i a bar of length x[i], after those of earlier series */
  SL__BOXES   /* rows only: a box from low[i] to high[i] in row y[i]; many boxes become one path without tooltips */
} sl__mark;

typedef struct sl__series {
  sl__mark kind;
  const char *name;   /* shown in the legend and in tooltips; NULL: in neither */
  const char *colour; /* one of the names above */
  int n;
  const double *x, *y, *low, *high; /* [n] */
} sl__series;

typedef struct sl__plot {
  const char *title, *x_label, *y_label; /* NULL: none */
  const char *unit;                      /* unit shown after values in tooltips: "%", " ms"; NULL: none */
  const char *const *row;                /* names of the rows from the top; NULL: y is a number */
  int n_rows;
  double least, most; /* range of x; equal: as the data need */
  int logarithmic;    /* logarithmic axes; not with rows. Values not above 0 are left out */
  int from_zero;      /* the axis of the data (x with rows, else y) includes 0 */
  const double *rule; /* a line across at this value (of x with rows, else of y); NULL: none */
  const sl__series *series;
  int n_series;
  double width, height; /* width and height in pixels; 0: 720, and what the rows need or 300 */
} sl__plot;

/* The caller frees *text. SL_EINVAL: an unknown colour, bars or boxes without rows, logarithmic axes with rows. */
sl_status sl__svg_plot(const sl__plot *plot, char **text);

/* Escapes text for the content or an attribute's value of XML and HTML; what is not UTF-8, or not a character that
 * XML allows, becomes U+FFFD. */
void sl__svg_escape(FILE *to, const char *text);

#endif
