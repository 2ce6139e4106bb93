/* Measures which kinds of workers compute a step fastest. */
#include "tools/run/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numbers/statistics.h"

static const struct {
  const char *name;
  unsigned kinds;
} choices[SL__CHOICES] = {{"GPUs", 1u << SL_WORKER_CUDA},
                          {"CPUs", 1u << SL_WORKER_CPU},
                          {"both", 1u << SL_WORKER_CUDA | 1u << SL_WORKER_CPU}};

static int has_both(const sl_runtime *rt) { return sl_runtime_gpus(rt) > 0 && sl_runtime_cpu_workers(rt) > 0; }

void sl__choice_open(sl__choice *c, const sl_runtime *rt, const sl__ranks *ranks) {
  *c = (sl__choice){.measuring = sl__ranks_sum(ranks, has_both(rt)) > 0};
  if (!c->measuring) snprintf(c->said, sizeof c->said, "no rank has both CPU workers and GPUs");
}

void sl__choice_place(const sl__choice *c, const sl_runtime *rt, sl_program *program) {
  const unsigned kinds = c->measuring ? choices[c->choice].kinds : c->kinds;
  if (kinds && program && has_both(rt)) sl_program_allow(program, kinds);
}

/* Seconds of a step: the median without the first step, which warms up. If not all steps were run, the shortest. */
static double time_of(const sl__choice *c, int k) {
  const int n = c->steps[k];
  if (n == SL__CHOICE_STEPS) {
    double later[SL__CHOICE_STEPS - 1]; /* sl_median sorts them */
    memcpy(later, c->seconds[k] + 1, sizeof later);
    return sl_median(later, n - 1);
  }
  double least = c->seconds[k][0];
  for (int i = 1; i < n; i++)
    if (c->seconds[k][i] < least) least = c->seconds[k][i];
  return least;
}

/* Whether the choice being measured is so slow that its remaining steps would only cost time. */
static int is_hopeless(const sl__choice *c) {
  const double much = c->steps[c->choice] == 1 ? 5 : 1.5; /* the first step warms up */
  for (int k = 0; k < c->choice; k++)
    if (time_of(c, c->choice) > much * time_of(c, k)) return 1;
  return 0;
}

void sl__choice_record(sl__choice *c, double seconds) {
  double time[SL__CHOICES];
  int best = 0;
  c->seconds[c->choice][c->steps[c->choice]++] = seconds;
  if (c->steps[c->choice] < SL__CHOICE_STEPS && !is_hopeless(c)) return;
  if (++c->choice < SL__CHOICES) return;
  for (int k = 0; k < SL__CHOICES; k++) {
    time[k] = time_of(c, k);
    if (time[k] < time[best]) best = k;
  }
  c->measuring = 0;
  c->kinds = choices[best].kinds;
  snprintf(c->said, sizeof c->said, "a step takes %.3g ms on GPUs, %.3g on CPUs, %.3g on both: %s compute from here on",
           1e3 * time[0], 1e3 * time[1], 1e3 * time[2], choices[best].name);
}

sl_status sl__choice_step(sl__choice *c, const sl__ranks *ranks, double seconds) {
  if (!c->measuring) return SL_OK;
  double *all = malloc((size_t)ranks->n * sizeof *all);
  sl_status status = all ? SL_OK : sl_no_memory("for %d ranks", ranks->n);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl__ranks_gather(ranks, &seconds, 1, all));
  for (int r = 0; r < ranks->n; r++)
    if (all[r] > seconds) seconds = all[r];
  sl__choice_record(c, seconds);
out:
  free(all);
  return status;
}

const char *sl__choice_text(const sl__choice *c) { return c->said; }
