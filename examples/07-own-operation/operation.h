/* Declares softsign, y = x / (1 + |x|), element by element (Turian, Bergstra and Bengio 2009). */
#ifndef OPERATION_H
#define OPERATION_H

#include "tasks/graph/graph.h"

/* Adds softsign of x, F32 of any shape, to the graph; `layer` names the node in errors and traces. */
sl_value softsign(sl_graph *graph, const char *layer, sl_value x);

#endif
