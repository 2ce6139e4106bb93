/* Measures which kinds of workers compute a step fastest. */
#include "tools/run/choice.h"

#include <stdio.h>
#include <stdlib.h>

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
  const unsigned kinds = c->measuring ? choices[c->next / SL__CHOICE_STEPS].kinds : c->kinds;
  if (kinds && program && has_both(rt)) sl_program_allow(program, kinds);
}

sl_status sl__choice_step(sl__choice *c, const sl__ranks *ranks, double seconds) {
  double median[SL__CHOICES];
  int best = 0;
  if (!c->measuring) return SL_OK;
  double *all = malloc((size_t)ranks->n * sizeof *all);
  sl_status status = all ? SL_OK : sl_no_memory("for %d ranks", ranks->n);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl__ranks_gather(ranks, &seconds, 1, all));
  for (int r = 0; r < ranks->n; r++)
    if (all[r] > seconds) seconds = all[r];
  c->seconds[c->next++] = seconds;
  if (c->next < SL__CHOICES * SL__CHOICE_STEPS) goto out;
  for (int k = 0; k < SL__CHOICES; k++) {
    median[k] = sl_median(c->seconds + k * SL__CHOICE_STEPS + 1, SL__CHOICE_STEPS - 1); /* the first one warms up */
    if (median[k] < median[best]) best = k;
  }
  c->measuring = 0;
  c->kinds = choices[best].kinds;
  snprintf(c->said, sizeof c->said, "a step takes %.3g ms on GPUs, %.3g on CPUs, %.3g on both: %s compute from here on",
           1e3 * median[0], 1e3 * median[1], 1e3 * median[2], choices[best].name);
out:
  free(all);
  return status;
}

const char *sl__choice_text(const sl__choice *c) { return c->said; }
