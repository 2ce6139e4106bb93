#include "tests/support/interpret.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/codelets.h"
#include "tasks/graph/storage.h"
#include "tests/codelets/cuda.h"

sl_status interpret_create(const sl_graph *graph, sl_isa isa, sl_team *team, interpreter *in) {
  *in = (interpreter){.graph = graph,
                      .isa = isa,
                      .team = team,
                      .tiles = SL_TILES_DEFAULT,
                      .step = {.number = 3, .seed = 12345, .learning_rate = 0.125}};
  in->data = calloc((size_t)graph->n_values + 1, sizeof *in->data);
  if (!in->data) return sl_no_memory("for %d arrays", graph->n_values);
  for (int v = 0; v < graph->n_values; v++) {
    size_t bytes = sl_value_bytes(graph->value[v]);
    in->data[v] = malloc(bytes);
    if (!in->data[v]) {
      interpret_destroy(in);
      return sl_no_memory("for '%s'", graph->value[v]->name);
    }
    memset(in->data[v], 0xff, bytes);
  }
  return SL_OK;
}

void interpret_destroy(interpreter *in) {
  for (int v = 0; in->data && v < in->graph->n_values; v++) free(in->data[v]);
  free(in->data);
  in->data = NULL;
}

void interpret_call(const interpreter *in, const sl_node *node, sl_array *arrays, sl_call *call) {
  sl_call_describe(in->graph, node, arrays, call);
  sl_array *ins = arrays + (call->in - arrays), *outs = arrays + (call->out - arrays);
  for (int a = 0; a < call->n_in; a++) {
    int first = node->in_part ? node->in_part[a] : a;
    sl_array *part = arrays + (ins[a].part - arrays);
    for (int p = 0; p < ins[a].parts; p++) part[p].data = in->data[node->in[first + p]];
    ins[a].data = ins[a].parts == 1 ? part[0].data : NULL;
  }
  for (int j = 0; j < call->n_out; j++) outs[j].data = in->data[node->out[j]];
  call->step = &in->step;
  call->tiles = in->tiles;
  call->team = in->team;
}

sl_status interpret_kernel(const sl_operation *op, sl_isa isa, sl_call *call) {
  if (isa >= INTERPRET_GPU) return cuda_case_run(op, call, isa == INTERPRET_GPU_FAST);
  enum { GUARD = 4096, PATTERN = 0x5a, NOT_A_NUMBER = 0xff };
  const size_t bytes = call->scratch_bytes = sl_operation_scratch(op, call);
  SL_TRY(sl_team_reserve(call->team, bytes + GUARD));
  if (!op->cpu[isa]) return sl_fail(SL_EUNSUPPORTED, "%s has no %s kernel in this build", op->name, sl_isa_name(isa));
  for (int t = 0; t < call->team->threads; t++) {
    memset(call->team->scratch[t], NOT_A_NUMBER, bytes); /* a kernel that reads what it has not written gives NaN */
    memset((char *)call->team->scratch[t] + bytes, PATTERN, GUARD);
  }
  SL_TRY(sl_operation_run(op, &sl_op_convert, isa, call));
  for (int t = 0; t < call->team->threads; t++)
    for (size_t i = bytes; i < bytes + GUARD; i++)
      if (((char *)call->team->scratch[t])[i] != PATTERN)
        return sl_fail(SL_EINVAL, "%s (%s) writes past its %zu bytes of scratch memory", op->name, sl_isa_name(isa),
                       bytes);
  return SL_OK;
}

sl_status interpret_run(interpreter *in, int from, int to) {
  for (int i = from; i < to; i++) {
    const sl_node *node = in->graph->node[i];
    sl_array *arrays = calloc((size_t)sl_call_arrays(node), sizeof *arrays);
    if (!arrays) return sl_no_memory("for a call of %s", node->op->name);
    sl_call call;
    interpret_call(in, node, arrays, &call);
    sl_status status = interpret_kernel(node->op, in->isa, &call);
    free(arrays);
    if (status != SL_OK) return sl_context(status, "%s (%s)", node->name, node->op->name);
  }
  return SL_OK;
}
