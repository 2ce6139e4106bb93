/* Why workers were idle: each moment of each worker is in a kernel or has one cause, told by the next task on that
 * worker, so that kernels and causes add up to all of the time.
 *
 * What an interval before task T is put down to, piece by piece as T's state changes:
 * - while T was not submitted: RUNTIME; but as long as tasks of an earlier step were under way, what they waited for,
 *   since a step is submitted when the one before has ended;
 * - while a predecessor was unfinished: DEPENDENCY, or EXCHANGE where the chain of latest predecessors led to an
 *   exchange that was under way at the time;
 * - from T's readiness until this worker had it: POLICY (it was placed elsewhere or held back; handing it over, a
 *   microsecond, is in it);
 * - from then to its start: DATA (its inputs were brought to this worker's memory).
 * Behind a worker's last task the end of the last task of all takes the place of the next step. */
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
  int64_t step;     /* of the next task on the worker */
  int node;         /* likewise; -1: there was none */
} sl_idle;

/* The idle intervals of workers 0 ... workers - 1 in [from, to), by worker, then time; *idle is the caller's to free().
 * records come in any order; predecessors that are not among them count as finished when the task was ready. */
sl_status sl_idle_find(const sl_record *records, size_t n, int workers, const sl_dependencies *graph, int64_t from,
                       int64_t to, sl_idle **idle, size_t *n_idle);

/* Shares of all workers' time; they add up to 1. */
typedef struct sl_usage {
  double kernels;
  double idle[SL_IDLE_CAUSES];
  double seconds; /* that the shares are of: the window, as far back as records are kept */
} sl_usage;

sl_status sl_usage_of(const sl_record *records, size_t n, int workers, const sl_dependencies *graph, int64_t from,
                      int64_t to, sl_usage *usage);
/* The same of what a recorder keeps; of a ring that turned over, from the first whole step on. */
sl_status sl_usage_since(const sl_recorder *recorder, int workers, const sl_dependencies *graph, int64_t from,
                         int64_t to, sl_usage *usage);

#ifdef __cplusplus
}
#endif
#endif
