/* The timeline of a program's recorded steps. */
#include <math.h>
#include <stdlib.h>

#include "runtime/machine/transfers.h"
#include "tasks/bounds/describe.h"
#include "tasks/graph/storage.h"
#include "tasks/starpu/copies.h"
#include "tasks/starpu/lowered.h"

sl_dependencies sl_program_dependencies(const sl_program *p) {
  return (sl_dependencies){p->schedule->n, p->schedule->from, p->schedule->before};
}

/* The first of the values that share v's buffer because they are computed in place; it numbers the buffer. */
static int first_in_place(const sl_schedule *s, int v) {
  while (s->onto[v] >= 0) v = s->onto[v];
  return v;
}

/* Lists the data that each node reads. The caller frees *read. */
static sl_status find_reads(const sl_program *p, sl__read **read, size_t *n) {
  const sl_graph *g = p->graph;
  size_t most = 1 + sl__inputs_reads(p->inputs, NULL);
  for (int i = 0; i < g->n_nodes; i++) most += (size_t)(g->node[i]->n_in + g->node[i]->n_out);
  *n = 0;
  *read = malloc(most * sizeof **read);
  if (!*read) return sl_no_memory("for what %d tasks read", g->n_nodes);
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in; k++)
      (*read)[(*n)++] = (sl__read){.data = sl__program_handle(p, node->in[k]), .node = i};
    for (int k = 0; k < node->n_out; k++)
      if (sl_node_reads_output(node, k))
        (*read)[(*n)++] = (sl__read){.data = sl__program_handle(p, node->out[k]), .node = i};
  }
  *n += sl__inputs_reads(p->inputs, *read + *n);
  return SL_OK;
}

static sl_status put_transfers(const sl_program *p, sl_timeline *t) {
  sl_copy_record *moved = NULL;
  sl__read *read = NULL;
  size_t n, reads;
  int32_t *node = NULL;
  int *memory = malloc(((size_t)t->n_workers + 1) * sizeof *memory);
  sl_status status = SL_OK;
  SL_TRY_OUT(sl_transfers_snapshot(&moved, &n));
  SL_TRY_OUT(sl_timeline_reserve_transfers(t, (int)n));
  if (n == 0) goto out;
  SL_TRY_OUT(find_reads(p, &read, &reads));
  node = malloc(n * sizeof *node);
  if (!memory || !node) SL_TRY_OUT(sl_no_memory("for the readers of %zu copies", n));
  for (int w = 0; w < t->n_workers; w++) memory[w] = (int)starpu_worker_get_memory_node((unsigned)w);
  SL_TRY_OUT(sl__copies_find(t->record, t->n_records, read, reads, memory, moved, n, node));
  for (size_t i = 0; i < n; i++)
    t->transfer[i] = (sl_timeline_transfer){.step = moved[i].step,
                                            .start = moved[i].start,
                                            .end = moved[i].end,
                                            .bytes = moved[i].bytes,
                                            .from = moved[i].from,
                                            .to = moved[i].to,
                                            .node = node[i]};
out:
  free(moved), free(read), free(node), free(memory);
  return status;
}

/* Lists the buffers of the memory plan that each node touches. */
static sl_status put_buffers(const sl_program *p, sl_timeline *t) {
  const sl_graph *g = p->graph;
  int *number = malloc(((size_t)g->n_values + 1) * sizeof *number),
      *last = malloc(((size_t)g->n_values + 1) * sizeof *last);
  int buffers = 0, uses = 0;
  sl_status status = number && last ? SL_OK : sl_no_memory("for the buffers of %d values", g->n_values);
  SL_TRY_OUT(status);
  for (int v = 0; v < g->n_values; v++)
    number[v] = p->memory->slot[v] >= 0 && first_in_place(p->schedule, v) == v ? buffers++ : -1;
  for (int fill = 0; fill < 2; fill++) {
    if (fill) SL_TRY_OUT(sl_timeline_reserve_buffers(t, buffers, uses));
    uses = 0;
    for (int v = 0; v < g->n_values; v++) last[v] = -1;
    for (int i = 0; i < g->n_nodes; i++)
      for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_out; k++) {
        const sl_node *node = g->node[i];
        const int v = first_in_place(p->schedule, k < node->n_in ? node->in[k] : node->out[k - node->n_in]);
        if (number[v] < 0 || last[v] == i) continue;
        last[v] = i;
        if (fill) {
          t->use[uses] = (sl_timeline_use){i, number[v]};
          sl_timeline_buffer *b = &t->buffer[number[v]];
          b->slot = p->memory->slot[v];
          b->bytes = (int64_t)sl_value_bytes(g->value[v]);
        }
        uses++;
      }
  }
out:
  free(number), free(last);
  return status;
}

/* Bytes per second of the fastest link between host and GPUs; 0: no GPU. */
static double fastest_link(const sl_program *p) {
  double link = 0;
  for (int i = 0; i < sl_runtime_gpus(p->runtime); i++) {
    sl_gpu gpu;
    sl_runtime_gpu(p->runtime, i, &gpu);
    link = fmax(link, fmax(gpu.to_gpu, gpu.from_gpu));
  }
  return link;
}

sl_status sl_program_timeline(const sl_program *p, const char *model, sl_timeline **timeline) {
  const sl_schedule *s = p->schedule;
  const int n = p->graph->n_nodes, workers = sl_runtime_workers(p->runtime);
  sl_timeline *t = NULL;
  sl_status status = SL_OK;
  *timeline = NULL;
  SL_TRY_OUT(sl_timeline_create(workers, n, s->from[n], &t));
  SL_TRY_OUT(sl_timeline_describe(t, p->graph, s, p->kept));
  for (int i = 0; i < n; i++) t->node[i].priority = p->task[i].task->priority;
  SL_TRY_OUT(put_buffers(p, t));
  t->link = fastest_link(p);
  t->rank = sl_runtime_rank(p->runtime);
  t->ranks = sl_runtime_ranks(p->runtime);
  t->tensor = p->placements->tensor, t->pipe = p->model_ranks / t->tensor, t->micro_batches = p->plan.micro_batches;
  t->pass_kinds = p->pass_kinds;
  t->chunks = p->graph->turns > 1 && p->model_ranks > 1 ? p->graph->turns / t->pass_kinds / t->micro_batches : 1;
  t->model = sl_timeline_text(t, model);
  t->sched = sl_timeline_text(t, sl_runtime_sched(p->runtime));
  for (int w = 0; w < workers; w++) {
    char name[256];
    t->worker[w] =
        (sl_timeline_worker){.name = sl_timeline_text(t, sl_runtime_worker_text(p->runtime, w, name, sizeof name)),
                             .gpu = sl_runtime_worker_kind(p->runtime, w) == SL_WORKER_CUDA,
                             .tasks = p->counters[w].tasks,
                             .busy = p->counters[w].busy};
    if (!t->worker[w].name) status = SL_ENOMEM;
  }
  if (status != SL_OK || !t->model || !t->sched) SL_TRY_OUT(sl_no_memory("for the names of a timeline"));
  if (p->recorder) SL_TRY_OUT(sl_timeline_take(t, p->recorder));
  if (p->recorder) SL_TRY_OUT(put_transfers(p, t));
  *timeline = t;
  t = NULL;
out:
  sl_timeline_destroy(t);
  return status;
}
