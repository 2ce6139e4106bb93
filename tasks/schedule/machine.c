/* Predicted times of tasks on the workers of a machine. */
#include "tasks/schedule/machine.h"

#include <math.h>

#include "runtime/processors/cuda_context.h"
#include "tasks/graph/graph.h"
#include "tasks/schedule/times.h"

sl_machine sl_machine_default(int workers, int threads, int gpus) {
  return (sl_machine){
      .kind =
          {[SL_KIND_CPU] = {workers, 6e10 * threads, 1e10 * threads, 3e-6}, [SL_KIND_GPU] = {gpus, 3e13, 2e12, 8e-6}},
      .exchange = 4e9,
      .link = 2.5e10,
      .latency = 1e-5};
}

/* 13 times the rate of fp32: 0.8 TFLOP/s, measured on an Intel Xeon in linear layers (docs/performance.md). */
void sl_machine_set_tiles(sl_machine *m) { m->kind[SL_KIND_CPU].half = 13 * m->kind[SL_KIND_CPU].flops; }

static int two_kinds(const sl_machine *m) { return m->kind[SL_KIND_GPU].workers > 0; }

static int can_run(const sl_machine *m, const sl_node *node, int kind) {
  if (kind == SL_KIND_CPU && m->fast && two_kinds(m) && node->op->fast) return 0;
  return m->kind[kind].workers > 0 || (kind == SL_KIND_CPU && !two_kinds(m));
}

/* fp16 is computed in fp32, from widened copies. */
static int reads_bf16(const sl_graph *g, const sl_node *node) {
  for (int k = 0; k < node->n_in; k++)
    if (g->value[node->in[k]]->dtype == SL_BF16) return 1;
  return 0;
}

double sl_machine_seconds(const sl_machine *m, const sl_graph *g, const sl_node *node, const sl_cost *cost, int kind) {
  const sl_machine_kind *worker = &m->kind[kind];
  if (!can_run(m, node, kind)) return INFINITY;
  if (node->bucket) return worker->overhead + fmax(cost->flops / worker->flops, cost->bytes / m->exchange);
  const double slower = m->slower > 0 ? m->slower : 1;
  const double measured = sl_times_find(m->times, node->op->name, m->times ? sl_node_footprint(g, node) : 0, kind);
  if (measured > 0) return slower * (worker->overhead + measured);
  const int half = worker->half > 0 && reads_bf16(g, node) && (node->op->pairs || kind == SL_KIND_GPU);
  const int tf32 = m->fast == SL_GPU_TF32 && node->op->fast && worker->tf32 > 0;
  const double flops = half ? worker->half : tf32 ? worker->tf32 : worker->flops;
  return slower * (worker->overhead + fmax(cost->flops / flops, cost->bytes / worker->bytes));
}
