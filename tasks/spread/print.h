/* Shows the transfers of a step to people, as a table, and to programs, as JSON. */
#ifndef SL_SPREAD_PRINT_H
#define SL_SPREAD_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tasks/spread/placement.h"

#ifdef __cplusplus
extern "C" {
#endif

/* placements: of the logical graph. One line for each transfer, in the order of the step. SL_EIO. */
sl_status sl_print_transfers(const sl_graph *logical, const sl_placements *placements, FILE *file);
/* *json, an array, is the caller's to json_decref(). SL_ENOMEM. */
sl_status sl_transfers_to_json(const sl_graph *logical, const sl_placements *placements, json_t **json);

/* A model rank (placement.h): its layers, work of a step over the whole batch, bytes of its parameters and state, and
 * bytes that it sends to other model ranks in a step. */
typedef struct sl_model_rank {
  const char *first, *last; /* layers; NULL: none */
  double flops;
  size_t kept, sent;
} sl_model_rank;
void sl_model_rank_describe(const sl_graph *logical, const sl_placements *placements, int model_rank,
                            sl_model_rank *description);
/* A line, or an entry of an array, for each model rank. SL_EIO, SL_ENOMEM. */
sl_status sl_print_model_ranks(const sl_graph *logical, const sl_placements *placements, int model_ranks, FILE *file);
sl_status sl_model_ranks_to_json(const sl_graph *logical, const sl_placements *placements, int model_ranks,
                                 json_t **json);

#ifdef __cplusplus
}
#endif
#endif
