/* Recomputation: the backward pass computes segments of the forward pass again instead of keeping their values (Chen et
 * al. 2016, "Training deep nets with sublinear memory cost"). */
#ifndef SL_RECOMPUTE_H
#define SL_RECOMPUTE_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rewrites a logical graph after sl_gradient and before the update nodes. Where backward nodes read values from inside
 * a segment of this kind (sl_graph_segment), they read clones of its forward nodes instead. Clones have the same keys
 * and so the same bits. A clone comes right before the first backward node that reads it, and waits for the gradient
 * that this node reads. Values that other forward nodes read (the segment's results) and small values (statistics) are
 * kept. Nodes that update anything are never cloned. SL_RECOMPUTE_NONE changes nothing. */
sl_status sl_recompute_segments(sl_graph *graph, sl_recompute kind);

extern const char *const sl_recompute_names[]; /* by kind: "none", ...; ends with NULL */

#ifdef __cplusplus
}
#endif
#endif
