/* Writing a trace: finds the window and the idle intervals of each rank, and leaves the rest to the format. */
#include "runtime/trace/trace.h"

#include <stdlib.h>

#include "runtime/trace/parts.h"

static const struct {
  const char *name;
  void (*write)(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin);
} formats[SL_TRACE_FORMATS] = {
    [SL_TRACE_CHROME] = {"chrome", sl__trace_chrome},
    [SL_TRACE_PAJE] = {"paje", sl__trace_paje},
    [SL_TRACE_CSV] = {"csv", sl__trace_csv},
};

const char *sl_trace_format_name(sl_trace_format format) { return formats[format].name; }

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
  sl__flush(w);
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
