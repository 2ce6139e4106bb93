/* The gradient pass: walks the nodes backwards, asks each operation on the way from the parameters to the loss for the
 * nodes of its gradient, and adds up what reaches a value from several uses. */
#include "tasks/gradient.h"

#include <stdlib.h>

static void add_contribution(sl_graph *graph, sl_value *total, sl_value more, const char *layer) {
  if (more == SL_NONE) return;
  *total = *total == SL_NONE ? more : sl_graph_add1(graph, graph->add, layer, NULL, (sl_value[]){*total, more}, 2);
}

sl_status sl_gradient(sl_graph *graph, sl_value loss, const sl_value *parameters, int n, sl_value *gradients) {
  SL_TRY(sl_graph_status(graph));
  if (!sl_graph_value(graph, loss)) return sl_fail(SL_EINVAL, "the loss is no value of this graph");
  int n_values = graph->n_values, n_nodes = graph->n_nodes;
  char *wanted = calloc((size_t)n_values, 1); /* depends on a parameter */
  sl_value *of = malloc((size_t)n_values * sizeof *of);
  int *need = NULL;
  sl_value *din = NULL;
  sl_status status = SL_OK;
  if (!wanted || !of) {
    status = sl_fail(SL_ENOMEM, "no memory for the gradients of %d values", n_values);
    goto out;
  }
  for (int v = 0; v < n_values; v++) of[v] = SL_NONE;
  for (int p = 0; p < n; p++) wanted[parameters[p]] = 1;
  int most = 1;
  for (int i = 0; i < n_nodes; i++) {
    const sl_node *node = graph->node[i];
    if (node->n_in > most) most = node->n_in;
    if (!node->op->gradient) continue;
    int any = 0;
    for (int k = 0; k < node->n_in; k++) any |= wanted[node->in[k]];
    for (int k = 0; k < node->n_out && any; k++) wanted[node->out[k]] = 1;
  }
  need = malloc((size_t)most * sizeof *need);
  din = malloc((size_t)most * sizeof *din);
  if (!need || !din) {
    status = sl_fail(SL_ENOMEM, "no memory for the gradients of %d inputs", most);
    goto out;
  }
  sl_phase before = graph->phase;
  graph->phase = SL_PHASE_BACKWARD;
  for (int i = n_nodes - 1; i >= 0 && graph->status == SL_OK; i--) {
    const sl_node *node = graph->node[i];
    if (!node->op->gradient) continue;
    sl_value dout[SL_MAX_OUT];
    int reached = 0, any = 0;
    for (int k = 0; k < node->n_out; k++) {
      dout[k] = of[node->out[k]];
      reached |= dout[k] != SL_NONE || node->out[k] == loss;
    }
    for (int k = 0; k < node->n_in; k++) {
      need[k] = wanted[node->in[k]];
      din[k] = SL_NONE;
      any |= need[k];
    }
    if (!reached || !any) continue;
    node->op->gradient(graph, node, dout, need, din);
    for (int k = 0; k < node->n_in; k++)
      if (need[k]) add_contribution(graph, &of[node->in[k]], din[k], node->name);
  }
  graph->phase = before;
  SL_TRY_OUT(sl_graph_status(graph));
  for (int p = 0; p < n; p++) {
    gradients[p] = of[parameters[p]];
    if (gradients[p] == SL_NONE) {
      status = sl_fail(SL_EINVAL, "parameter '%s' has no gradient: the loss does not depend on it",
                       graph->value[parameters[p]]->name);
      goto out;
    }
  }
out:
  free(wanted);
  free(of);
  free(need);
  free(din);
  return status;
}
