/* Folds are fixed pieces of contractions, just as leaves are fixed pieces of the batch. Ranks that divide the products
 * of a layer compute whole folds, so the number of ranks changes no bit.
 *
 * sl_fold rewrites the forward nodes of a graph. It looks for stretches: a product, operations on single features (or,
 * for attention, on single heads), and another product, as in both halves of a transformer's block. The features
 * between the two products are cut into F runs (Shoeybi et al. 2019). Fold f has the rows of the first weight that make
 * its features, and the columns of the second weight that read them. Its result is a partial sum, an addend of the
 * second product's output. A binary tree over the folds' numbers, split at the largest power of two below their number,
 * adds these partial sums. The gradients of the first product's input are added in the same way (gradient.h). So with F
 * folds a contraction is F chains of sums and a tree, whichever ranks compute them.
 *
 * If a language model has many classes, these are cut too. The head's weight and the embedding's table are cut by rows.
 * The loss and the measures become sums over each fold's classes, and a tree that adds these sums. A fold's lookup is
 * zero for the tokens of other folds, and the lookups of all folds are added.
 *
 * What lies between two stretches (norms, residual sums, dropout) has no products. By default every rank computes all
 * of it. With by_sequence it is divided along the sequence, dimension 1 of the samples (Korthikanti et al. 2022): fold
 * f has the positions [T f / F, T (f + 1) / F) of each sample. A stretch reads all positions, joined, and each fold
 * gets its positions of the stretch's sum. The gradients go the other way: they are joined behind a stretch and summed
 * for each fold before it. The gradients of a norm's parameters are sums over folds.
 *
 * A parameter of a fold is a tensor of its own, named "h.0.mlp.fc.weight@0/4", with the initial contents that the whole
 * tensor has there. Model files hold whole tensors. */
#ifndef SL_FOLDS_H
#define SL_FOLDS_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SL_FOLD_CLASSES: classes that a fold has at least; fewer are not worth the exchange of their sums. */
enum { SL_MAX_FOLDS = 64, SL_FOLD_CLASSES = 256 };

/* The first fold of one of the `ranks` ranks that divide the folds. It computes all before the next rank's first. */
static inline int sl_first_fold(int folds, int ranks, int rank) { return folds * rank / ranks; }

typedef struct sl_fold_options {
  int64_t folds;   /* 0 or 1: changes nothing */
  sl_value logits; /* to be divided by classes, if it has enough and only reductions read it; SL_NONE: no such value */
  int by_sequence; /* 1: also divides the operations between stretches, by positions */
} sl_fold_options;

/* Replaces the graph, which has only forward nodes, by a graph that is divided into folds, and each of the n values
 * (SL_NONE is allowed) by the same value of the new graph. If logits is divided, its entry among the n values becomes
 * SL_NONE. SL_EINVAL: more folds than a layer has units, such as heads, with the layer's name; no layer can be divided.
 * SL_ENOMEM. After an error the graph is unchanged. */
sl_status sl_fold(sl_graph **graph, const sl_fold_options *options, sl_value *values, int n);

/* Joins value[from ... to - 1], one value of each fold, by a tree of the operation op, which has two inputs. The tree's
 * nodes belong to layer `name`. */
sl_value sl_fold_tree(sl_graph *graph, const sl_operation *op, const char *name, const sl_value *value, int from,
                      int to);
/* The same by addition. */
sl_value sl_fold_sum(sl_graph *graph, const char *name, const sl_value *value, int from, int to);
/* Adds up value[folds] as sl_fold_sum does, but each fold gets only its part of the positions: part[folds]. */
void sl_fold_scatter(sl_graph *graph, const char *name, const sl_value *value, sl_value *part);
/* Adds the node that cuts part `part` of graph->folds parts, along the positions, out of a value. The node belongs to
 * the folds in graph->fold. */
sl_value sl_sequence_part(sl_graph *graph, const char *name, sl_value value, int part);

#ifdef __cplusplus
}
#endif
#endif
