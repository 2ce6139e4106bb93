/* Parts that the writers of trace formats share: buffered output, and the choice of records. */
#include "runtime/trace/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const sl__record_names[SL_RECORD_KINDS] = {"task", "exchange", "input"};

void sl__flush(sl__writer *w) {
  if (w->status == SL_OK && w->used) w->status = sl_file_write(w->file, w->buffer, w->used);
  w->used = 0;
}

void sl__put(sl__writer *w, const char *format, ...) {
  if (sizeof w->buffer - w->used < 1024) sl__flush(w);
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(w->buffer + w->used, sizeof w->buffer - w->used, format, args);
  va_end(args);
  if (n > 0) w->used += (size_t)n;
}

void sl__put_bytes(sl__writer *w, const char *bytes, size_t n) {
  while (n > 0) {
    if (w->used == sizeof w->buffer) sl__flush(w);
    const size_t room = sizeof w->buffer - w->used, part = n < room ? n : room;
    memcpy(w->buffer + w->used, bytes, part);
    w->used += part, bytes += part, n -= part;
  }
}

int sl__trace_shows(const sl__trace_rank *rank, const sl_record *r) {
  return r->kind >= 0 && r->kind < SL_RECORD_KINDS && r->step >= rank->first &&
         (r->kind != SL_RECORD_TASK || (r->worker >= 0 && r->worker < rank->t->n_workers));
}

const sl_timeline_node *sl__trace_node(const sl_timeline *t, const sl_record *r) {
  return r->kind != SL_RECORD_INPUT && r->node >= 0 && r->node < t->n_nodes ? &t->node[r->node] : NULL;
}
