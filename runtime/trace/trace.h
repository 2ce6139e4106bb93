/* Timelines as files of other tools. What is written: the whole steps that are kept (sl_timeline_window), every task,
 * exchange and batch read, and between tasks the causes of idle time. */
#ifndef SL_TRACE_H
#define SL_TRACE_H

#include "runtime/trace/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_trace_format {
  SL_TRACE_CHROME, /* Chrome trace JSON, which https://ui.perfetto.dev reads: a process a rank, a thread a worker,
                      exchanges as asynchronous slices */
  SL_TRACE_PAJE, /* Paje, for ViTE: a container a rank, in it one a worker and lane; states are operations and causes */
  SL_TRACE_CSV,  /* a line each, RFC 4180, times in ns */
  SL_TRACE_FORMATS
} sl_trace_format;
const char *sl_trace_format_name(sl_trace_format format); /* "chrome" */

/* n timelines on one clock, as sl_timeline_read_all gives them; times count from the first submission. The file appears
 * whole or not at all. SL_EIO names it. */
sl_status sl_trace_write(const char *path, sl_trace_format format, sl_timeline *const *timelines, int n);

#ifdef __cplusplus
}
#endif
#endif
