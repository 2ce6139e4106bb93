/* How much of the planned memory a step really has in use, moment by moment: a buffer counts from the start of the
 * first task that touches it until the end of the last, as they were recorded. */
#ifndef SL_LIVE_H
#define SL_LIVE_H

#include "runtime/trace/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_live {
  int64_t time, bytes; /* ns; in use from then on */
} sl_live;

/* Of the step's temporaries, by time, from the first use to the last end, where bytes are 0 again. None where the
 * timeline knows no buffers, or has no record of the step. *points is the caller's to free(). */
sl_status sl_live_find(const sl_timeline *timeline, int64_t step, sl_live **points, size_t *n);
/* Bytes of all slots, each as large as its largest buffer: what the plan sets aside. */
sl_status sl_live_slots(const sl_timeline *timeline, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
