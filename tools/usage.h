/* Where the workers' time went: in kernels, waiting with no task ready, or in StarPU with one ready. */
#ifndef SL_TOOLS_USAGE_H
#define SL_TOOLS_USAGE_H

#include "runtime/recorder.h"

/* Shares of the workers' time; they add up to 1. */
typedef struct sl__usage {
  double kernels;
  double starpu;  /* between a task's readiness (or the end of the worker's task before, if later) and its start */
  double waiting; /* the rest: no task was ready */
  double seconds; /* that the shares are of: the window, as far back as records are kept */
} sl__usage;

/* records: sorted by nothing. The window is [from, to] in nanoseconds; workers counts those that could have worked. */
sl_status sl__usage_of(const sl_record *records, size_t n, int workers, int64_t from, int64_t to, sl__usage *usage);

/* The same of a recorder's records, cut to what it still keeps. */
sl_status sl__usage_since(const sl_recorder *recorder, int workers, int64_t from, int64_t to, sl__usage *usage);

#endif
