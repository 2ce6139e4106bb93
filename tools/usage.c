/* Shares of worker time from task records. */
#include "tools/usage.h"

#include <stdlib.h>
#include <string.h>

static int by_worker_and_start(const void *a, const void *b) {
  const sl_record *x = a, *y = b;
  if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
  return (x->start > y->start) - (x->start < y->start);
}

static int64_t clamp(int64_t t, int64_t from, int64_t to) { return t < from ? from : t > to ? to : t; }

sl_status sl__usage_of(const sl_record *records, size_t n, int workers, int64_t from, int64_t to, sl__usage *u) {
  *u = (sl__usage){.waiting = 1};
  if (n == 0 || to <= from || workers < 1) return SL_OK;
  sl_record *sorted = malloc(n * sizeof *sorted);
  if (!sorted) return sl_fail(SL_ENOMEM, "no memory for %zu records", n);
  size_t tasks = 0;
  for (size_t i = 0; i < n; i++)
    if (records[i].kind == SL_RECORD_TASK && records[i].end > from && records[i].start < to)
      sorted[tasks++] = records[i];
  qsort(sorted, tasks, sizeof *sorted, by_worker_and_start);
  double kernels = 0, starpu = 0;
  int64_t free_from = from;
  for (size_t i = 0; i < tasks; i++) {
    if (i == 0 || sorted[i].worker != sorted[i - 1].worker) free_from = from;
    const int64_t start = clamp(sorted[i].start, free_from, to), end = clamp(sorted[i].end, start, to);
    kernels += (double)(end - start);
    starpu += (double)(start - clamp(sorted[i].ready, free_from, start));
    free_from = end;
  }
  free(sorted);
  const double all = (double)(to - from) * workers;
  *u = (sl__usage){.kernels = kernels / all, .starpu = starpu / all, .seconds = 1e-9 * (double)(to - from)};
  u->waiting = 1 - u->kernels - u->starpu;
  return SL_OK;
}

sl_status sl__usage_since(const sl_recorder *recorder, int workers, int64_t from, int64_t to, sl__usage *usage) {
  sl_record *records;
  size_t n;
  SL_TRY(sl_recorder_snapshot(recorder, &records, &n));
  /* When the ring has turned over, what is left of the first step in it is no fair sample: begin with the next. */
  if (n && sl_recorder_added(recorder) > sl_recorder_capacity(recorder)) {
    int64_t oldest = INT64_MAX;
    for (size_t i = 0; i < n; i++)
      if (records[i].step > records[0].step && records[i].submit < oldest) oldest = records[i].submit;
    if (oldest > from && oldest < to) from = oldest;
  }
  const sl_status status = sl__usage_of(records, n, workers, from, to, usage);
  free(records);
  return status;
}
