/* A heap of nodes, the nodes that wait for each node, and the bytes that one node reads from another. */
#include "tasks/schedule/prediction.h"

#include <stdlib.h>

static int above(const sl_heap *h, int a, int b) { return h->key[a] > h->key[b] || (h->key[a] == h->key[b] && a < b); }

void sl__heap_push(sl_heap *h, int node) {
  int i = h->n++;
  for (; i > 0 && above(h, node, h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
  h->at[i] = node;
}

int sl__heap_pop(sl_heap *h) {
  int top = h->at[0], last = h->at[--h->n], i = 0;
  for (int child; (child = 2 * i + 1) < h->n; i = child) {
    if (child + 1 < h->n && above(h, h->at[child + 1], h->at[child])) child++;
    if (!above(h, h->at[child], last)) break;
    h->at[i] = h->at[child];
  }
  h->at[i] = last;
  return top;
}

sl_status sl__successors(const sl_schedule *s, int **first, int **after) {
  const int n = s->n, edges = s->from[n];
  *first = calloc((size_t)n + 2, sizeof **first);
  *after = malloc(((size_t)edges + 1) * sizeof **after);
  if (!*first || !*after) return sl_no_memory("for %d dependencies", edges);
  for (int k = 0; k < edges; k++) (*first)[s->before[k] + 2]++;
  for (int i = 0; i < n; i++) (*first)[i + 1] += (*first)[i];
  for (int i = 0; i < n; i++)
    for (int k = s->from[i]; k < s->from[i + 1]; k++) (*after)[(*first)[s->before[k] + 1]++] = i;
  return SL_OK;
}

double sl__bytes_between(const sl_graph *g, const sl_node *a, const sl_node *b) {
  double bytes = 0;
  for (int j = 0; j < a->n_out; j++)
    for (int k = 0; k < b->n_in; k++)
      if (b->in[k] == a->out[j]) {
        bytes += (double)sl_value_bytes(g->value[a->out[j]]);
        break;
      }
  return bytes;
}
