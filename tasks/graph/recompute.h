/* Recomputation: a backward pass that computes stretches of the forward pass again instead of keeping what they made
 * (Chen et al. 2016, "Training deep nets with sublinear memory cost"). */
#ifndef SL_RECOMPUTE_H
#define SL_RECOMPUTE_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* On a logical graph after sl_gradient and before the update: what backward nodes read of the inside of a segment of
 * this kind (sl_graph_segment) comes from clones of its forward nodes, with the same keys and so the same bits, put in
 * front of the first backward node that asks for it and held back until the gradient that this node reads is there.
 * Kept are what other forward nodes read (the segment's results) and what is small (statistics). Nodes that update
 * anything are never cloned. SL_RECOMPUTE_NONE changes nothing. */
sl_status sl_recompute_segments(sl_graph *graph, sl_recompute kind);

extern const char *const sl_recompute_names[]; /* of the kinds: "none", ...; NULL behind the last */

#ifdef __cplusplus
}
#endif
#endif
