/* Which rank updates which parameter: ZeRO stage 1 (Rajbhandari et al. 2020).
 *
 * Each parameter has one owner. Only the owner receives the sum of its gradient, keeps its optimizer state, and runs
 * the nodes of the update phase that concern this parameter alone. Their inputs identify these nodes: a node
 * that reads a single parameter, or computes row norms of one parameter's gradient, belongs to that parameter's
 * owner. Every rank computes all other nodes, from copies of the owners' values. So every sum has the same
 * order, and no bit depends on the owners. Private to tasks/. */
#ifndef SL_OWNERS_H
#define SL_OWNERS_H

#include "tasks/graph/graph.h"
#include "tasks/spread/placement.h"

typedef struct sl__owners {
  int *value; /* [logical values] owner: the rank that updates a parameter or alone holds the value; -1: none */
  int *node;  /* [logical nodes] the only rank that computes it; -1: all ranks do */
  int *family,
      *family_of_node; /* the parameter that a value or a node of the update phase belongs to; negative: none */
  sl_value *parameter; /* [n] parameters with an owner, in the order in which their gradients are complete */
  int n;
} sl__owners;

/* Finds the owners for a complete logical graph; the result is the same on every rank. Parameters whose gradients share
 * a bucket form a run and have the same owner. The ranks own about equal numbers of bytes: the runs are assigned in
 * descending order of their bytes, each to the rank that owns the fewest bytes so far. A parameter is never divided.
 * keeps[logical values]: the model ranks that have a parameter; the bytes are then about equal for each model rank.
 * NULL: there is one model rank. SL_ENOMEM. */
sl_status sl__owners_find(const sl_graph *logical, int ranks, const sl_rank_set *keeps, sl__owners **owners);
void sl__owners_destroy(sl__owners *owners); /* NULL is allowed */

#endif
