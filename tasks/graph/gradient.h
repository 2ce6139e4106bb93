/* The gradient pass: reverse-mode differentiation that adds nodes to the graph. */
#ifndef SL_GRADIENT_H
#define SL_GRADIENT_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the nodes that compute d loss / d parameters[i], with phase SL_PHASE_BACKWARD, and puts their values into
 * gradients[i], F32 in the parameter's shape. loss is a scalar; its own gradient is 1 (the root's operation gets dout =
 * SL_NONE). Contributions of several uses are added in reverse order of use. If the loss does not depend on a
 * parameter, or only through an operation without gradient, fails and names the parameter. */
sl_status sl_gradient(sl_graph *graph, sl_value loss, const sl_value *parameters, int n, sl_value *gradients);
/* The same with a given gradient of the loss: `seed`, a scalar of its type (loss scaling). */
sl_status sl_gradient_seeded(sl_graph *graph, sl_value loss, sl_value seed, const sl_value *parameters, int n,
                             sl_value *gradients);

#ifdef __cplusplus
}
#endif
#endif
