/* Causes of idle time, and the shares of the workers' time. */
#include "runtime/trace/idle.h"

#include <stdlib.h>
#include <string.h>

const char *sl_idle_cause_name(sl_idle_cause cause) {
  static const char *const names[] = {
#define SL_IDLE_NAME(cause, text) text,
      SL_IDLE_LIST(SL_IDLE_NAME)
#undef SL_IDLE_NAME
  };
  return names[cause];
}

typedef struct step_end {
  int64_t step;
  const sl_record *last; /* the record of this step or an earlier one that ended last */
} step_end;

typedef struct finder {
  const sl_dependencies *graph;
  sl_record *by_node; /* tasks and exchanges by step, then node */
  size_t n;
  step_end *ends; /* by step */
  size_t n_ends;
  sl_idle *idle;
  size_t n_idle, capacity;
  int failed; /* out of memory */
} finder;

static int by_step_and_node(const void *a, const void *b) {
  const sl_record *x = a, *y = b;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

static int by_worker_and_start(const void *a, const void *b) {
  const sl_record *x = *(const sl_record *const *)a, *y = *(const sl_record *const *)b;
  if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
  return (x->start > y->start) - (x->start < y->start);
}

static const sl_record *find(const finder *f, int64_t step, int node) {
  const sl_record key = {.step = step, .node = node};
  return f->n ? bsearch(&key, f->by_node, f->n, sizeof key, by_step_and_node) : NULL;
}

/* The predecessor of r that ended last. */
static const sl_record *latest_before(const finder *f, const sl_record *r) {
  const sl_record *latest = NULL;
  if (!f->graph || r->node < 0 || r->node >= f->graph->n) return NULL;
  for (int k = f->graph->from[r->node]; k < f->graph->from[r->node + 1]; k++) {
    const sl_record *p = find(f, r->step, f->graph->before[k]);
    if (p && (!latest || p->end > latest->end)) latest = p;
  }
  return latest;
}

/* The record that ended last among the steps before this one; INT64_MAX: among all steps. */
static const sl_record *last_before(const finder *f, int64_t step) {
  size_t low = 0, high = f->n_ends;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (f->ends[middle].step < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? f->ends[low - 1].last : NULL;
}

static void put(finder *f, int worker, const sl_record *next, sl_idle_cause cause, int64_t from, int64_t to) {
  if (from >= to || f->failed) return;
  if (f->n_idle == f->capacity) {
    const size_t wanted = f->capacity ? 2 * f->capacity : 256;
    sl_idle *more = realloc(f->idle, wanted * sizeof *more);
    if (!more) {
      f->failed = 1;
      return;
    }
    f->idle = more;
    f->capacity = wanted;
  }
  f->idle[f->n_idle++] = (sl_idle){.worker = worker,
                                   .cause = cause,
                                   .from = from,
                                   .to = to,
                                   .step = next ? next->step : -1,
                                   .node = next ? next->node : -1};
}

static int64_t clamp(int64_t t, int64_t from, int64_t to) { return t < from ? from : t > to ? to : t; }

/* Splits [from, to), during which something waited for r to end. Follows the chain of causes that held r back: the
 * predecessor that ended last, or the step before if r was submitted after its predecessors had ended. */
static void wait_for(finder *f, int worker, const sl_record *next, const sl_record *r, int64_t from, int64_t to) {
  const int most = f->graph
                       ? f->graph->n
                       : 0; /* number of predecessors visited in one step: a graph read from a file may have a circle */
  int hops = 0;
  while (to > from && r) {
    const int64_t ready = clamp(r->ready, from, to), submit = clamp(r->submit, from, ready);
    put(f, worker, next, r->kind == SL_RECORD_EXCHANGE ? SL_IDLE_EXCHANGE : SL_IDLE_DEPENDENCY, ready, to);
    const sl_record *before = latest_before(f, r);
    to = ready;
    if (before && before->end > r->submit && hops++ < most) {
      r = before;
      continue;
    }
    put(f, worker, next, SL_IDLE_DEPENDENCY, submit, ready); /* waits for something that was not recorded */
    r = last_before(f, r->step);
    hops = 0;
    to = r ? clamp(r->end, from, submit) : from;
    put(f, worker, next, SL_IDLE_RUNTIME, to, submit);
  }
  put(f, worker, next, SL_IDLE_DEPENDENCY, from, to);
}

static void explain(finder *f, int worker, const sl_record *next, int64_t from, int64_t to) {
  /* The chains of causes give the latest pieces first; the loop at the end reverses them. */
  const size_t first = f->n_idle;
  int64_t submit = to;
  if (next) {
    submit = clamp(next->submit, from, to);
    const int64_t ready = clamp(next->ready, submit, to), taken = clamp(next->taken, ready, to);
    put(f, worker, next, SL_IDLE_DATA, taken, to);
    put(f, worker, next, SL_IDLE_POLICY, ready, taken);
    const sl_record *before = latest_before(f, next);
    if (ready > submit) wait_for(f, worker, next, before, submit, ready);
  }
  const sl_record *earlier = last_before(f, next ? next->step : INT64_MAX);
  const int64_t over = earlier ? clamp(earlier->end, from, submit) : from;
  put(f, worker, next, SL_IDLE_RUNTIME, over, submit);
  if (over > from) wait_for(f, worker, next, earlier, from, over);
  for (size_t a = first, b = f->n_idle; a + 1 < b; a++) {
    const sl_idle swap = f->idle[a];
    f->idle[a] = f->idle[--b];
    f->idle[b] = swap;
  }
}

/* Records that ended before the window explain nothing in it. */
static sl_status prepare(finder *f, const sl_record *records, size_t n, int64_t from) {
  f->by_node = malloc((n + 1) * sizeof *f->by_node);
  f->ends = malloc((n + 1) * sizeof *f->ends);
  if (!f->by_node || !f->ends) return sl_no_memory("for %zu records", n);
  for (size_t i = 0; i < n; i++)
    if (records[i].end > from && (records[i].kind == SL_RECORD_TASK || records[i].kind == SL_RECORD_EXCHANGE))
      f->by_node[f->n++] = records[i];
  qsort(f->by_node, f->n, sizeof *f->by_node, by_step_and_node);
  for (size_t i = 0; i < f->n; i++) {
    const sl_record *r = &f->by_node[i];
    const sl_record *last = f->n_ends ? f->ends[f->n_ends - 1].last : NULL;
    if (i == 0 || r->step != r[-1].step) f->ends[f->n_ends++] = (step_end){r->step, last};
    if (!last || r->end > last->end) f->ends[f->n_ends - 1].last = r;
  }
  return SL_OK;
}

sl_status sl_idle_find(const sl_record *records, size_t n, int workers, const sl_dependencies *graph, int64_t from,
                       int64_t to, sl_idle **idle, size_t *n_idle) {
  *idle = NULL;
  *n_idle = 0;
  finder f = {.graph = graph};
  const sl_record **order = malloc((n + 1) * sizeof *order);
  sl_status status = order ? SL_OK : sl_no_memory("for %zu records", n);
  SL_TRY_OUT(status);
  SL_TRY_OUT(prepare(&f, records, n, from));
  size_t tasks = 0;
  for (size_t i = 0; i < f.n; i++)
    if (f.by_node[i].kind == SL_RECORD_TASK) order[tasks++] = &f.by_node[i];
  qsort(order, tasks, sizeof *order, by_worker_and_start);
  size_t i = 0;
  for (int w = 0; w < workers; w++) {
    int64_t free_from = from;
    while (i < tasks && order[i]->worker < w) i++;
    for (; i < tasks && order[i]->worker == w; i++) {
      if (order[i]->end <= free_from) continue;
      const int64_t start = clamp(order[i]->start, free_from, to);
      explain(&f, w, order[i], free_from, start);
      free_from = clamp(order[i]->end, start, to);
    }
    explain(&f, w, NULL, free_from, to);
  }
  if (f.failed) status = sl_no_memory("for the idle intervals of %zu records", n);
out:
  free(f.by_node), free(f.ends), free(order);
  if (status != SL_OK) {
    free(f.idle);
    return status;
  }
  *idle = f.idle;
  *n_idle = f.n_idle;
  return SL_OK;
}

sl_status sl_usage_of(const sl_record *records, size_t n, int workers, const sl_dependencies *graph, int64_t from,
                      int64_t to, sl_usage *u) {
  *u = (sl_usage){.idle = {[SL_IDLE_RUNTIME] = 1}};
  if (to <= from || workers < 1) return SL_OK;
  sl_idle *idle;
  size_t n_idle;
  SL_TRY(sl_idle_find(records, n, workers, graph, from, to, &idle, &n_idle));
  const double all = (double)(to - from) * workers;
  *u = (sl_usage){.kernels = 1, .seconds = 1e-9 * (double)(to - from)};
  for (size_t i = 0; i < n_idle; i++) u->idle[idle[i].cause] += (double)(idle[i].to - idle[i].from) / all;
  for (int c = 0; c < SL_IDLE_CAUSES; c++) u->kernels -= u->idle[c];
  free(idle);
  return SL_OK;
}

sl_status sl_usage_since(const sl_recorder *recorder, int workers, const sl_dependencies *graph, int64_t from,
                         int64_t to, sl_usage *usage) {
  sl_record *records;
  size_t n;
  SL_TRY(sl_recorder_snapshot(recorder, &records, &n));
  if (n && sl_recorder_lost(recorder) > 0) {
    int64_t oldest = INT64_MAX, whole = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
      if (records[i].step > records[0].step && records[i].submit < oldest) oldest = records[i].submit;
      if (records[i].end < whole) whole = records[i].end; /* tasks that ended earlier have no record any more */
    }
    if (oldest == INT64_MAX) oldest = whole; /* not even one whole step is left */
    if (oldest > from && oldest < to) from = oldest;
  }
  const sl_status status = sl_usage_of(records, n, workers, graph, from, to, usage);
  free(records);
  return status;
}
