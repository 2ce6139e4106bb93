/* Divides the plan's leaves among ranks: evenly, as listed by the user, or by measurements in a run's first steps, so
 * that ranks of different speed end a step at the same time. Plan and bits stay the same. */
#ifndef SL_TOOLS_BALANCE_H
#define SL_TOOLS_BALANCE_H

#include <jansson.h>

#include "tasks/starpu/program.h"
#include "tools/ranks/ranks.h"

typedef struct sl__balance {
  sl__ranks *ranks;
  const sl_plan *plan;
  sl_runtime *runtime;
  int measuring;   /* 1: steps are being measured */
  int listed;      /* 1: the user listed the division */
  int64_t steps;   /* steps of the run so far */
  int64_t last;    /* step after which to check whether enough steps were measured */
  int64_t from;    /* ns: earlier records do not count */
  int64_t counted; /* number of steps measured */
  double *leaf;    /* [ranks] seconds of a leaf, with all workers */
  double *rest;    /* [ranks] seconds of the rest of a step */
  int *count;      /* [ranks] leaves */
  char said[1024];
} sl__balance;

/* Collective. text: "even", "auto", or the leaves of each rank, "8,4". Divides the plan's leaves (with auto evenly at
 * first). ranks and plan must outlive it. SL_EINVAL describes a valid list. */
sl_status sl__balance_open(sl_runtime *runtime, const char *text, sl__ranks *ranks, const sl_plan *plan,
                           sl__balance *balance);
void sl__balance_close(sl__balance *balance); /* a zeroed one is allowed */
/* Collective, after each step while balance->measuring. *changed: 1 if the division has changed; the caller must then
 * make its programs and loaders again. */
sl_status sl__balance_step(sl__balance *balance, const sl_program *program, const sl_recorder *recorder, int *changed);
/* {"leaves": [8, 4]}; after measuring also "leaf_s", "rest_s" (per rank) and "steps"; NULL: out of memory. */
json_t *sl__balance_json(const sl__balance *balance);
/* One line with the leaves of each rank and the measurements behind them; "" for an even division. */
const char *sl__balance_text(const sl__balance *balance);

#endif
