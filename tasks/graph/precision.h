/* Precision: which values of a step are stored in 16 bits (bf16 or fp16). A pass over the logical graph, after
 * gradients and recomputation, so that models, gradients and optimizers know nothing of it.
 *
 *   value                                            stored in   why
 *   activations, their gradients                     16 bits     most of a step's memory and traffic; each is read by
 *                                                                a few operations, and rounding errors do not add up
 *   copies of weights that products read             16 bits     the factors of products must have one type; made once
 *                                                                a step (sl_operation.copies)
 *   statistics of rows (sl_operation.wide_out)       float       small, and they scale whole rows
 *   parameters (master weights), optimizer state     float       an update is often smaller than a bf16's last bit
 *   sums over samples: gradients of parameters,      float       thousands of terms: late ones would vanish
 *   batch statistics, losses, the clipping norm
 *   sums inside kernels                              float       likewise
 */
#ifndef SL_PRECISION_H
#define SL_PRECISION_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row a precision: name of the enum, the option's word, storage of activations. */
#define SL_PRECISION_LIST(X)            \
  X(SL_PRECISION_FP32, "fp32", SL_F32)  \
  X(SL_PRECISION_BF16, "bf16", SL_BF16) \
  X(SL_PRECISION_FP16, "fp16", SL_F16)
typedef enum sl_precision {
#define SL_PRECISION_ENUM(kind, name, dtype) kind,
  SL_PRECISION_LIST(SL_PRECISION_ENUM)
#undef SL_PRECISION_ENUM
      SL_PRECISION_COUNT
} sl_precision;
extern const char *const sl_precision_names[]; /* ended by NULL */

/* Rewrites the graph: sets the types of values, and inserts copies of weights in front of their first reader.
 * SL_ENOMEM; SL_EINVAL names an operation whose kernels do not take the type of an input. */
sl_status sl_precision_apply(sl_graph *graph, sl_precision precision);

#ifdef __cplusplus
}
#endif
#endif
