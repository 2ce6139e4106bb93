/* A run's tasks summed up by operation and phase: number, time, FLOPs, bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/parts.h"

/* The node's line, made if missing; -1 when out of memory. */
static int line_of(sl__report_run *r, const sl_timeline_node *node, int exchange) {
  for (int i = 0; i < r->n_lines; i++)
    if (r->line[i].exchange == exchange && strcmp(r->line[i].operation, node->operation) == 0 &&
        strcmp(r->line[i].phase, node->phase) == 0)
      return i;
  sl__report_line *more = realloc(r->line, ((size_t)r->n_lines + 1) * sizeof *more);
  if (!more) return -1;
  r->line = more;
  more[r->n_lines] = (sl__report_line){.operation = node->operation, .phase = node->phase, .exchange = exchange};
  return r->n_lines++;
}

static sl_status add(sl__report_run *r, const sl__sums *s) {
  const sl_timeline *t = s->t;
  int *of = malloc(((size_t)t->n_nodes + 1) * sizeof *of); /* line of each node; -1: not seen yet */
  if (!of) return sl_no_memory("for the operations of %d tasks", t->n_nodes);
  for (int i = 0; i < t->n_nodes; i++) of[i] = -1;
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *a = &t->record[i];
    const int exchange = a->kind == SL_RECORD_EXCHANGE;
    if (a->step < s->first || a->node < 0 || a->node >= t->n_nodes || a->kind == SL_RECORD_INPUT) continue;
    if (!exchange && (a->worker < 0 || a->worker >= t->n_workers)) continue;
    const sl_timeline_node *node = &t->node[a->node];
    if (of[a->node] < 0) of[a->node] = line_of(r, node, exchange);
    if (of[a->node] < 0) {
      free(of);
      return sl_no_memory("for the operations of %d tasks", t->n_nodes);
    }
    sl__report_line *line = &r->line[of[a->node]];
    const double seconds = 1e-9 * (double)(a->end - a->start);
    line->count++;
    line->seconds += seconds;
    line->flops += node->flops;
    line->bytes += node->bytes;
    if (!exchange) r->kernels += seconds;
  }
  for (int i = 0; i < t->n_transfers; i++) {
    const sl_timeline_transfer *x = &t->transfer[i];
    if (x->step >= s->first_copy && x->node >= 0 && of[x->node] >= 0)
      r->line[of[x->node]].moved += (double)x->bytes * s->copied;
  }
  free(of);
  return SL_OK;
}

static int by_time(const void *a, const void *b) {
  const sl__report_line *x = a, *y = b;
  if (x->exchange != y->exchange) return x->exchange - y->exchange;
  return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Peaks are those of a CPU worker. If one rank's are unknown, no operation is compared with them. */
static void hold_against_roof(sl__report_run *r) {
  for (int i = 0; i < r->n; i++) {
    const sl_timeline *t = r->timelines[i];
    for (int w = 0; w < t->n_workers; w++) r->gpus |= t->worker[w].gpu;
    if (!(t->peak_gflops > 0) || !(t->peak_gigabytes > 0)) {
      r->peak_gflops = r->peak_gigabytes = 0;
      return;
    }
    r->peak_gflops += t->peak_gflops / r->n, r->peak_gigabytes += t->peak_gigabytes / r->n;
  }
  if (r->gpus) r->peak_gflops = r->peak_gigabytes = 0;
  for (int i = 0; i < r->n_lines && r->peak_gflops > 0; i++)
    if (!r->line[i].exchange)
      r->line[i].at_roof = 1e-9 * fmax(r->line[i].flops / r->peak_gflops, r->line[i].bytes / r->peak_gigabytes);
}

const char *sl__report_roof_note(const sl__report_run *r) {
  if (r->gpus) return "No roofline: GPUs took part in this run, and Starling has a roofline for CPU workers only.";
  if (!(r->peak_gflops > 0))
    return "No roofline: this machine's peaks were not known in this run. 'starling bench MODEL' measures them for "
           "later runs on this machine with the same number of workers.";
  for (int i = 0; i < r->n_lines; i++)
    if (r->line[i].at_roof > r->line[i].seconds)
      return "An operation above 100 % is faster than the roofline. Possible causes: OpenBLAS's build has no kernels "
             "for this processor, so that Starling's kernels are faster than its sgemm; the data were still in a "
             "cache; other programs ran while the peaks were measured, so that these are too low.";
  return "";
}

sl_status sl__report_of(const char *run, sl_timeline *const *timelines, int n, sl__report_run *r) {
  *r = (sl__report_run){.run = run, .timelines = timelines, .n = n, .sums = calloc((size_t)n + 1, sizeof *r->sums)};
  if (!r->sums) return sl_no_memory("for the figures of %d ranks", n);
  for (int i = 0; i < n; i++) {
    SL_TRY(sl__sums_of(timelines[i], &r->sums[i]));
    SL_TRY(add(r, &r->sums[i]));
  }
  if (r->n_lines) qsort(r->line, (size_t)r->n_lines, sizeof *r->line, by_time);
  hold_against_roof(r);
  return SL_OK;
}

void sl__report_free(sl__report_run *r) { free(r->sums), free(r->line); }
