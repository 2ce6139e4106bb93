/* How much of the exchange between ranks the work hid: while exchanges were under way, workers either had tasks or were
 * idle for them (idle.h). */
#ifndef SL_OVERLAP_H
#define SL_OVERLAP_H

#include "runtime/trace/dependencies.h"
#include "runtime/trace/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds, of all steps in the window. Of each step's exchanges of gradients at most hideable seconds can be hidden by
 * tasks: as long as they were under way, and no longer than the backward pass went on from the first of them. */
typedef struct sl_overlap {
  double under_way; /* an exchange was: all that it waits for had ended, itself not */
  double exposed;   /* workers were idle for an exchange, the mean over workers */
  double hidden;    /* under_way - exposed */
  double hideable;
  double achieved; /* of hideable: under_way of the gradients less exposed, step by step, within 0 ... hideable */
} sl_overlap;

/* backward[node] is 1 for nodes of the backward pass, for tasks and exchanges alike. Other arguments as in
 * sl_idle_find. All zeros where nothing was exchanged. */
sl_status sl_overlap_of(const sl_record *records, size_t n, int workers, const sl_dependencies *graph,
                        const unsigned char *backward, int64_t from, int64_t to, sl_overlap *overlap);

#ifdef __cplusplus
}
#endif
#endif
