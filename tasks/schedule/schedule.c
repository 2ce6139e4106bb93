/* Dependencies, predicted times, priorities and the predicted schedule. */
#include "tasks/schedule/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/schedule/placing.h"

/* --- dependencies ------------------------------------------------------------------------------------------------ */

typedef struct pairs {
  int *at;
  int n, capacity;
} pairs;

static int push(pairs *list, int before, int after) {
  if (list->n == list->capacity) {
    int wanted = list->capacity ? 2 * list->capacity : 1024;
    int *at = realloc(list->at, (size_t)wanted * 2 * sizeof *at);
    if (!at) return 0;
    list->at = at;
    list->capacity = wanted;
  }
  list->at[2 * list->n] = before;
  list->at[2 * list->n++ + 1] = after;
  return 1;
}

static int by_after(const void *a, const void *b) {
  const int *x = a, *y = b;
  if (x[1] != y[1]) return x[1] < y[1] ? -1 : 1;
  return x[0] < y[0] ? -1 : x[0] > y[0];
}

/* Turns sorted pairs into from/before, without duplicates. */
static sl_status compress(sl_schedule *s, int *pair, int n) {
  if (n > 1) qsort(pair, (size_t)n, 2 * sizeof *pair, by_after);
  int *before = malloc(((size_t)n + 1) * sizeof *before), count = 0, i = 0;
  if (!before) return sl_no_memory("for %d dependencies", n);
  for (int node = 0; node < s->n; node++) {
    s->from[node] = count;
    for (; i < n && pair[2 * i + 1] == node; i++)
      if (count == s->from[node] || before[count - 1] != pair[2 * i]) before[count++] = pair[2 * i];
  }
  s->from[s->n] = count;
  free(s->before);
  s->before = before;
  return SL_OK;
}

sl_status sl_schedule_add(sl_schedule *s, const int *more, int n) {
  int old = s->from[s->n];
  int *pair = malloc(((size_t)old + (size_t)n + 1) * 2 * sizeof *pair);
  if (!pair) return sl_no_memory("for %d dependencies", old + n);
  for (int node = 0; node < s->n; node++)
    for (int k = s->from[node]; k < s->from[node + 1]; k++) {
      pair[2 * k] = s->before[k];
      pair[2 * k + 1] = node;
    }
  if (n > 0) memcpy(pair + 2 * old, more, (size_t)n * 2 * sizeof *pair);
  sl_status status = compress(s, pair, old + n);
  free(pair);
  return status;
}

/* Dependencies read after write, write after read and write after write, in the order of nodes. Readers since the
 * last write are kept as lists: reader[] chains (node, next). */
static sl_status find_dependencies(sl_schedule *s, const sl_graph *g) {
  pairs list = {0};
  int *writer = malloc((size_t)(g->n_values + 1) * sizeof(int)),
      *head = malloc((size_t)(g->n_values + 1) * sizeof(int));
  pairs readers = {0}; /* (node, next) */
  sl_status status = SL_OK;
  if (!writer || !head) {
    status = sl_no_memory("for the dependencies of %d values", g->n_values);
    goto out;
  }
  for (int v = 0; v < g->n_values; v++) writer[v] = head[v] = -1;
  int fine = 1;
  for (int i = 0; i < g->n_nodes && fine; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in; k++)
      if (writer[node->in[k]] >= 0) fine &= push(&list, writer[node->in[k]], i);
    if (node->after != SL_NONE && writer[node->after] >= 0) fine &= push(&list, writer[node->after], i);
    for (int k = 0; k < node->n_out; k++) {
      int v = node->out[k];
      if (writer[v] >= 0) fine &= push(&list, writer[v], i);
      for (int r = head[v]; r >= 0 && fine; r = readers.at[2 * r + 1]) fine &= push(&list, readers.at[2 * r], i);
    }
    for (int k = 0; k < node->n_in && fine; k++) {
      fine &= push(&readers, i, head[node->in[k]]);
      head[node->in[k]] = readers.n - 1;
    }
    for (int k = 0; k < node->n_out; k++) {
      writer[node->out[k]] = i;
      head[node->out[k]] = -1;
    }
  }
  status = fine ? compress(s, list.at, list.n) : sl_no_memory("for the dependencies of a step");
out:
  free(list.at), free(readers.at), free(writer), free(head);
  return status;
}

/* --- computing in place ------------------------------------------------------------------------------------------- */

/* Lets output j of a node take over its input's buffer if the descriptor allows it and no later node touches that
 * input. Earlier readers of the input must end first, so each becomes a dependency. */
static sl_status find_in_place(sl_schedule *s, const sl_graph *g, const char *keep) {
  size_t n = (size_t)g->n_values + 1;
  int *first = malloc(n * sizeof *first), *last = malloc(n * sizeof *last);
  pairs list = {0};
  sl_status status = SL_OK;
  int fine = first && last;
  for (int v = 0; v < g->n_values && fine; v++) first[v] = last[v] = s->onto[v] = -1;
  for (int i = 0; i < g->n_nodes && fine; i++)
    for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_out; k++) {
      int v = k < g->node[i]->n_in ? g->node[i]->in[k] : g->node[i]->out[k - g->node[i]->n_in];
      if (first[v] < 0) first[v] = i;
      last[v] = i;
    }
  for (int i = 0; i < g->n_nodes && fine; i++) {
    const sl_node *node = g->node[i];
    for (int j = 0; j < node->n_out && !node->bucket; j++) {
      int k = node->op->inplace[j] - 1;
      if (k < 0 || node->in_part || (node->accumulate >> j & 1)) continue;
      int from = node->in[k], to = node->out[j], uses = 0;
      const sl_value_info *a = g->value[from], *b = g->value[to];
      for (int q = 0; q < node->n_in; q++) uses += node->in[q] == from;
      if (a->role != SL_ROLE_TEMPORARY || b->role != SL_ROLE_TEMPORARY || from == to || uses != 1) continue;
      if (last[from] != i || first[to] != i || sl_value_bytes(a) != sl_value_bytes(b)) continue;
      if (keep && (keep[from] || keep[to])) continue;
      s->onto[to] = from;
      for (int r = first[from]; r < i && fine; r++)
        for (int q = 0; q < g->node[r]->n_in; q++)
          if (g->node[r]->in[q] == from) fine = fine && push(&list, r, i);
    }
  }
  status = fine ? sl_schedule_add(s, list.at, list.n) : sl_no_memory("to compute in place");
  free(first), free(last), free(list.at);
  return status;
}

/* --- micro-batches ------------------------------------------------------------------------------------------------ */

/* Whether the node adds partial sums of two leaves; it may run during the next micro-batch. */
static int adds_leaves(const sl_node *node) { return node->leaf >= 0 && node->shard < 0 && node->accumulate; }

/* Makes the first tasks of a turn wait for the last tasks of the turn before, except sums over leaves and messages. */
static sl_status take_turns(sl_schedule *s, const sl_graph *g) {
  if (g->turns <= 1) return SL_OK;
  /* Whether a task follows another task of its turn, and whether it leads to one. */
  char *follows = calloc((size_t)s->n + 1, 1), *leads = calloc((size_t)s->n + 1, 1);
  pairs list = {0};
  int fine = follows && leads;
  for (int i = 0; i < s->n && fine; i++)
    for (int k = s->from[i]; k < s->from[i + 1]; k++)
      if (g->node[s->before[k]]->turn == g->node[i]->turn && !g->node[i]->message && !g->node[s->before[k]]->message) {
        follows[i] = 1;
        if (!adds_leaves(g->node[i])) leads[s->before[k]] = 1;
      }
  for (int i = 0, first = 0; i < s->n && fine; i++) {
    const int turn = g->node[i]->turn;
    if (follows[i] || turn == 0 || g->node[i]->message) continue;
    while (g->node[first]->turn < turn - 1) first++;
    for (int k = first; g->node[k]->turn < turn && fine; k++)
      if (!leads[k] && !adds_leaves(g->node[k]) && !g->node[k]->message) fine = push(&list, k, i);
  }
  const sl_status status = fine ? sl_schedule_add(s, list.at, list.n) : sl_no_memory("to order %d turns", g->turns);
  free(follows), free(leads), free(list.at);
  return status;
}

/* --- predicted times ---------------------------------------------------------------------------------------------- */

/* Exchanges occupy no worker; they run one after another in the order of their numbers. */
typedef struct lane {
  int *node; /* [buckets + 1] exchange node, by its number */
  char *ready;
  int n, next; /* number of buckets; the next one to begin or, if busy, to end */
  int busy;    /* bucket `next` has begun */
} lane;

static sl_status find_lane(const sl_schedule *s, const sl_graph *g, lane *l) {
  l->node = malloc(((size_t)s->n + 2) * sizeof *l->node);
  l->ready = calloc((size_t)s->n + 2, 1);
  if (!l->node || !l->ready) return sl_no_memory("to schedule %d tasks", s->n);
  l->next = 1;
  for (int i = 0; i < s->n; i++)
    if (g->node[i]->bucket) l->node[g->node[i]->bucket] = i, l->n++;
  return SL_OK;
}

/* Greedy list scheduling on `workers` equal workers, by urgency. */
static sl_status simulate(sl_schedule *s, const sl_graph *g, int workers) {
  int n = s->n, done = 0;
  int *waits = malloc(((size_t)n + 1) * sizeof *waits), *first = NULL, *after = NULL,
      *running = malloc((size_t)workers * sizeof *running);
  sl_heap ready = {.at = malloc(((size_t)n + 1) * sizeof(int)), .key = s->urgency};
  lane lane = {0};
  sl_status status = SL_OK;
  if (!waits || !running || !ready.at) {
    status = sl_no_memory("to schedule %d tasks", n);
    goto out;
  }
  SL_TRY_OUT(find_lane(s, g, &lane));
  SL_TRY_OUT(sl__successors(s, &first, &after));
  for (int i = 0; i < n; i++) {
    waits[i] = s->from[i + 1] - s->from[i];
    if (waits[i] > 0) continue;
    if (g->node[i]->bucket)
      lane.ready[g->node[i]->bucket] = 1;
    else
      sl__heap_push(&ready, i);
  }
  for (int w = 0; w < workers; w++) running[w] = -1;
  double now = 0;
  while (done < n) {
    for (int w = 0; w < workers && ready.n; w++)
      if (running[w] < 0) {
        running[w] = sl__heap_pop(&ready);
        s->start[running[w]] = now;
        s->worker[running[w]] = w;
        s->order[done++] = running[w];
      }
    if (!lane.busy && lane.next <= lane.n && lane.ready[lane.next]) {
      lane.busy = 1;
      s->start[lane.node[lane.next]] = now;
      s->worker[lane.node[lane.next]] = -1;
      s->order[done++] = lane.node[lane.next];
    }
    int next = -1, node = lane.busy ? lane.node[lane.next] : -1;
    for (int w = 0; w < workers; w++)
      if (running[w] >= 0 &&
          (node < 0 || s->start[running[w]] + s->seconds[running[w]] < s->start[node] + s->seconds[node])) {
        next = w;
        node = running[w];
      }
    if (node < 0) break; /* a cycle; cannot happen, since dependencies follow the order of nodes */
    now = s->start[node] + s->seconds[node];
    if (next < 0)
      lane.busy = 0, lane.next++;
    else
      running[next] = -1;
    for (int k = first[node]; k < first[node + 1]; k++) {
      if (--waits[after[k]] > 0) continue;
      if (g->node[after[k]]->bucket)
        lane.ready[g->node[after[k]]->bucket] = 1;
      else
        sl__heap_push(&ready, after[k]);
    }
  }
  for (int i = 0; i < n; i++)
    if (s->start[i] + s->seconds[i] > s->makespan) s->makespan = s->start[i] + s->seconds[i];
  if (done < n) status = sl_fail(SL_EINVAL, "the step graph has a cycle");
out:
  free(waits), free(first), free(after), free(running), free(ready.at), free(lane.node), free(lane.ready);
  return status;
}

static int two_kinds(const sl_machine *m) { return m->kind[SL_KIND_GPU].workers > 0; }

static sl_status predict(sl_schedule *s, const sl_graph *g, const sl_machine *m, const double *on) {
  if (two_kinds(m)) return sl__place(s, g, m, on);
  return simulate(s, g, m->kind[SL_KIND_CPU].workers > 0 ? m->kind[SL_KIND_CPU].workers : 1);
}

/* Whether a task only adds to sums, like a weight gradient: it frees its inputs, and no task needs it soon. */
static int only_sums(const sl_graph *g, const sl_node *node) {
  if (node->phase != SL_PHASE_BACKWARD || node->shard < 0) return 0;
  for (int j = 0; j < node->n_out; j++)
    if (g->value[node->out[j]]->scope == SL_SCOPE_SAMPLE) return 0;
  return 1;
}

/* Makes sums of the backward pass as urgent as the other tasks that read the same gradient, unless that makes the
 * predicted step more than 1% longer. By the longest path alone, they would run last and all their inputs
 * would be kept until then. */
static sl_status prefer_sums(sl_schedule *s, const sl_graph *g, const sl_machine *m, const double *on) {
  enum { PERCENT = 1 };
  const size_t n = (size_t)s->n * sizeof(double);
  double *most = calloc((size_t)g->n_values + 1, sizeof *most), *urgency = malloc(n + 1), *start = malloc(n + 1);
  int *order = malloc((size_t)s->n * sizeof *order + 1), *worker = malloc((size_t)s->n * sizeof *worker + 1);
  const double makespan = s->makespan;
  sl_status status = SL_OK;
  if (!most || !urgency || !start || !order || !worker) {
    status = sl_no_memory("to schedule %d tasks", s->n);
    goto out;
  }
  memcpy(urgency, s->urgency, n), memcpy(start, s->start, n), memcpy(order, s->order, (size_t)s->n * sizeof *order);
  memcpy(worker, s->worker, (size_t)s->n * sizeof *worker);
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < g->node[i]->n_in; k++)
      if (most[g->node[i]->in[k]] < urgency[i]) most[g->node[i]->in[k]] = urgency[i];
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < g->node[i]->n_in && only_sums(g, g->node[i]); k++) {
      const int v = g->node[i]->in[k], producer = g->value[v]->producer;
      if (producer >= 0 && g->node[producer]->phase == SL_PHASE_BACKWARD && most[v] > s->urgency[i])
        s->urgency[i] = most[v];
    }
  s->makespan = 0;
  SL_TRY_OUT(predict(s, g, m, on));
  if (s->makespan <= makespan * (1 + PERCENT / 100.0)) goto out;
  memcpy(s->urgency, urgency, n), memcpy(s->start, start, n), memcpy(s->order, order, (size_t)s->n * sizeof *order);
  memcpy(s->worker, worker, (size_t)s->n * sizeof *worker);
  s->makespan = makespan;
  if (two_kinds(m)) SL_TRY_OUT(predict(s, g, m, on)); /* also resets times and bytes */
out:
  free(most), free(urgency), free(start), free(order), free(worker);
  return status;
}

/* Seconds of the longest path, by s->seconds. Uses urgency as scratch: all 0 before and after. */
static double longest_path(sl_schedule *s) {
  double most = 0;
  for (int i = s->n - 1; i >= 0; i--) {
    s->urgency[i] += s->seconds[i];
    most = fmax(most, s->urgency[i]);
    for (int k = s->from[i]; k < s->from[i + 1]; k++)
      if (s->urgency[s->before[k]] < s->urgency[i]) s->urgency[s->before[k]] = s->urgency[i];
  }
  for (int i = 0; i < s->n; i++) s->urgency[i] = 0;
  return most;
}

sl_status sl_schedule_create(const sl_graph *g, const char *keep, const sl_tiles *tiles, const sl_machine *machine,
                             sl_schedule **schedule) {
  *schedule = NULL;
  size_t n = (size_t)g->n_nodes;
  sl_schedule *s = calloc(1, sizeof *s);
  if (!s) return sl_no_memory("for a schedule");
  s->n = g->n_nodes;
  s->cpus = machine->kind[SL_KIND_CPU].workers, s->gpus = machine->kind[SL_KIND_GPU].workers;
  s->from = calloc(n + 1, sizeof *s->from);
  s->onto = calloc((size_t)g->n_values + 1, sizeof *s->onto);
  s->cost = calloc(n + 1, sizeof *s->cost);
  s->seconds = calloc(n + 1, sizeof *s->seconds);
  s->urgency = calloc(n + 1, sizeof *s->urgency);
  s->start = calloc(n + 1, sizeof *s->start);
  s->order = calloc(n + 1, sizeof *s->order);
  s->worker = calloc(n + 1, sizeof *s->worker);
  double *on = calloc((n + 1) * SL_KINDS, sizeof *on); /* seconds of each task on each kind of worker */
  sl_status status = SL_OK;
  if (!s->from || !s->onto || !s->cost || !s->seconds || !s->urgency || !s->start || !s->order || !s->worker || !on) {
    status = sl_no_memory("for a schedule of %d tasks", g->n_nodes);
    goto out;
  }
  SL_TRY_OUT(find_dependencies(s, g));
  SL_TRY_OUT(find_in_place(s, g, keep));
  SL_TRY_OUT(take_turns(s, g));
  for (int i = 0; i < s->n; i++) {
    s->cost[i] = sl_node_cost(g, g->node[i], tiles);
    s->seconds[i] = INFINITY;
    for (int k = 0; k < SL_KINDS; k++) {
      on[i * SL_KINDS + k] = sl_machine_seconds(machine, g, g->node[i], &s->cost[i], k);
      if (on[i * SL_KINDS + k] < s->seconds[i]) s->seconds[i] = on[i * SL_KINDS + k];
    }
  }
  s->critical_path = longest_path(s);
  sl__upward_ranks(s, g, machine, on);
  for (int i = 0; i < s->n; i++) s->turn = fmax(s->turn, s->urgency[i]);
  for (int i = 0; i < s->n; i++) s->urgency[i] += (g->turns - 1 - g->node[i]->turn) * s->turn;
  SL_TRY_OUT(predict(s, g, machine, on));
  SL_TRY_OUT(prefer_sums(s, g, machine, on));
  *schedule = s;
  s = NULL;
out:
  free(on);
  sl_schedule_destroy(s);
  return status;
}

void sl_schedule_destroy(sl_schedule *s) {
  if (!s) return;
  free(s->from), free(s->before), free(s->onto), free(s->cost), free(s->seconds), free(s->urgency), free(s->start),
      free(s->order), free(s->worker);
  free(s);
}
