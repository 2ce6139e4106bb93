/* starling compare: chooses the numbers of steps and repetitions that fit into the given minutes. */
#include <math.h>

#include "tools/compare/parts.h"

static const double SHORTEST = 0.5, LONGEST = 5; /* seconds of measured steps in a process */
enum { TARGET = 8, FEWEST_STEPS = 5, MOST_STEPS = 100000 };

/* Seconds of one repetition, which runs a process for each policy. */
static double repetition(const sl__budget *b, int64_t steps) {
  return b->variants * (b->process + (double)steps * b->step);
}

/* Seconds of timing the tasks on one worker alone, once. */
static double alone(const sl__budget *b, int64_t steps) { return b->process + b->workers * (double)steps * b->step; }

static int64_t between(double x, double least, double most) { return (int64_t)fmin(fmax(ceil(x), least), most); }

sl__amount sl__compare_fit(const sl__budget *b) {
  const double step = fmax(b->step, 1e-6);
  const int64_t least = between(SHORTEST / step, FEWEST_STEPS, MOST_STEPS),
                most = between(LONGEST / step, (double)least, MOST_STEPS);
  const int turns = b->repetitions > 0 ? b->repetitions : TARGET;
  sl__amount a = {.steps = b->steps, .repetitions = b->repetitions};
  if (a.steps < 0) { /* seconds for steps in each measuring process, after the time to start all processes */
    const double left = b->seconds - turns * repetition(b, 0) - SL__ALONE * alone(b, 0);
    a.steps = between(left / (turns * b->variants + SL__ALONE * b->workers) / step, (double)least, (double)most);
  }
  if (a.repetitions < 0)
    a.repetitions = (int)fmin(
        fmax(floor((b->seconds - SL__ALONE * alone(b, a.steps)) / repetition(b, a.steps)), SL__LEAST_REPETITIONS),
        SL__MOST_REPETITIONS);
  a.seconds = a.repetitions * repetition(b, a.steps) + SL__ALONE * alone(b, a.steps);
  return a;
}
