/* Finds the last writer of each value that a node reads, and pairs of writers and readers. */
#include "tasks/bounds/flows.h"

#include <stdlib.h>

typedef struct list {
  sl_timeline_flow *at;
  int n, room;
} list;

static int add(list *l, const sl_graph *g, int from, int to, sl_value v) {
  if (l->n == l->room) {
    const int room = l->room ? 2 * l->room : 256;
    sl_timeline_flow *more = realloc(l->at, (size_t)room * sizeof *more);
    if (!more) return 0;
    l->at = more, l->room = room;
  }
  l->at[l->n++] = (sl_timeline_flow){from, to, v, (int64_t)sl_value_bytes(g->value[v])};
  return 1;
}

/* Adds the flow of value v to its reader i, once even if several arguments are v. Parameters not yet written in this
 * step are skipped: they lie where the step before left them. */
static int read_by(list *l, const sl_graph *g, const int *writer, int i, sl_value v) {
  for (int k = l->n - 1; k >= 0 && l->at[k].to == i; k--)
    if (l->at[k].value == v) return 1;
  return writer[v] < 0 || add(l, g, writer[v], i, v);
}

sl_status sl_flows_find(const sl_graph *g, const char *result, sl_timeline_flow **flow, int *n) {
  int *writer = malloc(((size_t)g->n_values + 1) * sizeof *writer), fine = writer != NULL;
  list l = {.at = malloc(sizeof *l.at), .room = 1};
  fine = fine && l.at;
  for (int v = 0; v < g->n_values && fine; v++) writer[v] = -1;
  for (int i = 0; i < g->n_nodes && fine; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in && fine; k++) fine = read_by(&l, g, writer, i, node->in[k]);
    for (int k = 0; k < node->n_out && fine; k++)
      if (!node->bucket && sl_node_reads_output(node, k)) fine = read_by(&l, g, writer, i, node->out[k]);
    for (int k = 0; k < node->n_out && fine; k++) {
      if (node->op->batch_slot) fine = add(&l, g, -1, i, node->out[k]);
      writer[node->out[k]] = i;
    }
  }
  for (int v = 0; v < g->n_values && fine; v++)
    if (result && result[v] && writer[v] >= 0) fine = add(&l, g, writer[v], -1, v);
  free(writer);
  if (!fine) {
    free(l.at);
    return sl_no_memory("for what flows between %d tasks", g->n_nodes);
  }
  *flow = l.at, *n = l.n;
  return SL_OK;
}

/* ---- crossings --------------------------------------------------------------------------------------------------- */

/* A flow with its place among the flows of its reader, and the class of its value. */
typedef struct pair {
  sl_timeline_flow flow;
  int reader, writer, place, class;
} pair;

static int order_of(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int by_class(const void *a, const void *b) {
  const pair *x = a, *y = b;
  const int writers = order_of(x->writer, y->writer);
  return writers ? writers : order_of(x->flow.bytes, y->flow.bytes);
}

static int by_row(const void *a, const void *b) {
  const pair *x = a, *y = b;
  const int keys[] = {order_of(x->reader, y->reader), order_of(x->place, y->place),
                      order_of(x->flow.from, y->flow.from), order_of(x->flow.value, y->flow.value),
                      order_of(x->flow.to, y->flow.to)};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    if (keys[k]) return keys[k];
  return 0;
}

static int among(int class, const int *list, int n) {
  for (int k = 0; k < n; k++)
    if (list[k] == class) return 1;
  return 0;
}

sl_status sl__crossings_find(const sl_timeline_flow *flow, int n, const int *kind, sl_crossings *c) {
  const size_t room = (size_t)n + 1;
  *c = (sl_crossings){.class_of = malloc(room * sizeof *c->class_of),
                      .row = malloc(room * sizeof *c->row),
                      .of = malloc(room * sizeof *c->of)};
  pair *p = malloc(room * sizeof *p);
  if (!c->class_of || !c->row || !c->of || !p) {
    free(p);
    return sl_no_memory("for %d flows", n);
  }
  for (int i = 0; i < n; i++) /* flows are sorted by reader; results have one reader, the host */
    p[i] = (pair){.flow = flow[i],
                  .reader = flow[i].to < 0 ? -1 : kind[flow[i].to],
                  .writer = flow[i].from < 0 ? -1 : kind[flow[i].from],
                  .place = i > 0 && flow[i].to >= 0 && flow[i].to == flow[i - 1].to ? p[i - 1].place + 1 : 0};
  qsort(p, (size_t)n, sizeof *p, by_class);
  for (int i = 0; i < n; i++) {
    if (i == 0 || by_class(&p[i - 1], &p[i]))
      c->class_of[c->n_classes++] = (sl_crossing_class){p[i].writer, (double)p[i].flow.bytes};
    p[i].class = c->n_classes - 1;
  }
  qsort(p, (size_t)n, sizeof *p, by_row);
  int classes = 0;
  for (int i = 0; i < n; i++) {
    const pair *last = i > 0 && p[i].reader == p[i - 1].reader && p[i].place == p[i - 1].place ? &p[i - 1] : NULL;
    if (!last) c->row[c->n_rows++] = (sl_crossing_row){.reader = p[i].reader, .first = classes};
    sl_crossing_row *r = &c->row[c->n_rows - 1];
    if (last && last->flow.from == p[i].flow.from && (last->flow.from >= 0 || last->flow.value == p[i].flow.value))
      continue; /* the writer is already in a pair */
    r->pairs++;
    r->written += p[i].flow.from >= 0;
    if (!among(p[i].class, c->of + r->first, r->n)) c->of[classes++] = p[i].class, r->n++;
  }
  free(p);
  return SL_OK;
}

void sl__crossings_free(sl_crossings *c) { free(c->class_of), free(c->row), free(c->of); }
