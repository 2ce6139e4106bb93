/* Bytes of temporaries in use during a step. */
#include "runtime/trace/live.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b) {
  const sl_live *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* at equal times, ends come before begins */
}

sl_status sl_live_find(const sl_timeline *t, int64_t step, sl_live **points, size_t *n) {
  const size_t nodes = (size_t)t->n_nodes, buffers = (size_t)t->n_buffers;
  const sl_record **record = calloc(nodes + 1, sizeof *record); /* each node's record in this step */
  int64_t *from = malloc((buffers + 1) * sizeof *from), *to = malloc((buffers + 1) * sizeof *to);
  sl_live *change = malloc((2 * buffers + 1) * sizeof *change); /* bytes: growth at this time */
  sl_status status = SL_OK;
  size_t used = 0;
  *points = NULL, *n = 0;
  if (!record || !from || !to || !change) {
    status = sl_no_memory("for the %zu buffers of a step", buffers);
    goto out;
  }
  for (size_t i = 0; i < t->n_records; i++) {
    const sl_record *r = &t->record[i];
    if (r->step == step && r->kind != SL_RECORD_INPUT && r->node >= 0 && r->node < t->n_nodes) record[r->node] = r;
  }
  for (size_t b = 0; b < buffers; b++) from[b] = INT64_MAX, to[b] = INT64_MIN;
  for (int i = 0; i < t->n_uses; i++) {
    const sl_record *r = record[t->use[i].node];
    const int b = t->use[i].buffer;
    if (r && r->start < from[b]) from[b] = r->start;
    if (r && r->end > to[b]) to[b] = r->end;
  }
  for (size_t b = 0; b < buffers; b++) {
    if (from[b] >= to[b]) continue;
    change[used++] = (sl_live){from[b], t->buffer[b].bytes};
    change[used++] = (sl_live){to[b], -t->buffer[b].bytes};
  }
  qsort(change, used, sizeof *change, by_time);
  int64_t bytes = 0;
  for (size_t i = 0; i < used; i++) {
    bytes += change[i].bytes;
    if (*n && change[*n - 1].time == change[i].time)
      change[*n - 1].bytes = bytes;
    else
      change[(*n)++] = (sl_live){change[i].time, bytes};
  }
  if (used) *points = change, change = NULL;
out:
  free(record), free(from), free(to), free(change);
  return status;
}

sl_status sl_live_slots(const sl_timeline *t, int64_t *bytes) {
  int64_t *most = calloc((size_t)t->n_buffers + 1, sizeof *most); /* there are at most as many slots as buffers */
  *bytes = 0;
  if (!most) return sl_no_memory("for the slots of %d buffers", t->n_buffers);
  for (int b = 0; b < t->n_buffers; b++) {
    const sl_timeline_buffer *x = &t->buffer[b];
    if (x->bytes <= most[x->slot]) continue;
    *bytes += x->bytes - most[x->slot];
    most[x->slot] = x->bytes;
  }
  free(most);
  return SL_OK;
}
