/* Writes timelines in the formats of other tools: every task, exchange and batch read of the whole steps in the window
 * (sl_timeline_window), and between tasks the causes of idle time. */
#ifndef SL_TRACE_H
#define SL_TRACE_H

#include "runtime/trace/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_trace_format {
  SL_TRACE_CHROME, /* Chrome trace JSON, for https://ui.perfetto.dev: a rank is a process, a worker a thread, an
                      exchange an asynchronous slice */
  SL_TRACE_PAJE,   /* Paje, for ViTE: a container per rank, with one per worker and lane; states are operations and
                      causes */
  SL_TRACE_CSV,    /* one line per interval, RFC 4180, times in ns */
  SL_TRACE_FORMATS
} sl_trace_format;
const char *sl_trace_format_name(sl_trace_format format); /* "chrome" */

/* Writes n timelines that are on one clock, as sl_timeline_read_all returns them; times count from the first
 * submission. The file appears complete or not at all. SL_EIO names it. */
sl_status sl_trace_write(const char *path, sl_trace_format format, sl_timeline *const *timelines, int n);

#ifdef __cplusplus
}
#endif
#endif
