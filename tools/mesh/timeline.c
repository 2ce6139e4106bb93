/* Writes joint schedules as timelines. */
#include "tools/mesh/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/trace/timeline.h"
#include "tasks/bounds/describe.h"

static int64_t ns(double seconds) { return (int64_t)llround(1e9 * seconds); }

static int by_end(const void *a, const void *b) {
  const sl_record *x = a, *y = b;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->node - y->node;
}

/* A record for each task and exchange, in the order of their ends. */
static sl_status put_records(const sl__mesh_step *s, const sl_mesh_share *share, sl_timeline *t) {
  const int n = s->step->n_nodes;
  double *end = malloc(((size_t)n + 1) * sizeof *end);
  t->record = malloc(((size_t)n + 1) * sizeof *t->record);
  if (!end || !t->record) {
    free(end);
    return sl_no_memory("for the timeline of %d tasks", n);
  }
  for (int i = 0; i < n; i++) end[i] = share->start[i] + s->schedule->seconds[i] + share->later[i];
  for (int k = 0; k < s->exchanges; k++)
    end[s->exchange[k].node] = share->start[s->exchange[k].node] + s->exchange[k].seconds;
  for (int i = 0; i < n; i++) {
    double ready = 0;
    for (int k = s->schedule->from[i]; k < s->schedule->from[i + 1]; k++)
      ready = fmax(ready, end[s->schedule->before[k]]);
    const int exchange = s->step->node[i]->bucket > 0;
    t->record[i] = (sl_record){.step = 1,
                               .ready = ns(ready),
                               .taken = ns(exchange ? ready : share->start[i]),
                               .start = ns(share->start[i]),
                               .end = ns(end[i]),
                               .node = i,
                               .worker = (int16_t)(exchange ? 0 : share->worker[i]),
                               .kind = exchange ? SL_RECORD_EXCHANGE : SL_RECORD_TASK};
    if (exchange) continue;
    t->worker[share->worker[i]].tasks++;
    t->worker[share->worker[i]].busy += ns(end[i]) - ns(share->start[i]);
  }
  free(end);
  qsort(t->record, (size_t)n, sizeof *t->record, by_end);
  t->n_records = (size_t)n;
  return SL_OK;
}

static sl_status put_workers(const sl__mesh_step *s, const char *machine, sl_timeline *t) {
  for (int w = 0; w < t->n_workers; w++) {
    const int gpu = w >= s->schedule->cpus && s->schedule->gpus > 0;
    char name[256];
    snprintf(name, sizeof name, "%s %d of %s (predicted)", gpu ? "GPU" : "CPU", gpu ? w - s->schedule->cpus : w,
             machine);
    t->worker[w].gpu = gpu;
    if (!(t->worker[w].name = sl_timeline_text(t, name))) return sl_no_memory("for the names of a timeline");
  }
  return SL_OK;
}

static sl_status write_rank(const sl__mesh_steps *all, int r, const char *model, const char *machine,
                            const char *folder) {
  const sl__mesh_step *s = &all->rank[r];
  const int n = s->step->n_nodes, workers = s->schedule->cpus + s->schedule->gpus;
  char name[SL_TIMELINE_NAME], *path = NULL;
  sl_timeline *t = NULL;
  sl_status status = SL_OK;
  SL_TRY_OUT(sl_timeline_create(workers > 0 ? workers : 1, n, s->schedule->from[n], &t));
  SL_TRY_OUT(sl_timeline_describe(t, s->step, s->schedule, NULL));
  SL_TRY_OUT(put_workers(s, machine, t));
  SL_TRY_OUT(put_records(s, &all->joint->rank[r], t));
  t->rank = r, t->ranks = all->n;
  t->tensor = all->placements->tensor, t->pipe = all->n / t->tensor;
  t->micro_batches = all->micro_batches, t->pass_kinds = all->pass_kinds;
  t->chunks = s->step->turns / t->pass_kinds / t->micro_batches; /* a turn for each pass */
  t->model = sl_timeline_text(t, model), t->sched = sl_timeline_text(t, "(predicted)");
  t->clock[1].local = ns(all->joint->makespan);
  t->n_clocks = 2;
  t->peak_gflops = 1e-9 * s->machine.kind[SL_KIND_CPU].flops;
  t->peak_gigabytes = 1e-9 * s->machine.kind[SL_KIND_CPU].bytes;
  if (!t->model || !t->sched || asprintf(&path, "%s/%s", folder, sl_timeline_name(r, name)) < 0)
    path = NULL, status = sl_no_memory("for a path");
  if (status == SL_OK) status = sl_timeline_write(path, t);
out:
  sl_timeline_destroy(t);
  free(path);
  return status;
}

sl_status sl__mesh_timelines(const sl__mesh_steps *all, const char *model, const char *machine, const char *folder) {
  SL_TRY(sl_folder_make(folder));
  for (int r = 0; r < all->n; r++) SL_TRY(write_rank(all, r, model, machine, folder));
  return SL_OK;
}
