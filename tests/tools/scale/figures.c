/* tools/scale/figures.c: means of largest values against closed forms; speedups, losses and the verdict of made-up
 * steps; jitter. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tools/scale/parts.h"

/* Closed forms for 2 and 3: 1/sqrt(pi), 3/(2 sqrt(pi)). For 1000: the tables of Harter, Biometrika 48, 1961. */
static void largest_of(void **state) {
  (void)state;
  const double pi = acos(-1);
  assert_near(sl__scale_largest(1), 0, 1e-12);
  assert_near(sl__scale_largest(2), 1 / sqrt(pi), 1e-12);
  assert_near(sl__scale_largest(3), 1.5 / sqrt(pi), 1e-12);
  assert_near(sl__scale_largest(100), 2.50759, 1e-5);
  assert_true(sl__scale_largest(65536) > sl__scale_largest(32768));
}

/* A step of 8 s on one node: 7 divide, 1 does not; on n nodes the exchange takes 0.1 n s. */
static sl__scale_point at(int count) {
  const double exchange = count > 1 ? 0.1 * count : 0;
  return (sl__scale_point){.count = count,
                           .nodes = count,
                           .ranks = count,
                           .batch = 80,
                           .leaves = 8,
                           .step = 1 + 7.0 / count + exchange,
                           .part = {[SL__SCALE_KERNELS] = 1 + 7.0 / count, [SL__SCALE_EXCHANGE] = exchange},
                           .energy = NAN};
}

enum { POINTS = 4 };
typedef struct made {
  sl__options o;
  sl__scaling s;
  sl__scale_point point[POINTS];
} made;

static void make(made *m) {
  *m = (made){.point = {at(1), at(2), at(4), at(8)}};
  m->s = (sl__scaling){.o = &m->o, .simulated = 1, .is = {.point = m->point, .n = POINTS}};
}

static void strong(void **state) {
  (void)state;
  made m;
  make(&m);
  sl__scale_figures(&m.s.is, 0, 2, 10);
  const sl__scale_point *p = m.point;
  assert_near(p[0].speedup, 1, 1e-12);
  assert_near(p[0].efficiency, 1, 1e-12);
  assert_true(isnan(p[0].added));
  assert_near(p[1].speedup, 8 / 4.7, 1e-12); /* 1 + 3.5 + 0.2 */
  assert_near(p[1].efficiency, 4 / 4.7, 1e-12);
  assert_near(p[1].added, 8 / 4.7 - 1, 1e-12);
  assert_near(p[2].added, (8 / 3.15 - 8 / 4.7) / 2, 1e-12);
  assert_near(p[2].loss[SL__SCALE_KERNELS], 0.75, 1e-12); /* 2.75 for 8 / 4 */
  assert_near(p[2].loss[SL__SCALE_EXCHANGE], 0.4, 1e-12);
  assert_near(p[2].loss[SL__SCALE_KERNELS] + p[2].loss[SL__SCALE_EXCHANGE], p[2].step - 8.0 / 4, 1e-12);
  assert_near(p[2].cost, 2.0 * 4 * 3.15 / 3600 / 80 * 1000, 1e-12);
  assert_near(p[2].lost_samples, 80 / 3.15 * 300, 1e-9);
  assert_near(p[2].lost_cost, 2.0 * 4 * 5 / 60, 1e-12);
}

static void weak(void **state) {
  (void)state;
  made m;
  make(&m);
  for (int i = 0; i < POINTS; i++) m.point[i].batch *= m.point[i].count, m.point[i].step = 8 + i;
  for (int i = 0; i < POINTS; i++) m.point[i].part[SL__SCALE_KERNELS] = 8, m.point[i].part[SL__SCALE_EXCHANGE] = i;
  sl__scale_figures(&m.s.is, 1, NAN, 10);
  assert_near(m.point[3].efficiency, 8.0 / 11, 1e-12);
  assert_near(m.point[3].loss[SL__SCALE_KERNELS], 0, 1e-12);
  assert_near(m.point[3].loss[SL__SCALE_EXCHANGE], 3, 1e-12);
  assert_true(isnan(m.point[3].cost));
}

static void says(const made *m, const char *wanted) {
  char *text;
  assert_int_equal(sl__scale_verdict(&m->s, &m->s.is, &text), SL_OK);
  if (!strstr(text, wanted)) fail_msg("'%s' does not say '%s'", text, wanted);
  free(text);
}

/* Steps of 8, 4.7, 3.15 and 2.675 s: the last four nodes bring 11% of their share. */
static void verdict(void **state) {
  (void)state;
  made m;
  make(&m);
  sl__scale_figures(&m.s.is, 0, NAN, 10);
  assert_int_equal(sl__scale_stop(&m.s.is), 2);
  says(&m, "It stops paying at 4 nodes: the 2 added bring 42% of their share.");
  says(&m, "The largest loss, 750.000 ms, is in kernels");
  m.s.is.n = 2;
  says(&m, "It pays up to 2 nodes, the most of these: the one added brings 70% of its share.");
  m.s.is.n = 1;
  says(&m, "One number of nodes alone shows no scaling");
  make(&m);
  m.point[1].part[SL__SCALE_EXCHANGE] += 5, m.point[1].step += 5;
  sl__scale_figures(&m.s.is, 0, NAN, 10);
  says(&m, "It stops paying at 2 nodes: with the one added, samples/s fall.");
  says(&m, "in exchanges that no task hides");
  make(&m);
  m.point[1].part[SL__SCALE_KERNELS] = 3, m.point[1].step = 3.2; /* faster than ideal: data fit into caches */
  m.s.is.n = 2;
  sl__scale_figures(&m.s.is, 0, NAN, 10);
  says(&m, "On 2 nodes nothing is lost against ideal scaling.");
}

/* A count without figures is left out. */
static void without_figures(void **state) {
  (void)state;
  made m;
  make(&m);
  char reason[] = "it failed";
  m.point[0].reason = m.point[2].reason = reason;
  sl__scale_figures(&m.s.is, 0, NAN, 10);
  assert_near(m.point[1].efficiency, 1, 1e-12);
  assert_near(m.point[3].speedup, 4.7 / 2.675, 1e-12);
  assert_near(m.point[3].added, (4.7 / 2.675 - 1) / 3, 1e-12);
}

/* Two ranks that compute 4.5 s each, by 10%: the slower takes 0.45 / sqrt(pi) s longer in the mean. */
static void jitter(void **state) {
  (void)state;
  made m;
  make(&m);
  m.point[1].energy = 100;
  sl__scale_jitter(&m.s.is, 10, 50);
  assert_near(m.point[0].step, 8, 1e-11);
  assert_near(m.point[1].step, 4.7 + 0.45 / sqrt(acos(-1)), 1e-11);
  assert_near(m.point[1].energy, 100 + 2 * 50 * 0.45 / sqrt(acos(-1)), 1e-9); /* two nodes wait at 50 W */
  assert_near(m.point[1].part[SL__SCALE_SLOWEST], 0.45 / sqrt(acos(-1)), 1e-11);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(largest_of), cmocka_unit_test(strong),          cmocka_unit_test(weak),
      cmocka_unit_test(verdict),    cmocka_unit_test(without_figures), cmocka_unit_test(jitter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
