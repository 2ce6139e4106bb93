/* Shared by all trace formats. */
#include "runtime/trace/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/trace/parts.h"

const char *const sl__record_names[SL_RECORD_KINDS] = {"task", "exchange", "input"};

static const struct {
  const char *name;
  void (*write)(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin);
} formats[SL_TRACE_FORMATS] = {
    [SL_TRACE_CHROME] = {"chrome", sl__trace_chrome},
    [SL_TRACE_PAJE] = {"paje", sl__trace_paje},
    [SL_TRACE_CSV] = {"csv", sl__trace_csv},
};

const char *sl_trace_format_name(sl_trace_format format) { return formats[format].name; }

static void flush(sl__writer *w) {
  if (w->status == SL_OK && w->used) w->status = sl_file_write(w->file, w->buffer, w->used);
  w->used = 0;
}

void sl__put(sl__writer *w, const char *format, ...) {
  if (sizeof w->buffer - w->used < 1024) flush(w);
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(w->buffer + w->used, sizeof w->buffer - w->used, format, args);
  va_end(args);
  if (n > 0) w->used += (size_t)n;
}

void sl__put_bytes(sl__writer *w, const char *bytes, size_t n) {
  while (n > 0) {
    if (w->used == sizeof w->buffer) flush(w);
    const size_t room = sizeof w->buffer - w->used, part = n < room ? n : room;
    memcpy(w->buffer + w->used, bytes, part);
    w->used += part, bytes += part, n -= part;
  }
}

int sl__utf8(const unsigned char *s) {
  const int n = s[0] < 0x80                   ? 1
                : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                              : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
      (s[0] == 0xF4 && s[1] > 0x8F))
    return 0;
  return n;
}

int sl__trace_shows(const sl__trace_rank *rank, const sl_record *r) {
  return r->kind >= 0 && r->kind < SL_RECORD_KINDS && r->step >= rank->first &&
         (r->kind != SL_RECORD_TASK || (r->worker >= 0 && r->worker < rank->t->n_workers));
}

const sl_timeline_node *sl__trace_node(const sl_timeline *t, const sl_record *r) {
  return r->kind != SL_RECORD_INPUT && r->node >= 0 && r->node < t->n_nodes ? &t->node[r->node] : NULL;
}

static sl_status look(sl__trace_rank *rank, const sl_timeline *t) {
  rank->t = t;
  sl_timeline_window(t, &rank->from, &rank->to, &rank->first);
  const sl_dependencies graph = {t->n_nodes, t->from, t->before};
  return sl_idle_find(t->record, t->n_records, t->n_workers, &graph, rank->from, rank->to, &rank->idle, &rank->n_idle);
}

sl_status sl_trace_write(const char *path, sl_trace_format format, sl_timeline *const *timelines, int n) {
  sl__writer *w = malloc(sizeof *w);
  sl__trace_rank *rank = calloc((size_t)n + 1, sizeof *rank);
  int64_t origin = INT64_MAX;
  sl_status status = SL_OK;
  if (w) w->file = NULL;
  if (!w || !rank) {
    status = sl_no_memory("for writing %s", path);
    goto out;
  }
  w->used = 0;
  w->status = SL_OK;
  SL_TRY_OUT(sl_file_create(path, &w->file));
  for (int i = 0; i < n; i++) {
    SL_TRY_OUT(look(&rank[i], timelines[i]));
    if (timelines[i]->n_records && rank[i].from < origin) origin = rank[i].from;
  }
  if (origin == INT64_MAX) origin = 0; /* nothing recorded */
  formats[format].write(w, rank, n, origin);
  flush(w);
  SL_TRY_OUT(w->status);
  sl_file *file = w->file;
  w->file = NULL;
  status = sl_file_commit(file);
out:
  for (int i = 0; rank && i < n; i++) free(rank[i].idle);
  if (w) sl_file_discard(w->file);
  free(w), free(rank);
  return status;
}
