/* Sums over folds that several ranks compute together. The folding pass (folds.h) writes such a sum as a tree of
 * additions. Computed as it is written, each rank receives the whole of another rank's addend at each level of the
 * tree. With many ranks or large values it is cheaper to divide the sum along the sequence, dimension 1 of the samples:
 * each rank adds up one part of the positions, by the same tree, and the parts are joined on all ranks (reduce-scatter
 * and allgather; Thakur et al. 2005). No bit changes. */
#ifndef SL_FOLD_SUMS_H
#define SL_FOLD_SUMS_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Divides sums over all folds among so many ranks: those of which a sample has at least `least` elements, and as many
 * positions as there are ranks. Changes nothing for up to two ranks: the tree moves no more bytes than parts do. The
 * values that others read keep their numbers. SL_ENOMEM: the graph can only be destroyed. */
sl_status sl_fold_sums_divide(sl_graph *graph, int ranks, int64_t least);

#ifdef __cplusplus
}
#endif
#endif
