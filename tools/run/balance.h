/* How the leaves of the plan are divided among ranks: evenly, as the user lists them, or by what the first steps of a
 * run measure, so that ranks of different speed are done with a step at the same time. The plan is the same, and so are
 * the bits. */
#ifndef SL_TOOLS_BALANCE_H
#define SL_TOOLS_BALANCE_H

#include <jansson.h>

#include "tasks/starpu/program.h"
#include "tools/run/ranks.h"

typedef struct sl__balance {
  sl__ranks *ranks;
  const sl_plan *plan;
  sl_runtime *runtime;
  int measuring;   /* steps are being measured, to divide by them */
  int listed;      /* the division is the user's */
  int64_t steps;   /* of the run that were seen */
  int64_t last;    /* step after which to check whether enough steps were measured */
  int64_t from;    /* ns: what was recorded before does not count */
  int64_t counted; /* steps that were measured; 0: none */
  double *leaf;    /* [ranks] seconds of a leaf, with all workers */
  double *rest;    /* [ranks] seconds of what a step does besides */
  int *count;      /* [ranks] leaves */
  char said[1024];
} sl__balance;

/* Collective. text: "even", "auto", or the leaves of each rank, "8,4". Divides the plan's leaves (with auto evenly at
 * first). ranks and plan outlive it. SL_EINVAL says what the list should be; SL_EUNSUPPORTED: auto, and GPUs, whose
 * tasks the recorder cannot time. */
sl_status sl__balance_open(sl_runtime *runtime, const char *text, sl__ranks *ranks, const sl_plan *plan,
                           sl__balance *balance);
void sl__balance_close(sl__balance *balance); /* a zeroed one is allowed */
/* Collective, after each step while balance->measuring. *changed: 1 when the ranks' leaves were divided anew: the
 * caller makes its programs and loaders again. */
sl_status sl__balance_step(sl__balance *balance, const sl_program *program, const sl_recorder *recorder, int *changed);
/* {"leaves": [8, 4]}; after measuring also "leaf_s", "rest_s" (per rank) and "steps"; NULL: out of memory. */
json_t *sl__balance_json(const sl__balance *balance);
/* One line with the leaves of each rank and the measurements behind them; "" for an even division. */
const char *sl__balance_text(const sl__balance *balance);

#endif
