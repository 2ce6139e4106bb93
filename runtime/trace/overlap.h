/* How much of the exchange between ranks was hidden behind tasks: while an exchange is under way, a worker either runs
 * tasks or is idle because of it (idle.h). */
#ifndef SL_OVERLAP_H
#define SL_OVERLAP_H

#include "runtime/trace/dependencies.h"
#include "runtime/trace/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds, summed over the steps in the window. hideable: the part of the exchanges of gradients that tasks can hide.
 * In each step this is the time that these exchanges were under way, but at most the time from the start of the first
 * of them to the end of the backward pass. */
typedef struct sl_overlap {
  double under_way; /* an exchange was under way: its predecessors had ended, it had not */
  double exposed;   /* workers were idle for an exchange; mean over workers */
  double hidden;    /* under_way - exposed */
  double hideable;
  double achieved; /* part of hideable that was hidden: per step, under_way of the gradients less exposed, clipped to
                      0 ... hideable */
} sl_overlap;

/* backward[node] is 1 for nodes of the backward pass, tasks and exchanges alike. Other arguments as in sl_idle_find.
 * All zeros if nothing was exchanged. */
sl_status sl_overlap_of(const sl_record *records, size_t n, int workers, const sl_dependencies *graph,
                        const unsigned char *backward, int64_t from, int64_t to, sl_overlap *overlap);

#ifdef __cplusplus
}
#endif
#endif
