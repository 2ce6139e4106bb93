/* Hidden and exposed time of exchanges. */
#include "runtime/trace/overlap.h"

#include <stdlib.h>

#include "runtime/trace/idle.h"

typedef enum event_kind { EXCHANGE, GRADIENTS, BACKWARD_TASK, WAITED } event_kind;
typedef struct event {
  int64_t step, from, to;
  event_kind kind;
} event;

static int by_start(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (int)x->kind - (int)y->kind; /* at equal times, the exchange comes before the waits for it */
}

static void put(event *events, size_t *n, event e, int64_t from, int64_t to) {
  if (e.from < from) e.from = from;
  if (e.to > to) e.to = to;
  if (e.from < e.to) events[(*n)++] = e;
}

/* Returns the length of the part of [from, to) beyond *reach, and moves *reach to its end. For intervals sorted by
 * start, these lengths add up to the length of their union. */
static int64_t beyond(int64_t *reach, const event *e) {
  const int64_t from = e->from > *reach ? e->from : *reach;
  if (e->to <= from) return 0;
  *reach = e->to;
  return e->to - from;
}

/* Adds the times of one step. Its events are sorted by start. */
static void add_step(const event *e, size_t n, int workers, sl_overlap *o) {
  int64_t any = INT64_MIN, gradient = INT64_MIN, first = INT64_MAX, last = INT64_MIN;
  int64_t under_way = 0, gradients = 0, waited = 0;
  for (size_t i = 0; i < n; i++) {
    if (e[i].kind == WAITED) waited += e[i].to - e[i].from;
    if (e[i].kind == BACKWARD_TASK && e[i].to > last) last = e[i].to;
    if (e[i].kind == EXCHANGE || e[i].kind == GRADIENTS) under_way += beyond(&any, &e[i]);
    if (e[i].kind != GRADIENTS) continue;
    if (e[i].from < first) first = e[i].from;
    gradients += beyond(&gradient, &e[i]);
  }
  const double exposed = 1e-9 * (double)waited / workers, whole = 1e-9 * (double)gradients;
  const double room = first < last ? 1e-9 * (double)(last - first) : 0, most = whole < room ? whole : room;
  const double was = whole - exposed;
  o->under_way += 1e-9 * (double)under_way;
  o->exposed += exposed;
  o->hideable += most;
  o->achieved += was < 0 ? 0 : was > most ? most : was;
}

sl_status sl_overlap_of(const sl_record *records, size_t n, int workers, const sl_dependencies *graph,
                        const unsigned char *backward, int64_t from, int64_t to, sl_overlap *overlap) {
  *overlap = (sl_overlap){0};
  if (to <= from || workers < 1) return SL_OK;
  sl_idle *idle = NULL;
  size_t n_idle, used = 0;
  sl_status status = SL_OK;
  event *events = NULL;
  SL_TRY(sl_idle_find(records, n, workers, graph, from, to, &idle, &n_idle));
  events = malloc((n + n_idle + 1) * sizeof *events);
  if (!events) SL_TRY_OUT(sl_no_memory("for %zu records and %zu idle intervals", n, n_idle));
  for (size_t i = 0; i < n; i++) {
    const sl_record *r = &records[i];
    const int of_gradients = r->node >= 0 && r->node < graph->n && backward[r->node];
    if (r->kind == SL_RECORD_EXCHANGE)
      put(events, &used, (event){r->step, r->ready, r->end, of_gradients ? GRADIENTS : EXCHANGE}, from, to);
    else if (r->kind == SL_RECORD_TASK && of_gradients)
      put(events, &used, (event){r->step, r->start, r->end, BACKWARD_TASK}, from, to);
  }
  for (size_t i = 0; i < n_idle; i++)
    if (idle[i].cause == SL_IDLE_EXCHANGE)
      put(events, &used, (event){idle[i].step, idle[i].from, idle[i].to, WAITED}, from, to);
  qsort(events, used, sizeof *events, by_start);
  /* Cuts the window into steps: a step begins when the one before has ended, and idle time for its exchange may
   * precede its first task on a worker. */
  for (size_t i = 0, end; i < used; i = end) {
    for (end = i + 1; end < used && (events[end].kind == WAITED || events[end].step == events[i].step);) end++;
    add_step(&events[i], end - i, workers, overlap);
  }
  overlap->hidden = overlap->under_way > overlap->exposed ? overlap->under_way - overlap->exposed : 0;
out:
  free(idle), free(events);
  return status;
}
