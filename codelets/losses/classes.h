/* Losses and measures of logits whose classes are divided into folds. */
#ifndef SL_LOSSES_CLASSES_H
#define SL_LOSSES_CLASSES_H

#include "codelets/attributes.h"
#include "tasks/graph/folds.h"

/* Checks the first two inputs of an operation: logits [B, ..., V] and targets I32 [B, ...]. SL_ESHAPE. */
sl_status sl__classes_check(const sl_value_info *const *in);
/* Checks a loss's label smoothing and number of targets, F64 [1]. SL_EINVAL, SL_ESHAPE. */
sl_status sl__loss_check(double smoothing, const sl_value_info *count);
/* The classes of fold f, whose logits are fold[f]. */
sl_classes_attr sl__classes_of(const sl_graph *graph, const sl_value *fold, int f);
/* Adds the nodes that compute the class_sums of the logits of all folds and add them up. If an earlier call has added
 * these nodes, returns their result. */
sl_value sl__class_sums(sl_graph *graph, const char *layer, const sl_value *fold, sl_value targets);

#endif
