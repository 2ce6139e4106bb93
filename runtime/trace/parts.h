/* Shared by the writers of traces. Private to runtime/. */
#ifndef SL_TRACE_PARTS_H
#define SL_TRACE_PARTS_H

#include "runtime/base/file.h"
#include "runtime/trace/idle.h"
#include "runtime/trace/timeline.h"

/* Buffered output, since a trace has hundreds of thousands of pieces. After a failure it writes nothing more. */
typedef struct sl__writer {
  sl_file *file;
  sl_status status; /* of the first failure */
  size_t used;
  char buffer[1 << 16];
} sl__writer;

void sl__put(sl__writer *w, const char *format, ...) __attribute__((format(printf, 2, 3))); /* under 1024 bytes */
void sl__put_bytes(sl__writer *w, const char *bytes, size_t n);                             /* any number */
void sl__flush(sl__writer *w); /* writes what is buffered */

/* One rank's part of a trace. */
typedef struct sl__trace_rank {
  const sl_timeline *t;
  sl_idle *idle;
  size_t n_idle;
  int64_t from, to, first; /* of the window, its first step */
} sl__trace_rank;

/* Whether the trace shows the record. */
int sl__trace_shows(const sl__trace_rank *rank, const sl_record *record);
/* The step graph's node that the record belongs to; NULL: none. */
const sl_timeline_node *sl__trace_node(const sl_timeline *timeline, const sl_record *record);
extern const char *const sl__record_names[SL_RECORD_KINDS]; /* "task", "exchange", "input" */

void sl__trace_chrome(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin);
void sl__trace_paje(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin);
void sl__trace_csv(sl__writer *w, const sl__trace_rank *rank, int n, int64_t origin);

#endif
