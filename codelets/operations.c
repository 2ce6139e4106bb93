/* The table of operations, and finding one by its name. */
#include <string.h>

#include "codelets/codelets.h"

const sl_operation *const sl_operations[] = {
#define POINTER(name) &sl_op_##name,
    SL_OPERATIONS(POINTER)
#undef POINTER
        NULL,
};

const sl_operation *sl_operation_find(const char *name) {
  for (int i = 0; sl_operations[i]; i++)
    if (strcmp(sl_operations[i]->name, name) == 0) return sl_operations[i];
  return NULL;
}

sl_graph *sl_graph_new(int64_t batch) {
  sl_graph *graph = sl_graph_create(batch, &sl_op_copy, &sl_op_add, &sl_op_convert);
  if (graph) graph->part = &sl_op_sequence_part, graph->join = &sl_op_sequence_join;
  return graph;
}
