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

#ifdef __cplusplus
}
#endif
#endif
