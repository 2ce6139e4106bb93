/* Describes the tasks of a step in a timeline. */
#include "tasks/bounds/describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/bounds/bound.h"
#include "tasks/bounds/flows.h"
#include "tasks/schedule/print.h"

static sl_status put_node(sl_timeline *t, const sl_graph *g, const sl_schedule *s, int i, int kind) {
  const sl_node *node = g->node[i];
  char shapes[1024];
  sl_node_shapes(g, node, shapes, sizeof shapes);
  t->node[i] = (sl_timeline_node){.layer = sl_timeline_text(t, node->name),
                                  .operation = sl_timeline_text(t, node->op->name),
                                  .phase = sl_timeline_text(t, sl_phase_name(node->phase)),
                                  .shapes = sl_timeline_text(t, shapes),
                                  .kind = kind,
                                  .shard = node->shard,
                                  .leaf = node->leaf,
                                  .micro_batch = node->micro_batch,
                                  .priority = (int32_t)fmin(1e6 * s->urgency[i], 1e9),
                                  .flops = s->cost[i].flops,
                                  .bytes = s->cost[i].bytes};
  const sl_timeline_node *n = &t->node[i];
  return n->layer && n->operation && n->phase && n->shapes ? SL_OK
                                                           : sl_no_memory("for the timeline of %d tasks", g->n_nodes);
}

static sl_status put_flows(sl_timeline *t, const sl_graph *g, const char *kept) {
  sl_timeline_flow *flow;
  int n;
  SL_TRY(sl_flows_find(g, kept, &flow, &n));
  const sl_status status = sl_timeline_reserve_flows(t, n);
  if (status == SL_OK) memcpy(t->flow, flow, (size_t)n * sizeof *flow);
  free(flow);
  return status;
}

sl_status sl_timeline_describe(sl_timeline *t, const sl_graph *step, const sl_schedule *s, const char *kept) {
  const int n = step->n_nodes;
  int *kind = malloc(((size_t)n + 1) * sizeof *kind);
  sl_status status = kind ? SL_OK : sl_no_memory("for the timeline of %d tasks", n);
  SL_TRY_OUT(status);
  SL_TRY_OUT(sl_bound_kinds(step, kind, &t->n_kinds));
  for (int i = 0; i < n; i++) SL_TRY_OUT(put_node(t, step, s, i, kind[i]));
  memcpy(t->from, s->from, ((size_t)n + 1) * sizeof *t->from);
  memcpy(t->before, s->before, (size_t)s->from[n] * sizeof *t->before);
  SL_TRY_OUT(put_flows(t, step, kept));
out:
  free(kind);
  return status;
}
