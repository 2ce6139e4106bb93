/* Folds: fixed pieces of contractions, as leaves are fixed pieces of the batch. Ranks that divide the products of a
 * layer compute whole folds, so their number changes no bit.
 *
 * sl_fold rewrites the forward nodes of a graph. Where a product is followed by operations on single features (or, for
 * attention, on single heads) and then by another product, as in both halves of a transformer's block, the features
 * between them are cut into F runs (Shoeybi et al. 2019). Fold f has the rows of the first weight that make its
 * features and the columns of the second one that read them; it ends in a partial sum, an addend of the second
 * product's output. A binary tree over the folds' numbers adds these, split at the largest power of two below their
 * number; likewise the gradients of the first product's input (gradient.h). So with F folds a contraction is F chains
 * of sums and a tree, whoever computes them.
 *
 * A parameter of a fold is a tensor of its own, named "h.0.mlp.fc.weight@0/4", with the initial contents that the whole
 * tensor has there. Model files hold whole tensors. */
#ifndef SL_FOLDS_H
#define SL_FOLDS_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_MAX_FOLDS = 64 };

/* Replaces the graph, of forward nodes alone, by one of so many folds, and each of the n values (SL_NONE is allowed) by
 * its value there. folds 0 or 1: changes nothing. SL_EINVAL: more folds than a layer has units, such as heads, with the
 * layer's name; no layer can be divided. SL_ENOMEM. After an error the graph is unchanged. */
sl_status sl_fold(sl_graph **graph, int64_t folds, sl_value *values, int n);

/* Adds up one value of each fold, the tree over value[from ... to - 1]; the nodes are those of layer `name`. */
sl_value sl_fold_sum(sl_graph *graph, const char *name, const sl_value *value, int from, int to);

#ifdef __cplusplus
}
#endif
#endif
