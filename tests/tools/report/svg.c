/* tools/report/svg.c: well-formed for any text, with round ticks, and marks at their values' places. */
#include "tools/report/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
  return n;
}

/* Checks that each element is closed by its own end tag, attributes are quoted, and & occurs only in numeric
 * references. */
static void assert_well_formed(const char *text) {
  char open[16][16];
  int depth = 0;
  for (const char *at = text; *at;) {
    if (*at == '&') assert_true(at[1] == '#' && strspn(at + 2, "0123456789") > 0);
    if (*at++ != '<') continue;
    const int end = *at == '/';
    at += end;
    char name[16] = "";
    const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    assert_in_range(n, 1, sizeof name - 1);
    memcpy(name, at, n);
    for (at += n; *at != '>'; at++) {
      assert_true(*at && *at != '<');
      if (*at == '"') at = strchr(at + 1, '"');
      assert_non_null(at);
    }
    if (end) {
      assert_in_range(depth, 1, 16);
      assert_string_equal(open[--depth], name);
    } else if (at[-1] != '/') {
      assert_in_range(depth, 0, 15);
      memcpy(open[depth++], name, sizeof name);
    }
    at++;
  }
  assert_int_equal(depth, 0);
}

/* The labels of the axes, in order, each followed by a space. */
static void labels(const char *svg, const char *anchor, char *text, size_t n) {
  size_t used = 0;
  text[0] = 0;
  for (const char *at = svg; (at = strstr(at, "<text ")); at++) {
    const char *end = strchr(at, '>'), *from = strstr(at, anchor);
    if (!from || from > end || !strchr("-0123456789", end[1])) continue;
    used += (size_t)snprintf(text + used, n - used, "%.*s ", (int)strcspn(end + 1, "<"), end + 1);
  }
}

static void ticks(void **state) {
  (void)state;
  static const struct {
    double low, high;
    const char *labels;
  } cases[] = {{0, 1, "0.0 0.2 0.4 0.6 0.8 1.0 "},
               {0.31, 2.29, "0.0 0.5 1.0 1.5 2.0 2.5 "},
               {-3, 4, "-4 -2 0 2 4 "},
               {1000, 1e5, "0 20000 40000 60000 80000 100000 "},
               {2e-9, 9e-9, "2e-09 4e-09 6e-09 8e-09 1e-08 "},
               {5, 5, "4.4 4.6 4.8 5.0 5.2 5.4 5.6 "}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const double x[] = {0, 1}, y[] = {cases[i].low, cases[i].high};
    const sl__series line = {.kind = SL__LINE, .colour = "op0", .n = 2, .x = x, .y = y};
    char *svg, text[256];
    assert_ok(sl__svg_plot(&(sl__plot){.series = &line, .n_series = 1}, &svg));
    assert_well_formed(svg);
    labels(svg, "\"end\"", text, sizeof text);
    assert_string_equal(text, cases[i].labels);
    assert_int_equal(count(svg, "NaN") + count(svg, "nan") + count(svg, "inf"), 0);
    free(svg);
  }
}

/* A value half-way between two ticks is drawn half-way: the point at 1 lies between the lines of 0 and 2. */
static void places(void **state) {
  (void)state;
  const double x[] = {1, 2, 0}, y[] = {0, 1, 2}, low[] = {0.5, 1.5, NAN}, high[] = {1.5, 2, NAN}, one = 1;
  const char *rows[] = {"a", "b", "c"};
  const sl__series points = {
      .kind = SL__POINTS, .name = "ratio", .colour = "accent", .n = 3, .x = x, .y = y, .low = low, .high = high};
  char *svg;
  assert_ok(sl__svg_plot(
      &(sl__plot){.row = rows, .n_rows = 3, .series = &points, .n_series = 1, .rule = &one, .unit = " x"}, &svg));
  assert_well_formed(svg);
  double cx[3], cy[3];
  const char *at = svg;
  for (int i = 0; i < 3; i++) {
    at = strstr(at, "<circle ");
    assert_non_null(at);
    assert_int_equal(sscanf(at++, "<circle cx=\"%lf\" cy=\"%lf\"", &cx[i], &cy[i]), 2);
  }
  assert_near(2 * cx[0], cx[1] + cx[2], 0.3);
  assert_true(cx[2] < cx[0]);
  assert_near(cy[1] - cy[0], cy[2] - cy[1], 0.3);
  assert_non_null(strstr(svg, "<title>a: ratio 1.000 x (0.500 to 1.500 x)</title>"));
  assert_non_null(strstr(svg, "<title>c: ratio 0.000 x</title>"));
  free(svg);
}

/* Bars of a row follow one another without a gap, as long as their values. */
static void stacked(void **state) {
  (void)state;
  const double first[] = {60, 10}, second[] = {40, 0};
  const char *rows[] = {"lws", "dmda"};
  const sl__series bars[] = {{.kind = SL__BARS, .name = "kernels", .colour = "kernels", .n = 2, .x = first},
                             {.kind = SL__BARS, .name = "policy", .colour = "policy", .n = 2, .x = second}};
  char *svg;
  assert_ok(sl__svg_plot(&(sl__plot){.row = rows, .n_rows = 2, .series = bars, .n_series = 2, .unit = "%"}, &svg));
  assert_well_formed(svg);
  double x[3], y[3], width[3];
  int n = 0;
  for (const char *at = svg; (at = strstr(at, "<rect x=")); at++) {
    double height;
    if (!strstr(at, "<title>") || strncmp(strchr(at, '>') - 1, "/>", 2) == 0) continue; /* the legend's */
    assert_in_range(n, 0, 2);
    assert_int_equal(
        sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x[n], &y[n], &width[n], &height), 4);
    n++;
  }
  assert_int_equal(n, 3); /* none for 0 */
  assert_near(x[0] + width[0], x[2], 0.02);
  assert_near(width[0] / width[2], 1.5, 0.01);
  assert_near(x[1], x[0], 0.01);
  assert_non_null(strstr(svg, "<title>lws: policy 40"));
  free(svg);
}

static void odd_texts(void **state) {
  (void)state;
  const char *rows[] = {"</text><script>alert(1)</script>", "\"quoted' & \xff\x01 \xc3\xa9"};
  const double x[] = {1, 2}, y[] = {0, 1};
  const sl__series points = {.kind = SL__POINTS, .name = "<b>", .colour = "op1", .n = 2, .x = x, .y = y};
  char *svg;
  assert_ok(sl__svg_plot(&(sl__plot){.title = "a<b & c",
                                     .x_label = "<",
                                     .y_label = ">",
                                     .unit = "<i>",
                                     .row = rows,
                                     .n_rows = 2,
                                     .series = &points,
                                     .n_series = 1},
                         &svg));
  assert_well_formed(svg);
  assert_null(strstr(svg, "<script"));
  assert_non_null(strstr(svg, "\xef\xbf\xbd\xef\xbf\xbd \xc3\xa9"));
  free(svg);
}

/* Gaps in a curve, no data at all, and more boxes than are worth a tooltip each. */
static void edges(void **state) {
  (void)state;
  const double x[] = {0, 1, 2, 3}, y[] = {1, NAN, 3, 4};
  const sl__series line = {.kind = SL__LINE, .colour = "op0", .n = 4, .x = x, .y = y};
  char *svg;
  assert_ok(sl__svg_plot(&(sl__plot){.series = &line, .n_series = 1}, &svg));
  const char *path = strstr(svg, " d=\"");
  assert_non_null(path);
  assert_int_equal(count(path, "M"), 2);
  assert_int_equal(count(path, "L"), 1);
  free(svg);
  assert_ok(sl__svg_plot(&(sl__plot){.title = "nothing"}, &svg));
  assert_well_formed(svg);
  free(svg);
  enum { MANY = 5000 };
  static double low[MANY], high[MANY], row[MANY];
  for (int i = 0; i < MANY; i++) low[i] = i, high[i] = i + 0.5, row[i] = i % 2;
  const char *rows[] = {"w0", "w1"};
  const sl__series boxes = {.kind = SL__BOXES, .colour = "op2", .n = MANY, .y = row, .low = low, .high = high};
  assert_ok(sl__svg_plot(&(sl__plot){.row = rows, .n_rows = 2, .series = &boxes, .n_series = 1}, &svg));
  assert_well_formed(svg);
  assert_int_equal(count(svg, "<title>"), 1);
  assert_int_equal(count(strstr(svg, " d=\""), "M"), MANY);
  free(svg);
}

/* Decades are at equal distances; values without a logarithm are left out. */
static void logarithmic(void **state) {
  (void)state;
  const double x[] = {0.1, 1, 0, 100}, y[] = {2, 20, 30, 200};
  const sl__series points = {.kind = SL__POINTS, .colour = "op0", .n = 4, .x = x, .y = y};
  char *svg;
  double at[3] = {0, 0, 0};
  assert_ok(sl__svg_plot(&(sl__plot){.series = &points, .n_series = 1, .logarithmic = 1}, &svg));
  assert_well_formed(svg);
  assert_int_equal(count(svg, "<circle"), 3);
  const char *circle = svg;
  for (int i = 0; i < 3; i++) {
    circle = strstr(circle + 1, "<circle");
    assert_int_equal(sscanf(circle, "<circle cx=\"%lf\"", &at[i]), 1);
  }
  assert_near(at[2] - at[1], 2 * (at[1] - at[0]), 0.3); /* 1 to 100 is twice as far as 0.1 to 1 */
  for (const char *const *tick = (const char *const[]){">0.1<", ">1<", ">10<", ">100<", ">1000<", NULL}; *tick; tick++)
    assert_non_null(strstr(svg, *tick));
  free(svg);
}

static void refused(void **state) {
  (void)state;
  const double x[] = {1}, beyond[] = {1};
  const char *rows[] = {"a"};
  char *svg;
  sl__series s = {.kind = SL__POINTS, .colour = "pink", .n = 1, .x = x, .y = x};
  assert_fails(SL_EINVAL, "no colour 'pink'", sl__svg_plot(&(sl__plot){.series = &s, .n_series = 1}, &svg));
  assert_null(svg);
  assert_fails(SL_EINVAL, "not logarithmic",
               sl__svg_plot(&(sl__plot){.row = rows, .n_rows = 1, .logarithmic = 1}, &svg));
  s = (sl__series){.kind = SL__BARS, .colour = "op0", .n = 1, .x = x};
  assert_fails(SL_EINVAL, "want rows", sl__svg_plot(&(sl__plot){.series = &s, .n_series = 1}, &svg));
  s = (sl__series){.kind = SL__BOXES, .colour = "op0", .n = 1, .y = beyond, .low = x, .high = x};
  assert_fails(SL_EINVAL, "in no row",
               sl__svg_plot(&(sl__plot){.row = rows, .n_rows = 1, .series = &s, .n_series = 1}, &svg));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ticks), cmocka_unit_test(places),      cmocka_unit_test(stacked), cmocka_unit_test(odd_texts),
      cmocka_unit_test(edges), cmocka_unit_test(logarithmic), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
