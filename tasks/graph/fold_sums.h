/* Sums over folds that several ranks compute together. The folding pass (folds.h) writes such a sum as a tree of
 * additions: at each level of the tree, each rank receives the whole addend of another rank. With many ranks or large
 * values it is cheaper to divide the sum along the sequence, dimension 1 of the samples. Each rank then adds up one
 * part of the positions by the same tree, and all ranks receive all parts (reduce-scatter and allgather; Thakur et al.
 * 2005). No bit changes. */
#ifndef SL_FOLD_SUMS_H
#define SL_FOLD_SUMS_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Divides sums over all folds among `ranks` ranks, which compute the folds (sl_first_fold). A sum is divided if one
 * sample of it has at least `least` elements and at least `ranks` positions. With one or two ranks nothing changes,
 * since the tree moves no more bytes than parts do; nor if there are fewer folds than ranks, or no operations that cut
 * and join positions. Values that nodes outside the sums read keep their numbers. SL_ENOMEM: the graph can only be
 * destroyed. */
sl_status sl_fold_sums_divide(sl_graph *graph, int ranks, int64_t least);

#ifdef __cplusplus
}
#endif
#endif
