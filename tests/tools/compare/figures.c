/* tools/compare/figures.c: figures and verdicts for known repetitions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tools/compare/parts.h"

enum { MOST = 40, ROUNDS = 24 };

typedef struct setting {
  sl__comparison c;
  sl__variant variant[MOST];
  sl__measured measured[MOST][ROUNDS];
} setting;

static uint32_t seed;
static double noise(void) { /* uniform, -1 to 1 */
  seed = seed * 1664525u + 1013904223u;
  return (double)(seed >> 8) / (1 << 23) - 1;
}

/* n variants of 1 s a step, plus or minus 10%; each round has a pace of its own, which pairing cancels. */
static void set(setting *s, int n, int rounds) {
  memset(s, 0, sizeof *s);
  s->c =
      (sl__comparison){.variant = s->variant, .n = n, .repetitions = rounds, .workers = 2, .bound = 0.5, .kernels = 1};
  for (int i = 0; i < n; i++) {
    sl__variant *v = &s->variant[i];
    snprintf(v->policy, sizeof v->policy, i ? "p%d" : "eager", i);
    snprintf(v->digest, sizeof v->digest, "same");
    v->priorities = 1;
    v->measured = s->measured[i];
  }
  for (int r = 0; r < rounds; r++) {
    const double pace = 1 + 3 * (r % 5 == 0);
    for (int i = 0; i < n; i++)
      s->measured[i][r] =
          (sl__measured){.there = 1, .step = pace * (1 + 0.1 * noise()), .kernels = 80, .idle = {20}, .energy = r};
  }
}

static const char *verdict(const setting *s) {
  static char text[512];
  return sl__compare_verdict(&s->c, text, sizeof text);
}

static void known(void **state) {
  (void)state;
  static setting s;
  seed = 1;
  set(&s, 3, 12);
  for (int r = 0; r < 12; r++) {
    s.measured[0][r].step = 2, s.measured[1][r].step = 1, s.measured[2][r].step = 2.5;
    s.measured[1][r].kernels = r % 2 ? 90 : 70;
  }
  assert_ok(sl__compare_figures(&s.c));
  const sl__figures *f = &s.variant[1].figures;
  assert_int_equal(s.c.base, 0);
  assert_near(f->step, 1, 0);
  assert_near(f->ratio, 0.5, 0);
  assert_near(f->low, 0.5, 0);
  assert_near(f->high, 0.5, 0);
  assert_near(f->of_bound, 0.5, 1e-12);
  assert_near(f->kernels, 80, 1e-9);
  assert_near(f->kernels + f->idle[0], 100, 1e-9);
  assert_near(f->inflation, 1.6, 1e-9); /* 80% of 1 s on 2 workers, against 1 s */
  assert_near(f->energy, 5.5, 1e-9);
  assert_near(s.variant[2].figures.ratio, 1.25, 1e-12);
  assert_string_equal(verdict(&s), "Take p1: a step takes 50.0% less than with eager (95% interval 50.0 to 50.0%).");
  assert_true(sl__compare_same_bits(&s.c));
  snprintf(s.variant[2].digest, sizeof s.variant[2].digest, "other");
  assert_false(sl__compare_same_bits(&s.c));
}

/* The base is the first usable policy; unusable policies are left out. */
static void who_cannot_serve(void **state) {
  (void)state;
  static setting s;
  char reason[] = "no";
  seed = 2;
  set(&s, 3, 12);
  s.variant[0].reason = reason;
  assert_ok(sl__compare_figures(&s.c));
  assert_int_equal(s.c.base, 1);
  s.variant[1].reason = s.variant[2].reason = reason;
  assert_fails(SL_ENOTFOUND, "no policy ran: no", sl__compare_figures(&s.c));
}

/* Of 39 policies that are no faster, one looks faster by chance in about half of all comparisons, at 95% each; the
 * verdict names one in few. */
static void noise_alone(void **state) {
  (void)state;
  static setting s;
  int looks = 0, named = 0;
  for (int trial = 0; trial < 16; trial++) {
    seed = 1000u + (uint32_t)trial;
    set(&s, MOST, 12);
    assert_ok(sl__compare_figures(&s.c));
    int any = 0;
    for (int i = 1; i < MOST; i++) any |= s.variant[i].figures.high < 1;
    looks += any;
    named += strncmp(verdict(&s), "Take", 4) == 0;
  }
  assert_in_range(looks, 4, 16);
  assert_in_range(named, 0, 3);
}

/* A policy that is really faster is found among many, although the machine's pace varies by a factor of four. */
static void found_among_many(void **state) {
  (void)state;
  static setting s;
  seed = 3;
  set(&s, MOST, 12);
  for (int r = 0; r < 12; r++) s.measured[17][r].step *= 0.8;
  assert_ok(sl__compare_figures(&s.c));
  assert_near(s.variant[17].figures.ratio, 0.8, 0.06);
  assert_int_equal(strncmp(verdict(&s), "Take p17: ", 10), 0);
  assert_null(strstr(verdict(&s), "by chance"));
  s.c.repetitions = 4;
  for (int r = 0; r < 4; r++) s.measured[17][r].step *= 0.5;
  assert_ok(sl__compare_figures(&s.c));
  assert_non_null(strstr(verdict(&s), "With 39 policies and 4 repetitions this may be chance"));
}

/* Stopped in the third repetition: each policy has the repetitions in which it and the base ran. Two are too few for an
 * interval, three are enough. */
static void stopped(void **state) {
  (void)state;
  static setting s;
  char text[256];
  seed = 4;
  set(&s, 4, 3);
  s.c.stopped = 1, s.c.planned = 12;
  s.measured[2][2].there = 0;
  for (int r = 0; r < 3; r++) s.measured[3][r].there = 0, s.measured[1][r].step = 0.1;
  assert_ok(sl__compare_figures(&s.c));
  assert_int_equal(s.variant[1].figures.n, 3);
  assert_true(isfinite(s.variant[1].figures.low) && s.variant[1].figures.high < 1);
  assert_int_equal(s.variant[2].figures.n, 2);
  assert_true(isnan(s.variant[2].figures.low) && isnan(s.variant[2].figures.high) && s.variant[2].figures.ratio > 0);
  assert_null(sl__compare_absent(&s.variant[2]));
  assert_string_equal(sl__compare_interval(&s.variant[2].figures, text), "-");
  assert_string_equal(sl__compare_absent(&s.variant[3]), "it had not run before the comparison was stopped");
  assert_int_equal(strncmp(verdict(&s), "Take p1: ", 9), 0);
  assert_true(sl__compare_same_bits(&s.c));
  assert_non_null(strstr(sl__compare_partial(&s.c, text, sizeof text), "in repetition 3 of about 12"));
  for (int i = 0; i < 4; i++) s.measured[i][1].there = 0;
  assert_ok(sl__compare_figures(&s.c));
  assert_string_equal(verdict(&s), "No verdict: a verdict needs at least 3 repetitions.");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(who_cannot_serve),
                                     cmocka_unit_test(noise_alone), cmocka_unit_test(found_among_many),
                                     cmocka_unit_test(stopped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
