/* Causes of idle time. Each moment of a worker is either in a kernel or idle for exactly one cause, so kernels and
 * causes add up to the whole time.
 *
 * The cause of an idle interval follows from the next task T on that worker. The interval is cut where T's state
 * changes:
 * - T not yet submitted: RUNTIME. While tasks of the step before still run, their cause counts instead, because a step
 * is submitted after the one before has ended.
 * - A predecessor of T unfinished: DEPENDENCY; EXCHANGE if the chain of latest predecessors leads to an exchange that
 * was under way at that moment.
 * - T ready, but not yet taken by this worker: POLICY (the scheduler held T back or had placed it elsewhere; includes
 * the microsecond that handing it over takes).
 * - T taken, but not started: DATA (its inputs are being fetched into this worker's memory).
 * After a worker's last task, the end of the last task of all workers stands in for the next step. */
#ifndef SL_IDLE_H
#define SL_IDLE_H

#include "runtime/trace/dependencies.h"
#include "runtime/trace/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_IDLE_LIST(X)               \
  X(SL_IDLE_RUNTIME, "runtime")       \
  X(SL_IDLE_DEPENDENCY, "dependency") \
  X(SL_IDLE_DATA, "data")             \
  X(SL_IDLE_EXCHANGE, "exchange")     \
  X(SL_IDLE_POLICY, "policy")
typedef enum sl_idle_cause {
#define SL_IDLE_ENUM(cause, text) cause,
  SL_IDLE_LIST(SL_IDLE_ENUM)
#undef SL_IDLE_ENUM
      SL_IDLE_CAUSES
} sl_idle_cause;
const char *sl_idle_cause_name(sl_idle_cause cause);

typedef struct sl_idle {
  int worker;
  sl_idle_cause cause;
  int64_t from, to; /* ns */
  int64_t step;     /* step of the next task on the worker */
  int node;         /* node of that task; -1: there is none */
} sl_idle;

/* Finds the idle intervals of workers 0 ... workers - 1 in [from, to), sorted by worker, then time; the caller frees
 * *idle. records may come in any order. A predecessor without a record counts as finished when the task was ready. */
sl_status sl_idle_find(const sl_record *records, size_t n, int workers, const sl_dependencies *graph, int64_t from,
                       int64_t to, sl_idle **idle, size_t *n_idle);

/* Shares of all workers' time; they add up to 1. */
typedef struct sl_usage {
  double kernels;
  double idle[SL_IDLE_CAUSES];
  double seconds; /* length of the window, as far back as records are kept */
} sl_usage;

sl_status sl_usage_of(const sl_record *records, size_t n, int workers, const sl_dependencies *graph, int64_t from,
                      int64_t to, sl_usage *usage);
/* The same for a recorder's records. If its ring has overwritten records, the window begins at the first whole step. */
sl_status sl_usage_since(const sl_recorder *recorder, int workers, const sl_dependencies *graph, int64_t from,
                         int64_t to, sl_usage *usage);

#ifdef __cplusplus
}
#endif
#endif
