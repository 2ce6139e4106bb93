/* SVG plots: ranges and ticks, the frame, the marks. */
#include "tools/report/svg.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FONT = 12, ROW = 30, MOST_TICKS = 64, LONGEST = 48, TOOLTIPS = 2000 };
static const double LETTER = 6.7; /* mean width of a character at that size; it varies with the font */

typedef struct colour {
  const char *name, *light;
} colour;
static const colour colours[] = {
    {"paper", "#fff"},       {"ink", "#1c2024"},     {"soft", "#5b6470"},       {"line", "#d5dae0"},
    {"kernels", "#3d8f5b"},  {"runtime", "#8a8f98"}, {"dependency", "#d1495b"}, {"data", "#1b9aaa"},
    {"exchange", "#8e5ec9"}, {"policy", "#b8860b"},  {"op0", "#4e79a7"},        {"op1", "#e8872e"},
    {"op2", "#59a14f"},      {"op3", "#b07aa1"},     {"op4", "#4fa8a0"},        {"op5", "#d4ab1e"},
    {"op6", "#9c755f"},      {"op7", "#e4717f"},     {"op8", "#6b7fd7"},        {"op9", "#7a9a3a"},
    {"other", "#9aa3ad"},    {"accent", "#0b62a8"},
};
enum { COLOURS = sizeof colours / sizeof *colours };

/* An axis: the values least ... most lie at the pixels from ... to. */
typedef struct axis {
  double least, most, from, to;
  double tick[MOST_TICKS];
  int n, decimals, logarithmic;
} axis;

typedef struct frame {
  const sl__plot *plot;
  axis x, y; /* with rows, y counts them from 0 at the top */
  double width, height, left, right, top, bottom;
  int marks; /* number of bars, boxes and points: a few get tooltips, many do not */
} frame;

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* The character at text and its length in bytes; U+FFFD and 1 if XML allows no such character. */
static uint32_t character(const unsigned char *text, int *bytes) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const int n = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
  uint32_t c = n == 1 ? text[0] : n ? text[0] & (0xffu >> (n + 1)) : 0xFFFD;
  *bytes = 1;
  for (int i = 1; i < n; i++) {
    if (text[i] >> 6 != 2) return 0xFFFD;
    c = c << 6 | (text[i] & 63u);
  }
  if (n == 0 || c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) || c == 0xFFFE || c == 0xFFFF ||
      (c < 32 && c != '\t' && c != '\n'))
    return 0xFFFD;
  *bytes = n;
  return c;
}

/* The first `most` characters, with an ellipsis if there are more. */
static void escape(FILE *to, const char *text, int most) {
  for (const unsigned char *at = (const unsigned char *)text; *at;) {
    int bytes;
    const uint32_t c = character(at, &bytes);
    if (most-- == 0) {
      fputs("\u2026", to);
      return;
    }
    if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'')
      fprintf(to, "&#%u;", (unsigned)c);
    else if (c == 0xFFFD)
      fputs("\uFFFD", to);
    else
      fwrite(at, 1, (size_t)bytes, to);
    at += bytes;
  }
}

void sl__svg_escape(FILE *to, const char *text) { escape(to, text, -1); }

static int length_of(const char *text) {
  int n = 0, bytes;
  for (const unsigned char *at = (const unsigned char *)text; *at; at += bytes, n++) character(at, &bytes);
  return n < LONGEST ? n : LONGEST + 1;
}

/* Writes fill or stroke in a named colour; the element's other attributes follow. */
static void paint(FILE *to, const char *property, const char *name) {
  for (int i = 0; i < COLOURS; i++)
    if (strcmp(colours[i].name, name) == 0)
      fprintf(to, " class=\"sl-%s-%s\" %s=\"%s\"", property, name, property, colours[i].light);
}

static void put_text(FILE *to, double x, double y, const char *anchor, const char *colour, const char *more,
                     const char *text) {
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s", x, y, anchor, more);
  paint(to, "fill", colour);
  fputc('>', to);
  escape(to, text, LONGEST);
  fputs("</text>\n", to);
}

static void put_line(FILE *to, const char *colour, double width, double x0, double y0, double x1, double y1) {
  fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"%g\"", x0, y0, x1, y1, width);
  paint(to, "stroke", colour);
  fputs("/>\n", to);
}

/* ---- axes ------------------------------------------------------------------------------------------------------- */

static int has(const axis *a, double x) { return isfinite(x) && (!a->logarithmic || x > 0); }

static void include(axis *a, double x) {
  if (!has(a, x)) return;
  a->least = fmin(a->least, x);
  a->most = fmax(a->most, x);
}

/* Sets about this many ticks, at multiples of 1, 2 or 5 times a power of ten. The axis ends at ticks unless it is
 * fixed. */
static void set_ticks(axis *a, int about, int fixed) {
  if (!(a->least <= a->most)) a->least = 0, a->most = 1; /* no data */
  if (a->least == a->most) {
    const double by = a->least != 0 ? fabs(a->least) / 10 : 1;
    a->least -= by, a->most += by;
  }
  const double rough = (a->most - a->least) / about, power = pow(10, floor(log10(rough)));
  const double step = (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10) * power;
  const double slack = 1e-9 * step;
  if (!fixed) a->least = floor((a->least + slack) / step) * step, a->most = ceil((a->most - slack) / step) * step;
  a->decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
  a->n = 0;
  for (double k = ceil((a->least - slack) / step); k * step <= a->most + slack && a->n < MOST_TICKS; k++)
    a->tick[a->n++] = k * step;
}

/* Sets ticks at powers of ten. The axis begins and ends at a tick. */
static void set_decades(axis *a) {
  if (!(a->least <= a->most)) a->least = 1, a->most = 10; /* no data */
  const int low = (int)floor(log10(a->least) + 1e-9);
  int high = (int)ceil(log10(a->most) - 1e-9);
  if (high == low) high++;
  a->least = pow(10, low), a->most = pow(10, high);
  a->decimals = 7; /* as many digits as the number needs */
  a->n = 0;
  for (int e = low; e <= high && a->n < MOST_TICKS; e++) a->tick[a->n++] = pow(10, e);
}

static char *number(double x, int decimals, char text[32]) {
  if (decimals > 6 || fabs(x) >= 1e7)
    snprintf(text, 32, "%.4g", x);
  else
    snprintf(text, 32, "%.*f", decimals, x == 0 ? 0.0 : x); /* no -0 */
  return text;
}

static double at(const axis *a, double value) {
  if (a->logarithmic) return a->from + log10(value / a->least) / log10(a->most / a->least) * (a->to - a->from);
  return a->from + (value - a->least) / (a->most - a->least) * (a->to - a->from);
}

/* ---- frame ------------------------------------------------------------------------------------------------------ */

static void find_ranges(frame *f) {
  const sl__plot *p = f->plot;
  axis *data = p->row ? &f->x : &f->y;
  f->x = f->y = (axis){.least = DBL_MAX, .most = -DBL_MAX, .logarithmic = p->logarithmic};
  for (int k = 0; k < p->n_series; k++) {
    const sl__series *s = &p->series[k];
    for (int i = 0; i < s->n; i++) {
      if (s->kind == SL__BARS) {
        double end = 0;
        for (int b = 0; b <= k; b++)
          if (p->series[b].kind == SL__BARS && i < p->series[b].n && p->series[b].x[i] > 0) end += p->series[b].x[i];
        include(&f->x, 0), include(&f->x, end);
      } else if (s->x) {
        include(&f->x, s->x[i]);
      }
      if (!p->row && s->y) include(&f->y, s->y[i]);
      if (s->low) include(data, s->low[i]);
      if (s->high) include(data, s->high[i]);
    }
    if (s->kind != SL__LINE) f->marks += s->n;
  }
  if (p->rule) include(data, *p->rule);
  if (p->from_zero) include(data, 0);
}

/* The legend's entries from left to right, in as many lines as they need; with to = NULL the lines are only counted. */
static int put_legend(const frame *f, FILE *to, double top) {
  double x = f->left;
  int lines = 0;
  for (int k = 0; k < f->plot->n_series; k++) {
    const sl__series *s = &f->plot->series[k];
    if (!s->name) continue;
    const double wide = 16 + LETTER * length_of(s->name) + 14;
    if (lines == 0 || x + wide > f->width) x = f->left, lines++;
    if (to) {
      const double y = top + (FONT + 6) * (lines - 1);
      fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"%d\" rx=\"2\"", x,
              y + (s->kind == SL__LINE ? 6 : 2), s->kind == SL__LINE ? 3 : 11);
      paint(to, "fill", s->colour);
      fputs("/>\n", to);
      put_text(to, x + 16, y + FONT, "start", "soft", "", s->name);
    }
    x += wide;
  }
  return lines;
}

static void lay_out(frame *f) {
  const sl__plot *p = f->plot;
  char text[32];
  double labels = 0;
  f->width = p->width > 0 ? p->width : 720;
  if (p->logarithmic)
    set_decades(&f->x), set_decades(&f->y);
  else
    set_ticks(&f->x, f->width < 500 ? 4 : 8, 0);
  if (p->least < p->most && !p->logarithmic) {
    f->x.least = p->least, f->x.most = p->most;
    set_ticks(&f->x, f->width < 500 ? 4 : 8, 1);
  }
  for (int i = 0; i < p->n_rows && p->row; i++) labels = fmax(labels, LETTER * length_of(p->row[i]));
  if (!p->row) {
    if (!p->logarithmic) set_ticks(&f->y, 5, 0);
    for (int i = 0; i < f->y.n; i++)
      labels = fmax(labels, LETTER * (double)strlen(number(f->y.tick[i], f->y.decimals, text)));
  }
  f->left = 14 + labels + (p->y_label ? FONT + 8 : 0);
  f->right = f->width - 24;
  f->top = 10 + (p->title ? FONT + 12 : 0) + (FONT + 6) * put_legend(f, NULL, 0) + 4;
  const double below = FONT + 12 + (p->x_label ? FONT + 6 : 0);
  f->height = p->height > 0 ? p->height : p->row ? f->top + ROW * p->n_rows + below : 300;
  f->bottom = f->height - below;
  f->x.from = f->left, f->x.to = f->right;
  if (p->row)
    f->y.least = 0, f->y.most = p->n_rows, f->y.from = f->top, f->y.to = f->bottom;
  else
    f->y.from = f->bottom, f->y.to = f->top;
}

static void put_style(FILE *to) {
  fputs("<style>\n", to);
  for (int i = 0; i < COLOURS; i++)
    fprintf(to, ".sl-fill-%s{fill:var(--%s,%s)}.sl-stroke-%s{stroke:var(--%s,%s)}\n", colours[i].name, colours[i].name,
            colours[i].light, colours[i].name, colours[i].name, colours[i].light);
  fputs("</style>\n", to);
}

static void put_frame(const frame *f, FILE *to) {
  const sl__plot *p = f->plot;
  char text[32], turned[96];
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" role=\"img\" "
          "font-family=\"system-ui, sans-serif\" font-size=\"%d\" style=\"max-width:100%%;height:auto\">\n<title>",
          f->width, ceil(f->height), f->width, FONT);
  sl__svg_escape(to, p->title ? p->title : "plot");
  fputs("</title>\n", to);
  put_style(to);
  fprintf(to, "<rect width=\"100%%\" height=\"100%%\"");
  paint(to, "fill", "paper");
  fputs("/>\n", to);
  if (p->title) put_text(to, f->left, 10 + FONT, "start", "ink", " font-weight=\"600\"", p->title);
  put_legend(f, to, 10 + (p->title ? FONT + 10 : 0));
  for (int i = 0; i < f->x.n; i++) {
    const double x = at(&f->x, f->x.tick[i]);
    put_line(to, "line", 1, x, f->top, x, f->bottom);
    put_text(to, x, f->bottom + FONT + 4, "middle", "soft", "", number(f->x.tick[i], f->x.decimals, text));
  }
  for (int i = 0; i < f->y.n && !p->row; i++) {
    const double y = at(&f->y, f->y.tick[i]);
    put_line(to, "line", 1, f->left, y, f->right, y);
    put_text(to, f->left - 6, y + 4, "end", "soft", "", number(f->y.tick[i], f->y.decimals, text));
  }
  for (int i = 0; i < p->n_rows && p->row; i++)
    put_text(to, f->left - 8, at(&f->y, i + 0.5) + 4, "end", "ink", "", p->row[i]);
  if (p->x_label) put_text(to, (f->left + f->right) / 2, f->height - 6, "middle", "soft", "", p->x_label);
  if (p->y_label) {
    const double y = (f->top + f->bottom) / 2;
    snprintf(turned, sizeof turned, " transform=\"rotate(-90 %d %.1f)\"", FONT + 2, y);
    put_text(to, FONT + 2, y, "middle", "soft", turned, p->y_label);
  }
}

/* ---- marks ------------------------------------------------------------------------------------------------------ */

/* "lws: kernels 83.1%", and an interval if there is one. Values have one digit more than the axis. */
static void put_tooltip(const frame *f, FILE *to, const sl__series *s, int row, double value, double low, double high) {
  const axis *a = f->plot->row ? &f->x : &f->y;
  const char *unit = f->plot->unit ? f->plot->unit : "";
  char text[32];
  if (f->marks > TOOLTIPS) return;
  fputs("<title>", to);
  if (row >= 0 && row < f->plot->n_rows) sl__svg_escape(to, f->plot->row[row]), fputs(": ", to);
  if (s->name) sl__svg_escape(to, s->name), fputc(' ', to);
  fputs(number(value, a->decimals + 2, text), to);
  sl__svg_escape(to, unit);
  if (isfinite(low) && isfinite(high)) {
    fprintf(to, " (%s to ", number(low, a->decimals + 2, text));
    fputs(number(high, a->decimals + 2, text), to);
    sl__svg_escape(to, unit);
    fputc(')', to);
  }
  fputs("</title>", to);
}

static void put_curve(const frame *f, FILE *to, const sl__series *s) {
  int open = 0;
  fputs("<path fill=\"none\" stroke-width=\"1.8\" stroke-linejoin=\"round\"", to);
  paint(to, "stroke", s->colour);
  fputs(" d=\"", to);
  for (int i = 0; i < s->n; i++) {
    const int fine = has(&f->x, s->x[i]) && has(&f->y, s->y[i]);
    if (fine) fprintf(to, "%c%.1f %.1f", open ? 'L' : 'M', at(&f->x, s->x[i]), at(&f->y, s->y[i]));
    open = fine;
  }
  fputs("\"/>\n", to);
}

static void put_points(const frame *f, FILE *to, const sl__series *s) {
  for (int i = 0; i < s->n; i++) {
    if (!has(&f->x, s->x[i]) || !has(&f->y, s->y[i])) continue;
    const double x = at(&f->x, s->x[i]), y = at(&f->y, s->y[i] + (f->plot->row ? 0.5 : 0));
    const double low = s->low ? s->low[i] : NAN, high = s->high ? s->high[i] : NAN;
    if (isfinite(low) && isfinite(high)) {
      if (f->plot->row)
        put_line(to, s->colour, 2, at(&f->x, low), y, at(&f->x, high), y);
      else
        put_line(to, s->colour, 2, x, at(&f->y, low), x, at(&f->y, high));
    }
    fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", x, y);
    paint(to, "fill", s->colour);
    fputc('>', to);
    put_tooltip(f, to, s, f->plot->row ? (int)s->y[i] : -1, f->plot->row ? s->x[i] : s->y[i], low, high);
    fputs("</circle>\n", to);
  }
}

static void put_box(const frame *f, FILE *to, const sl__series *s, int row, double low, double high, double value) {
  const double x = at(&f->x, low), y = at(&f->y, row + 0.14);
  fprintf(to, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", x, y, at(&f->x, high) - x,
          at(&f->y, row + 0.86) - y);
  paint(to, "fill", s->colour);
  fputc('>', to);
  put_tooltip(f, to, s, row, value, NAN, NAN);
  fputs("</rect>\n", to);
}

static void put_bars(const frame *f, FILE *to, int k) {
  const sl__series *s = &f->plot->series[k];
  for (int i = 0; i < s->n && i < f->plot->n_rows; i++) {
    double from = 0;
    for (int b = 0; b < k; b++) {
      const sl__series *earlier = &f->plot->series[b];
      if (earlier->kind == SL__BARS && i < earlier->n && earlier->x[i] > 0) from += earlier->x[i];
    }
    if (s->x[i] > 0) put_box(f, to, s, i, from, from + s->x[i], s->x[i]);
  }
}

static void put_boxes(const frame *f, FILE *to, const sl__series *s) {
  if (f->marks <= TOOLTIPS) {
    for (int i = 0; i < s->n; i++) put_box(f, to, s, (int)s->y[i], s->low[i], s->high[i], s->high[i] - s->low[i]);
    return;
  }
  fputs("<path", to);
  paint(to, "fill", s->colour);
  fputs(" d=\"", to);
  for (int i = 0; i < s->n; i++) {
    const double x = at(&f->x, s->low[i]), y = at(&f->y, (int)s->y[i] + 0.14);
    fprintf(to, "M%.2f %.1fH%.2fV%.1fH%.2fz", x, y, at(&f->x, s->high[i]), at(&f->y, (int)s->y[i] + 0.86), x);
  }
  fputs("\"/>\n", to);
}

static void put_rule(const frame *f, FILE *to) {
  if (!f->plot->rule || !isfinite(*f->plot->rule)) return;
  const double v = *f->plot->rule;
  if (f->plot->row)
    put_line(to, "ink", 1, at(&f->x, v), f->top, at(&f->x, v), f->bottom);
  else
    put_line(to, "ink", 1, f->left, at(&f->y, v), f->right, at(&f->y, v));
}

static sl_status check(const sl__plot *p) {
  if (p->logarithmic && p->row) return sl_fail(SL_EINVAL, "plot: rows are not logarithmic");
  for (int k = 0; k < p->n_series; k++) {
    const sl__series *s = &p->series[k];
    int known = 0;
    for (int i = 0; i < COLOURS; i++) known |= s->colour && strcmp(colours[i].name, s->colour) == 0;
    if (!known) return sl_fail(SL_EINVAL, "plot: no colour '%s'", s->colour ? s->colour : "(none)");
    if (!p->row && (s->kind == SL__BARS || s->kind == SL__BOXES))
      return sl_fail(SL_EINVAL, "plot: bars and boxes want rows");
    for (int i = 0; i < s->n && s->kind == SL__BOXES; i++)
      if (!(s->y[i] >= 0 && s->y[i] < p->n_rows) || !isfinite(s->low[i]) || !(s->low[i] <= s->high[i]))
        return sl_fail(SL_EINVAL, "plot: box %d is in no row, or ends before it begins", i);
  }
  return SL_OK;
}

sl_status sl__svg_plot(const sl__plot *p, char **text) {
  frame f = {.plot = p};
  size_t bytes;
  *text = NULL;
  SL_TRY(check(p));
  FILE *to = open_memstream(text, &bytes);
  if (!to) return sl_no_memory("for a plot");
  find_ranges(&f);
  lay_out(&f);
  put_frame(&f, to);
  put_rule(&f, to);
  for (int k = 0; k < p->n_series; k++) {
    const sl__series *s = &p->series[k];
    if (s->kind == SL__LINE) put_curve(&f, to, s);
    if (s->kind == SL__POINTS) put_points(&f, to, s);
    if (s->kind == SL__BARS) put_bars(&f, to, k);
    if (s->kind == SL__BOXES) put_boxes(&f, to, s);
  }
  fputs("</svg>\n", to);
  if (fclose(to) == 0) return SL_OK;
  free(*text);
  *text = NULL;
  return sl_no_memory("for a plot");
}
