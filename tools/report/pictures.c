/* A report's plots as SVG files, for papers: the figures of the page, drawn once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "tools/report/parts.h"
#include "tools/report/svg.h"

typedef struct place {
  const char *folder;
  int quiet;
} place;

static sl_status save(const place *to, const char *name, const sl__plot *plot) {
  char *text = NULL, *path = NULL;
  sl_status status = sl__svg_plot(plot, &text);
  SL_TRY_OUT(status);
  if (asprintf(&path, "%s/%s.svg", to->folder, name) < 0) {
    path = NULL;
    SL_TRY_OUT(sl_no_memory("for a path"));
  }
  SL_TRY_OUT(sl_file_replace(path, text, strlen(text)));
  if (!to->quiet) sl_text_print("%s\n", path);
out:
  free(text), free(path);
  return status;
}

/* --- operations by colour --------------------------------------------------------------------------------------------
 */

/* The operations that took most time have a colour each, as on the page; the others share one, exchanges another. */
enum { OWN = 10, OTHER = OWN, EXCHANGE, HUES };
static const char *const hues[HUES] = {"op0", "op1", "op2", "op3", "op4",   "op5",
                                       "op6", "op7", "op8", "op9", "other", "exchange"};
typedef struct palette {
  const char *name[HUES]; /* name of the operation; NULL: none has that colour */
} palette;

static int hue_of(const palette *p, const char *operation) {
  for (int i = 0; i < OWN && p->name[i]; i++)
    if (strcmp(p->name[i], operation) == 0) return i;
  return OTHER;
}

static palette palette_of(const sl__report_run *r) {
  palette p = {{0}};
  int n = 0;
  for (int i = 0; i < r->n_lines; i++) {
    const sl__report_line *l = &r->line[i];
    if (l->exchange)
      p.name[EXCHANGE] = "exchange";
    else if (hue_of(&p, l->operation) == OTHER && n < OWN)
      p.name[n++] = l->operation;
    else if (hue_of(&p, l->operation) == OTHER)
      p.name[OTHER] = "other operations";
  }
  return p;
}

/* --- timeline --------------------------------------------------------------------------------------------------------
 */

enum { BOXES = 6000 }; /* boxes drawn at most, unless one step alone has more */

/* Columns of boxes or points. */
typedef struct marks {
  double *x, *y, *low, *high;
  int n;
} marks;

static sl_status marks_create(marks m[HUES], size_t room) {
  for (int h = 0; h < HUES; h++) {
    double *all = calloc(4 * room + 4, sizeof *all);
    if (!all) return sl_no_memory("for a plot of %zu marks", room);
    m[h] = (marks){.x = all, .y = all + room, .low = all + 2 * room, .high = all + 3 * room};
  }
  return SL_OK;
}
static void marks_free(marks m[HUES]) {
  for (int h = 0; h < HUES; h++) free(m[h].x);
}
static int series_of(const marks m[HUES], const palette *p, sl__mark kind, sl__series *series) {
  int n = 0;
  for (int h = 0; h < HUES; h++)
    if (m[h].n)
      series[n++] = (sl__series){.kind = kind,
                                 .name = p->name[h],
                                 .colour = hues[h],
                                 .n = m[h].n,
                                 .x = m[h].x,
                                 .y = m[h].y,
                                 .low = kind == SL__BOXES ? m[h].low : NULL,
                                 .high = kind == SL__BOXES ? m[h].high : NULL};
  return n;
}

static int drawn(const sl_timeline *t, const sl_record *r, int64_t first) {
  if (r->step < first || r->node < 0 || r->node >= t->n_nodes) return 0;
  return r->kind == SL_RECORD_EXCHANGE || (r->kind == SL_RECORD_TASK && r->worker >= 0 && r->worker < t->n_workers);
}

static int rising(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The first of the last whole steps that together have at most BOXES records; *n: their number. */
static sl_status first_drawn(const sl__report_run *r, int64_t *first, size_t *n) {
  size_t room = 1, all = 0;
  for (int k = 0; k < r->n; k++) room += r->timelines[k]->n_records;
  int64_t *step = malloc(room * sizeof *step);
  if (!step) return sl_no_memory("for the steps of %zu records", room);
  for (int k = 0; k < r->n; k++)
    for (size_t i = 0; i < r->timelines[k]->n_records; i++)
      if (drawn(r->timelines[k], &r->timelines[k]->record[i], r->sums[k].first))
        step[all++] = r->timelines[k]->record[i].step;
  qsort(step, all, sizeof *step, rising);
  size_t at =
      all > BOXES ? all - BOXES : 0; /* a step that begins before the window is left out, unless it is the last */
  while (at > 0 && at < all && step[at] == step[at - 1]) at++;
  if (at == all)
    while (at > 0 && step[at - 1] == step[all - 1]) at--;
  *first = all ? step[at] : 0;
  *n = all - at;
  free(step);
  return SL_OK;
}

/* One row per worker, and one for the exchanges of each rank that has some. */
static sl_status rows_of(const sl__report_run *r, char ***row, int **first, int *n) {
  size_t room = 1;
  for (int k = 0; k < r->n; k++) room += (size_t)r->timelines[k]->n_workers + 1;
  *row = calloc(room, sizeof **row);
  *first = calloc((size_t)r->n + 1, sizeof **first);
  *n = 0;
  if (!*row || !*first) return sl_no_memory("for the rows of %d ranks", r->n);
  for (int k = 0; k < r->n; k++) {
    const sl_timeline *t = r->timelines[k];
    (*first)[k] = *n;
    for (int w = 0; w <= t->n_workers; w++) {
      const char *name = w < t->n_workers ? t->worker[w].name : "exchange";
      if (w == t->n_workers && r->sums[k].exchanges == 0) continue;
      char place[SL__PLACE_TEXT];
      sl__sums_place(t, place);
      const int done = r->n > 1 ? asprintf(&(*row)[*n], "rank %d%s%s%s: %s", t->rank, *place ? " (" : "", place,
                                           *place ? ")" : "", name)
                                : asprintf(&(*row)[*n], "%s", name);
      if (done < 0) {
        (*row)[*n] = NULL;
        return sl_no_memory("for the rows of %d ranks", r->n);
      }
      ++*n;
    }
  }
  return SL_OK;
}

static sl_status save_timeline(const sl__report_run *r, const palette *p, const place *to) {
  marks m[HUES] = {{0}};
  sl__series series[HUES];
  char **row = NULL, *title = NULL;
  int *first_row = NULL, rows = 0;
  int64_t first = 0, origin = INT64_MAX, last = 0;
  size_t n = 0;
  sl_status status = SL_OK;
  SL_TRY_OUT(first_drawn(r, &first, &n));
  SL_TRY_OUT(marks_create(m, n));
  SL_TRY_OUT(rows_of(r, &row, &first_row, &rows));
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < r->n; k++)
      for (size_t i = 0; i < r->timelines[k]->n_records; i++) {
        const sl_timeline *t = r->timelines[k];
        const sl_record *a = &t->record[i];
        if (a->step < r->sums[k].first || !drawn(t, a, first)) continue;
        if (pass == 0) {
          if (a->start < origin) origin = a->start;
          if (a->step > last) last = a->step;
          continue;
        }
        const int exchange = a->kind == SL_RECORD_EXCHANGE;
        marks *of = &m[exchange ? EXCHANGE : hue_of(p, t->node[a->node].operation)];
        of->y[of->n] = first_row[k] + (exchange ? t->n_workers : a->worker);
        of->low[of->n] = 1e-6 * (double)(a->start - origin);
        of->high[of->n++] = 1e-6 * (double)(a->end - origin);
      }
  if (asprintf(&title, "%s: steps %lld to %lld", r->timelines[0]->model, (long long)first, (long long)last) < 0) {
    title = NULL;
    SL_TRY_OUT(sl_no_memory("for a title"));
  }
  status = save(to, "timeline",
                &(sl__plot){.title = title,
                            .x_label = "ms",
                            .unit = " ms",
                            .row = (const char *const *)row,
                            .n_rows = rows,
                            .series = series,
                            .n_series = series_of(m, p, SL__BOXES, series),
                            .width = 960});
out:
  for (int i = 0; row && i < rows; i++) free(row[i]);
  free(row), free(first_row), free(title);
  marks_free(m);
  return status;
}

/* --- idle time by cause ----------------------------------------------------------------------------------------------
 */

static sl_status save_idle(const sl__report_run *r, const place *to) {
  enum { PARTS = SL_IDLE_CAUSES + 1 };
  double *percent = calloc((size_t)r->n * PARTS + 1, sizeof *percent);
  char(*name)[32] = calloc((size_t)r->n + 1, sizeof *name);
  const char **row = calloc((size_t)r->n + 1, sizeof *row);
  sl__series series[PARTS];
  sl_status status = percent && name && row ? SL_OK : sl_no_memory("for the rows of %d ranks", r->n);
  SL_TRY_OUT(status);
  for (int k = 0; k < r->n; k++) {
    const sl_usage *u = &r->sums[k].usage;
    snprintf(name[k], sizeof name[k], "rank %d", r->timelines[k]->rank);
    row[k] = name[k];
    for (int c = 0; c < PARTS; c++) percent[c * r->n + k] = 100 * (c == 0 ? u->kernels : u->idle[c - 1]);
  }
  for (int c = 0; c < PARTS; c++) {
    const char *cause = c == 0 ? "kernels" : sl_idle_cause_name((sl_idle_cause)(c - 1));
    series[c] = (sl__series){.kind = SL__BARS, .name = cause, .colour = cause, .n = r->n, .x = percent + c * r->n};
  }
  status = save(to, "idle",
                &(sl__plot){.title = "Where the workers' time went",
                            .x_label = "% of the workers' time",
                            .unit = "%",
                            .row = row,
                            .n_rows = r->n,
                            .least = 0,
                            .most = 100,
                            .series = series,
                            .n_series = PARTS});
out:
  free(percent), free(name), free(row);
  return status;
}

/* --- curves ----------------------------------------------------------------------------------------------------------
 */

/* A column of metrics by step: x and y of each line, NaN if it has no value. Returns 0 if no line has a value. */
static int column_of(const json_t *lines, const char *name, double *x, double *y) {
  const json_t *steps = json_object_get(lines, "step"), *values = json_object_get(lines, name);
  int any = 0;
  for (size_t i = 0; i < json_array_size(steps); i++) {
    const json_t *value = json_array_get(values, i);
    x[i] = json_number_value(json_array_get(steps, i));
    y[i] = json_is_number(value) ? json_number_value(value) : NAN;
    any |= json_is_number(value);
  }
  return any;
}

/* Plots the columns of training and validation with that name; writes no file if no line has them. *done: whether a
 * file was written. */
static sl_status save_curve(const json_t *data, const char *column, const char *file, const char *title, const char *y,
                            const place *to, int *done) {
  static const char *const splits[][3] = {{"train", "training", "op0"}, {"validation", "validation", "op1"}};
  sl__series series[2];
  double *room[2] = {NULL, NULL};
  int n = 0;
  sl_status status = SL_OK;
  for (int k = 0; k < 2; k++) {
    const json_t *lines = json_object_get(data, splits[k][0]);
    const size_t count = json_array_size(json_object_get(lines, "step"));
    room[k] = calloc(2 * count + 1, sizeof *room[k]);
    if (!room[k]) SL_TRY_OUT(sl_no_memory("for %zu lines of metrics", count));
    if (!column_of(lines, column, room[k], room[k] + count)) continue;
    series[n++] = (sl__series){.kind = SL__LINE,
                               .name = splits[k][1],
                               .colour = splits[k][2],
                               .n = (int)count,
                               .x = room[k],
                               .y = room[k] + count};
  }
  *done = n > 0;
  if (n > 0)
    status = save(
        to, file,
        &(sl__plot){.title = title, .x_label = "step", .y_label = y, .from_zero = 1, .series = series, .n_series = n});
out:
  free(room[0]), free(room[1]);
  return status;
}

/* --- roofline --------------------------------------------------------------------------------------------------------
 */

static sl_status save_roofline(const sl__report_run *r, const palette *p, const place *to) {
  const double ridge = r->peak_gflops / r->peak_gigabytes;
  double least = ridge / 4, most = 4 * ridge;
  marks m[HUES] = {{0}};
  sl__series series[HUES + 1];
  char roof[96];
  sl_status status = SL_OK;
  SL_TRY_OUT(marks_create(m, (size_t)r->n_lines));
  for (int i = 0; i < r->n_lines; i++) {
    const sl__report_line *l = &r->line[i];
    if (l->exchange || !(l->flops > 0) || !(l->bytes > 0) || !(l->seconds > 0)) continue;
    marks *of = &m[hue_of(p, l->operation)];
    of->x[of->n] = l->flops / l->bytes;
    of->y[of->n] = 1e-9 * l->flops / l->seconds;
    least = fmin(least, of->x[of->n]), most = fmax(most, of->x[of->n]);
    of->n++;
  }
  const double x[] = {least, ridge, most};
  const double y[] = {least * r->peak_gigabytes, r->peak_gflops, r->peak_gflops};
  snprintf(roof, sizeof roof, "peak %.3g GFLOP/s, memory %.3g GB/s", r->peak_gflops, r->peak_gigabytes);
  series[0] = (sl__series){.kind = SL__LINE, .name = roof, .colour = "ink", .n = 3, .x = x, .y = y};
  status = save(to, "roofline",
                &(sl__plot){.title = "Roofline of a worker",
                            .x_label = "FLOP a byte",
                            .y_label = "GFLOP/s",
                            .unit = " GFLOP/s",
                            .logarithmic = 1,
                            .series = series,
                            .n_series = 1 + series_of(m, p, SL__POINTS, series + 1),
                            .height = 420});
out:
  marks_free(m);
  return status;
}

sl_status sl__report_svg(const sl__report_run *r, const json_t *data, const char *folder, int quiet) {
  const palette p = palette_of(r);
  const place to = {folder, quiet};
  int done;
  SL_TRY(sl_folder_make(folder));
  SL_TRY(save_timeline(r, &p, &to));
  SL_TRY(save_idle(r, &to));
  SL_TRY(save_curve(data, "loss", "loss", "Loss", "nat", &to, &done));
  SL_TRY(save_curve(data, "tokens_per_s", "throughput", "Throughput", "tokens/s", &to, &done));
  if (!done) SL_TRY(save_curve(data, "samples_per_s", "throughput", "Throughput", "samples/s", &to, &done));
  return r->peak_gflops > 0 ? save_roofline(r, &p, &to) : SL_OK;
}
