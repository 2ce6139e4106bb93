/* Runs a graph's nodes one after another on plain arrays, without StarPU. Tests use it as the reference for a step, and
 * for gradients. */
#ifndef INTERPRET_H
#define INTERPRET_H

#include "tasks/graph/graph.h"

/* Passed in place of an instruction set: runs the CUDA kernel on copies of the arrays (tests/codelets/cuda.h). */
#define INTERPRET_GPU SL_ISA_COUNT
#define INTERPRET_GPU_FAST (SL_ISA_COUNT + 1) /* by the fast kernels of the operations that have one */

typedef struct interpreter {
  const sl_graph *graph;
  sl_isa isa;
  sl_team *team; /* borrowed */
  sl_step step;
  sl_tiles tiles;
  void **data; /* [values of the graph], each exactly of its value's size; owned; at first all bits are 1 (NaN) */
} interpreter;

sl_status interpret_create(const sl_graph *graph, sl_isa isa, sl_team *team, interpreter *in);
void interpret_destroy(interpreter *in);
/* Runs nodes [from, to), with their scratch memory reserved. */
sl_status interpret_run(interpreter *in, int from, int to);
/* Fills in a node's call with the interpreter's arrays; arrays has room for sl_call_arrays(node). */
void interpret_call(const interpreter *in, const sl_node *node, sl_array *arrays, sl_call *call);
/* Runs one call, with scratch memory as the operation asks for it. */
sl_status interpret_kernel(const sl_operation *op, sl_isa isa, sl_call *call);

#endif
