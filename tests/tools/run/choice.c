/* tools/run/choice.c: the fastest workers are chosen, slow ones have few steps, and a slow first step counts for
 * nobody. */
#include "tools/run/choice.h"

#include <string.h>

#include "tests/support/scratch.h"

enum { GPUS, CPUS, BOTH };

/* Measures choices whose steps take first[] and then later[] seconds. Returns the number of steps that it takes. */
static int measure(sl__choice *c, const double *first, const double *later) {
  int steps = 0;
  *c = (sl__choice){.measuring = 1};
  for (; c->measuring; steps++) {
    assert_in_range(c->choice, 0, SL__CHOICES - 1);
    sl__choice_record(c, c->steps[c->choice] == 0 ? first[c->choice] : later[c->choice]);
  }
  return steps;
}

static void the_fastest(void **state) {
  (void)state;
  static const char *const names[] = {"GPUs", "CPUs", "both"};
  const unsigned kinds[] = {1u << SL_WORKER_CUDA, 1u << SL_WORKER_CPU, 1u << SL_WORKER_CUDA | 1u << SL_WORKER_CPU};
  for (int best = 0; best < SL__CHOICES; best++) {
    sl__choice c;
    double seconds[SL__CHOICES] = {0.011, 0.011, 0.011};
    char end[64];
    seconds[best] = 0.010;
    assert_int_equal(measure(&c, seconds, seconds), SL__CHOICES * SL__CHOICE_STEPS);
    assert_int_equal(c.kinds, kinds[best]);
    snprintf(end, sizeof end, ": %s compute from here on", names[best]);
    assert_non_null(strstr(sl__choice_text(&c), end));
  }
}

/* A core that is 1,000 times slower than the GPU has one step; what is twice as slow has two. */
static void slow_ones(void **state) {
  (void)state;
  sl__choice c;
  const double seconds[] = {0.001, 1, 0.002};
  assert_int_equal(measure(&c, seconds, seconds), SL__CHOICE_STEPS + 1 + 2);
  assert_int_equal(c.kinds, 1u << SL_WORKER_CUDA);
  assert_string_equal(sl__choice_text(&c),
                      "a step takes 1 ms on GPUs, 1e+03 on CPUs, 2 on both: GPUs compute from here on");
  const double slow_gpu[] = {1, 0.001, 0.9}; /* the first choice cannot be dropped */
  assert_int_equal(measure(&c, slow_gpu, slow_gpu), 2 * SL__CHOICE_STEPS + 1);
  assert_int_equal(c.kinds, 1u << SL_WORKER_CPU);
}

static void first_steps(void **state) {
  (void)state;
  sl__choice c;
  const double first[] = {0.04, 0.04, 0.04}, later[] = {0.010, 0.009, 0.011}; /* warms up: four times as long */
  assert_int_equal(measure(&c, first, later), SL__CHOICES * SL__CHOICE_STEPS);
  assert_int_equal(c.kinds, 1u << SL_WORKER_CPU);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fastest),
      cmocka_unit_test(slow_ones),
      cmocka_unit_test(first_steps),
  };
  return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
