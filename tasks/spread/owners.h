/* Who updates what: the division of the optimizer's work and state among the ranks (ZeRO, Rajbhandari et al. 2020,
 * stage 1).
 *
 * Every parameter has one owner. Only the owner gets the sum of its gradient, keeps the optimizer's state for it and
 * runs the nodes of the update phase that are about it alone; all others get the updated parameter. Which nodes these
 * are follows from what they read and write: one that touches a single parameter, or takes an owned value by rows (the
 * row norms of a gradient), belongs to that parameter's owner. All others are computed on every rank, of what owners
 * make known to all; so every sum is formed in the same order, and no bit depends on who owns what. */
#ifndef SL_OWNERS_H
#define SL_OWNERS_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_owners {
  int rank, ranks;
  int *value;          /* [logical values] the rank that updates a parameter, or that alone has the value; -1: none */
  int *node;           /* [logical nodes] the rank that alone computes it; -1: all */
  sl_value *parameter; /* [n] those with an owner, in the order in which their gradients are complete */
  int n;
} sl_owners;

/* Of a complete logical graph; the same on all ranks but for `rank`. Runs of parameters whose gradients are exchanged
 * together have one owner, and each rank about as many bytes as the others (the largest runs first, each to the rank
 * that has least). A parameter is never divided. SL_ENOMEM. */
sl_status sl_owners_find(const sl_graph *logical, int rank, int ranks, sl_owners **owners);
void sl_owners_destroy(sl_owners *owners); /* NULL is allowed */

/* Whether another rank alone has this value or node; owners NULL: never. A parameter everyone has. */
int sl_value_elsewhere(const sl_owners *owners, const sl_graph *logical, sl_value value);
int sl_node_elsewhere(const sl_owners *owners, int node);

#ifdef __cplusplus
}
#endif
#endif
