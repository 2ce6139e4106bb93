/* HEFT on CPU workers and GPUs. */
#include "tasks/schedule/placing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/graph/folds.h"

void sl__upward_ranks(sl_schedule *s, const sl_graph *g, const sl_machine *m, const double *on) {
  const int cpus = m->kind[SL_KIND_CPU].workers, gpus = m->kind[SL_KIND_GPU].workers;
  /* Probability that two workers of random kinds have different memories: CPUs share one, each GPU has its own. */
  const double apart = cpus > 0 && gpus > 0 ? 0.5 + 0.25 * (1 - 1.0 / gpus) : gpus > 1 ? 1 - 1.0 / gpus : 0;
  /* The part of `apart` between GPUs with links of their own. */
  const double peers = m->peer > 0 && gpus > 1 ? (cpus > 0 ? 0.25 : 1) * (1 - 1.0 / gpus) : 0;
  for (int i = s->n - 1; i >= 0; i--) { /* urgency[i] is the longest path after node i */
    double mean = 0;
    int kinds = 0;
    for (int k = 0; k < SL_KINDS; k++)
      if (isfinite(on[i * SL_KINDS + k])) mean += on[i * SL_KINDS + k], kinds++;
    s->urgency[i] += kinds ? mean / kinds : s->seconds[i];
    for (int k = s->from[i]; k < s->from[i + 1]; k++) {
      const int b = s->before[k];
      const double bytes = apart > 0 ? sl__bytes_between(g, g->node[b], g->node[i]) : 0;
      double path = s->urgency[i] + (bytes > 0 ? (apart - peers) * (m->latency + bytes / m->link) : 0);
      if (bytes > 0 && peers > 0) path += peers * (m->peer_latency + bytes / m->peer);
      if (s->urgency[b] < path) s->urgency[b] = path;
    }
  }
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

typedef struct span {
  double start, end;
} span;

typedef struct worker {
  span *busy; /* sorted */
  int n, room;
  int memory; /* 0: the host's; i: that of GPU i - 1 */
} worker;

typedef struct placing {
  sl_schedule *s;
  const sl_graph *g;
  const sl_machine *m;
  const double *on;
  int workers, cpus, memories;
  sl_run folds; /* of which each GPU computes its share; empty: folds are placed like other tasks */
  worker *worker;
  double *here;     /* [values][memories] time at which the value is in that memory; INFINITY: it is not */
  double *in, *out; /* [2 memories] time at which the links into and out of memory m are free: m: with the host;
                     * memories + m: with the other GPUs */
  double lane;      /* when the exchanges' lane is free */
  double moved;
} placing;

static double *where(const placing *p, sl_value v) { return p->here + (size_t)v * (size_t)p->memories; }

/* End of a copy over one link that cannot begin before `from`. */
static double cross(const placing *p, double *free_at, double from, double bytes) {
  const double begin = fmax(*free_at, from);
  return *free_at = begin + p->m->latency + bytes / p->m->link;
}

/* End of a copy from GPU to GPU, over the links of both to their peers. */
static double cross_peers(const placing *p, double *out, double *in, double from, double bytes) {
  const double begin = fmax(fmax(*out, *in), from);
  return *out = *in = begin + p->m->peer_latency + bytes / p->m->peer;
}

/* Earliest time at which v can be in that memory. Updates the times of the links, `in` and `out`, and adds the bytes
 * copied to *bytes. */
static double arrival(const placing *p, sl_value v, int memory, double *in, double *out, double *bytes) {
  const double *at = where(p, v), size = (double)sl_value_bytes(p->g->value[v]);
  int from = 0;
  if (isfinite(at[memory])) return at[memory];
  for (int k = 1; k < p->memories; k++)
    if (at[k] < at[from]) from = k;
  if (!isfinite(at[from])) return 0; /* not written yet */
  double when = at[from];
  if (from > 0 && memory > 0 && p->m->peer > 0) {
    *bytes += size;
    return cross_peers(p, &out[p->memories + from], &in[p->memories + memory], when, size);
  }
  if (from > 0) when = cross(p, &out[from], when, size), *bytes += size;
  if (memory > 0) when = cross(p, &in[memory], when, size), *bytes += size;
  return when;
}

/* The earliest start on a worker, not before `from`, of a task that takes `seconds`. */
static double gap(const worker *w, double from, double seconds) {
  int low = 0, high = w->n;
  while (low < high) { /* the first span that ends after from */
    const int middle = (low + high) / 2;
    if (w->busy[middle].end <= from)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < w->n; low++) {
    if (from + seconds <= w->busy[low].start) return from;
    if (w->busy[low].end > from) from = w->busy[low].end;
  }
  return from;
}

static int occupy(worker *w, double start, double end) {
  if (w->n == w->room) {
    const int room = w->room ? 2 * w->room : 64;
    span *busy = realloc(w->busy, (size_t)room * sizeof *busy);
    if (!busy) return 0;
    w->busy = busy, w->room = room;
  }
  int at = w->n++;
  for (; at > 0 && w->busy[at - 1].start > start; at--) w->busy[at] = w->busy[at - 1];
  w->busy[at] = (span){start, end};
  return 1;
}

static int among(sl_value v, const sl_value *list, int n) {
  for (int k = 0; k < n; k++)
    if (list[k] == v) return 1;
  return 0;
}

/* Earliest time at which all inputs of node i are in a memory. Updates the links' times. */
static double inputs_at(const placing *p, int i, int memory, double *in, double *out, double *bytes) {
  const sl_node *node = p->g->node[i];
  double ready = 0;
  for (int k = p->s->from[i]; k < p->s->from[i + 1]; k++) {
    const int b = p->s->before[k];
    ready = fmax(ready, p->s->start[b] + p->s->seconds[b]);
  }
  for (int k = 0; k < node->n_in; k++)
    if (!among(node->in[k], node->in, k)) ready = fmax(ready, arrival(p, node->in[k], memory, in, out, bytes));
  for (int k = 0; k < node->n_out; k++)
    if (sl_node_reads_output(node, k) && !among(node->out[k], node->in, node->n_in))
      ready = fmax(ready, arrival(p, node->out[k], memory, in, out, bytes));
  return ready;
}

/* Marks the inputs of node i as copied to the memory, and its outputs as being only there. */
static void settle(placing *p, int i, int memory, double ready, double end) {
  const sl_node *node = p->g->node[i];
  for (int k = 0; k < node->n_in; k++) where(p, node->in[k])[memory] = fmin(where(p, node->in[k])[memory], ready);
  for (int k = 0; k < node->n_out; k++)
    for (int j = 0; j < p->memories; j++) where(p, node->out[k])[j] = j == memory ? end : INFINITY;
}

/* The weight of a task's copies when the task is placed, beside the time that they take. A task's copies hold up the
 * copies of other tasks. If only the task's end counted, each of several GPUs would take over chains of tasks from the
 * others for a small gain. docs/performance.md has steps with weights 0 to 4. */
static const double COPIES_COUNT = 3;

/* The worker that computes a node's folds; -1: any. */
static int home(const placing *p, const sl_node *node) {
  const int gpus = p->workers - p->cpus, folds = p->folds.to - p->folds.from;
  int gpu = 0;
  if (node->fold.from < p->folds.from || node->fold.to > p->folds.to || node->fold.from == node->fold.to) return -1;
  while (p->folds.from + sl_first_fold(folds, gpus, gpu + 1) <= node->fold.from) gpu++;
  return node->fold.to <= p->folds.from + sl_first_fold(folds, gpus, gpu + 1) ? p->cpus + gpu : -1;
}

/* Places node i where it ends first, copies counted. */
static int place_one(placing *p, int i, double *in, double *out) {
  sl_schedule *s = p->s;
  const size_t links = 2 * (size_t)p->memories * sizeof(double);
  double best_end = INFINITY, best_score = INFINITY, best_start = 0, best_ready = 0, bytes = 0;
  int best = -1, tried = -1;
  if (p->g->node[i]->bucket) {
    const double ready = inputs_at(p, i, 0, p->in, p->out, &p->moved);
    s->start[i] = fmax(ready, p->lane);
    p->lane = s->start[i] + s->seconds[i];
    s->worker[i] = -1;
    settle(p, i, 0, ready, p->lane);
    return 1;
  }
  double ready = 0;
  const int only = home(p, p->g->node[i]);
  for (int w = 0; w < p->workers; w++) {
    if (only >= 0 && w != only) continue;
    const double seconds = p->on[i * SL_KINDS + (w < p->cpus ? SL_KIND_CPU : SL_KIND_GPU)];
    if (p->worker[w].memory != tried) {
      tried = p->worker[w].memory;
      bytes = 0;
      memcpy(in, p->in, links), memcpy(out, p->out, links);
      ready = inputs_at(p, i, tried, in, out, &bytes);
    }
    const double start = gap(&p->worker[w], ready, seconds);
    const double link = tried > 0 && p->m->peer > 0 ? p->m->peer : p->m->link;
    const double score = start + seconds + COPIES_COUNT * bytes / link;
    if (score < best_score)
      best_score = score, best_end = start + seconds, best_start = start, best_ready = ready, best = w;
  }
  (void)inputs_at(p, i, p->worker[best].memory, p->in, p->out, &p->moved);
  s->start[i] = best_start;
  s->seconds[i] = best_end - best_start;
  s->worker[i] = best;
  settle(p, i, p->worker[best].memory, best_ready, best_end);
  return occupy(&p->worker[best], best_start, best_end);
}

typedef struct by_start {
  const double *start;
  int node;
} by_start;

static int earlier(const void *a, const void *b) {
  const by_start *x = a, *y = b;
  if (x->start[x->node] != y->start[y->node]) return x->start[x->node] < y->start[y->node] ? -1 : 1;
  return x->node - y->node;
}

/* One pass: all tasks by urgency. */
static sl_status pass(placing *p, int *waits, const int *first, const int *after, sl_heap *ready) {
  sl_schedule *s = p->s;
  double *in = calloc(4 * (size_t)p->memories, sizeof *in);
  int done = 0, next_bucket = 1;
  int *held =
      calloc((size_t)s->n + 2,
             sizeof *held); /* [exchange] its node, once ready; exchanges are placed in the order of their numbers */
  sl_status status = in && held ? SL_OK : sl_no_memory("to schedule %d tasks", s->n);
  SL_TRY_OUT(status);
  for (int w = 0; w < p->workers; w++) p->worker[w].n = 0;
  for (int k = 0; k < 2 * p->memories; k++) p->in[k] = p->out[k] = 0;
  p->lane = p->moved = 0;
  ready->n = 0;
  for (int i = 0; i < s->n; i++) {
    waits[i] = s->from[i + 1] - s->from[i];
    if (waits[i] > 0) continue;
    if (p->g->node[i]->bucket)
      held[p->g->node[i]->bucket] = i + 1;
    else
      sl__heap_push(ready, i);
  }
  while (done < s->n) {
    int i;
    if (next_bucket <= s->n && held[next_bucket])
      i = held[next_bucket++] - 1;
    else if (ready->n)
      i = sl__heap_pop(ready);
    else
      break; /* a cycle; cannot happen, since dependencies follow the order of nodes */
    if (!place_one(p, i, in, in + 2 * p->memories)) SL_TRY_OUT(sl_no_memory("to schedule %d tasks", s->n));
    done++;
    for (int k = first[i]; k < first[i + 1]; k++) {
      if (--waits[after[k]] > 0) continue;
      if (p->g->node[after[k]]->bucket)
        held[p->g->node[after[k]]->bucket] = after[k] + 1;
      else
        sl__heap_push(ready, after[k]);
    }
  }
  if (done < s->n) status = sl_fail(SL_EINVAL, "the step graph has a cycle");
out:
  free(in), free(held);
  return status;
}

/* Two passes, from parameters in the host's memory: the first finds where parameters are updated; the second starts
 * from there, like every later step. */
static sl_status two_passes(placing *p, int *waits, const int *first, const int *after, sl_heap *ready) {
  const size_t values = (size_t)p->g->n_values + 1, memories = (size_t)p->memories;
  for (size_t k = 0; k < values * memories; k++) p->here[k] = INFINITY;
  for (sl_value v = 0; v < p->g->n_values; v++)
    if (p->g->value[v]->role != SL_ROLE_TEMPORARY) where(p, v)[0] = 0;
  for (int turn = 0; turn < 2; turn++) {
    SL_TRY(pass(p, waits, first, after, ready));
    for (size_t k = 0; turn == 0 && k < values * memories; k++) {
      const sl_value v = (sl_value)(k / memories);
      const int stays = v < p->g->n_values && p->g->value[v]->role != SL_ROLE_TEMPORARY && isfinite(p->here[k]);
      p->here[k] = stays ? 0 : INFINITY;
    }
  }
  p->s->makespan = 0;
  for (int i = 0; i < p->s->n; i++) p->s->makespan = fmax(p->s->makespan, p->s->start[i] + p->s->seconds[i]);
  p->s->moved = p->moved;
  return SL_OK;
}

/* A schedule's choices. */
typedef struct choice {
  double *start, *seconds, makespan, moved;
  int *worker;
} choice;

static sl_status save(const sl_schedule *s, choice *c) {
  const size_t n = (size_t)s->n + 1;
  c->start = malloc(n * sizeof *c->start);
  c->seconds = malloc(n * sizeof *c->seconds);
  c->worker = malloc(n * sizeof *c->worker);
  if (!c->start || !c->seconds || !c->worker) return sl_no_memory("to schedule %d tasks", s->n);
  memcpy(c->start, s->start, (size_t)s->n * sizeof *c->start);
  memcpy(c->seconds, s->seconds, (size_t)s->n * sizeof *c->seconds);
  memcpy(c->worker, s->worker, (size_t)s->n * sizeof *c->worker);
  c->makespan = s->makespan, c->moved = s->moved;
  return SL_OK;
}

static void restore(sl_schedule *s, const choice *c) {
  memcpy(s->start, c->start, (size_t)s->n * sizeof *c->start);
  memcpy(s->seconds, c->seconds, (size_t)s->n * sizeof *c->seconds);
  memcpy(s->worker, c->worker, (size_t)s->n * sizeof *c->worker);
  s->makespan = c->makespan, s->moved = c->moved;
}

/* The folds that single tasks of this rank compute; empty: none are divided. */
static sl_run folds_of(const sl_graph *g) {
  sl_run all = {0, 0};
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_run fold = g->node[i]->fold;
    if (fold.to != fold.from + 1) continue;
    if (all.to == 0) all = fold;
    if (fold.from < all.from) all.from = fold.from;
    if (fold.to > all.to) all.to = fold.to;
  }
  return all;
}

/* A schedule in which each GPU computes its folds is taken even if the other one is faster by up to this factor: a GPU
 * then has the weights of its folds alone, and no copies of others' that might not fit. */
static const double FOLDS_COUNT = 1.1;

sl_status sl__place(sl_schedule *s, const sl_graph *g, const sl_machine *m, const double *on) {
  const size_t n = (size_t)s->n, values = (size_t)g->n_values + 1;
  const int gpus = m->kind[SL_KIND_GPU].workers;
  const sl_run folds = folds_of(g);
  placing p = {.s = s, .g = g, .m = m, .on = on, .cpus = m->kind[SL_KIND_CPU].workers};
  choice free_one = {0};
  p.workers = p.cpus + gpus;
  p.memories = 1 + gpus;
  p.worker = calloc((size_t)p.workers + 1, sizeof *p.worker);
  p.here = malloc(values * (size_t)p.memories * sizeof *p.here);
  p.in = calloc(4 * (size_t)p.memories, sizeof *p.in);
  int *waits = malloc((n + 1) * sizeof *waits), *first = NULL, *after = NULL;
  by_start *sorted = malloc((n + 1) * sizeof *sorted);
  sl_heap ready = {.at = malloc((n + 1) * sizeof(int)), .key = s->urgency};
  sl_status status = SL_OK;
  if (!p.worker || !p.here || !p.in || !waits || !sorted || !ready.at)
    SL_TRY_OUT(sl_no_memory("to schedule %d tasks", s->n));
  p.out = p.in + 2 * p.memories;
  SL_TRY_OUT(sl__successors(s, &first, &after));
  for (int w = 0; w < p.workers; w++) p.worker[w].memory = w < p.cpus ? 0 : 1 + w - p.cpus;
  SL_TRY_OUT(two_passes(&p, waits, first, after, &ready));
  if (gpus > 1 && folds.to - folds.from >= gpus) {
    SL_TRY_OUT(save(s, &free_one));
    p.folds = folds;
    SL_TRY_OUT(two_passes(&p, waits, first, after, &ready));
    if (s->makespan > FOLDS_COUNT * free_one.makespan) restore(s, &free_one);
  }
  for (int i = 0; i < s->n; i++) sorted[i] = (by_start){s->start, i};
  qsort(sorted, n, sizeof *sorted, earlier);
  for (int i = 0; i < s->n; i++) s->order[i] = sorted[i].node;
out:
  for (int w = 0; p.worker && w < p.workers; w++) free(p.worker[w].busy);
  free(p.worker), free(p.here), free(p.in), free(waits), free(first), free(after), free(sorted), free(ready.at);
  free(free_one.start), free(free_one.seconds), free(free_one.worker);
  return status;
}
