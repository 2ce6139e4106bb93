/* Planned memory that a step had in use, over time: a buffer counts from the recorded start of the first task that
 * touches it to the recorded end of the last. */
#ifndef SL_LIVE_H
#define SL_LIVE_H

#include "runtime/trace/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_live {
  int64_t time, bytes; /* from this time (ns) on, so many bytes are in use */
} sl_live;

/* The bytes of the step's temporaries in use, sorted by time; the last point has 0 bytes. No points if the timeline has
 * no buffers or no records of the step. The caller frees *points. */
sl_status sl_live_find(const sl_timeline *timeline, int64_t step, sl_live **points, size_t *n);
/* Bytes that the memory plan reserves: the sum over slots of each slot's largest buffer. */
sl_status sl_live_slots(const sl_timeline *timeline, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
