/* Measures steps in fp32 and in bf16. */
#include "tools/run/precision.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/numbers/statistics.h"

/* Sets the precision. OpenBLAS's products, which option or measurement may have chosen, are in fp32. */
static void set(sl__job *j, sl_precision precision, const sl_plan *in_fp32) {
  sl_plan *plan = &j->facts.plan;
  const int fp32 = precision == SL_PRECISION_FP32;
  strcpy(plan->products, fp32 ? in_fp32->products : "own");
  plan->tiles.blas = fp32 && in_fp32->tiles.blas;
  sl__job_set_precision(j, precision);
}

/* The median step in this precision: of as many as take about half a second, after one that warms up. */
static sl_status measure(sl__job *j, sl_precision precision, const sl_plan *in_fp32, double *seconds) {
  enum { LEAST = 3, MOST = 50 };
  double step[MOST], all = 0;
  const double enough = 0.5;
  sl_status status = SL_OK;
  int n = 0;
  set(j, precision, in_fp32);
  SL_TRY_OUT(sl__job_build(j));
  SL_TRY_OUT(sl__job_load(j));
  SL_TRY_OUT(sl__job_step(j, 0, NULL));
  while (n < MOST && (n < LEAST || all < enough)) {
    const double from = sl_seconds();
    SL_TRY_OUT(sl__job_step(j, 0, NULL));
    step[n] = sl__ranks_sum(&j->ranks, sl_seconds() - from) / j->ranks.n; /* the same on all ranks */
    all += step[n++];
  }
  *seconds = sl_median(step, n);
out:
  /* Destroying programs is collective. After one rank's failure the others would wait for ever. */
  if (status == SL_OK || j->ranks.n <= 1) sl__job_unbuild(j);
  return status;
}

sl_status sl__precision_choose(sl__job *j, char *said, size_t n) {
  const double worth = 0.95; /* bf16 must save 5% of fp32's time, else fp32's bits are worth more */
  double fp32, bf16;
  said[0] = 0;
  if ((int)j->o->training.precision != SL_PRECISION_AUTO) return SL_OK;
  const sl__choice choice = j->choice;
  const sl_plan plan = j->facts.plan;
  j->choice = (sl__choice){0}; /* --workers auto measures later */
  SL_TRY(measure(j, SL_PRECISION_FP32, &plan, &fp32));
  SL_TRY(measure(j, SL_PRECISION_BF16, &plan, &bf16));
  const int narrow = bf16 < worth * fp32;
  set(j, narrow ? SL_PRECISION_BF16 : SL_PRECISION_FP32, &plan);
  j->choice = choice;
  snprintf(said, n, "a step takes %.3g ms in fp32 and %.3g in bf16: %s", 1e3 * fp32, 1e3 * bf16,
           narrow        ? "bf16"
           : bf16 < fp32 ? "fp32, because bf16 is less than 5% faster"
                         : "fp32");
  return SL_OK;
}
