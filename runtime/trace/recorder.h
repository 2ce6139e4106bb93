/* The recorder: when every task and exchange was submitted, ready, taken by a worker, started and ended, in a ring that
 * keeps the latest.
 *
 * Adding is lock-free and costs tens of nanoseconds, so it is always on; it knows numbers only, names come in when a
 * timeline is made of it (timeline.h). */
#ifndef SL_RECORDER_H
#define SL_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_record_kind {
  SL_RECORD_TASK,     /* worker is a StarPU worker */
  SL_RECORD_EXCHANGE, /* worker is a lane; exchanges may overlap */
  SL_RECORD_INPUT,    /* worker is a thread of the loader */
  SL_RECORD_KINDS
} sl_record_kind;

/* Times are nanoseconds of CLOCK_MONOTONIC. */
typedef struct sl_record {
  int64_t step;
  int64_t submit, ready; /* ready: all dependencies met */
  int64_t taken;         /* a worker has it, and its inputs are brought there; exchange: its data are in host memory */
  int64_t start, end;    /* of the kernel; of the exchange itself */
  int32_t node;          /* of the graph */
  int16_t worker;
  int16_t kind; /* sl_record_kind */
} sl_record;

typedef struct sl_recorder sl_recorder;
enum { SL_RECORDER_CAPACITY = 1 << 16 };

/* capacity: records kept, rounded up to a power of two; 0: SL_RECORDER_CAPACITY (4 MB). */
sl_status sl_recorder_create(size_t capacity, sl_recorder **recorder);
void sl_recorder_destroy(sl_recorder *recorder);                      /* NULL is allowed */
void sl_recorder_add(sl_recorder *recorder, const sl_record *record); /* any thread, any time */
void sl_recorder_clear(sl_recorder *recorder); /* forgets what was added so far; any thread, any time */
size_t sl_recorder_capacity(const sl_recorder *recorder);
uint64_t sl_recorder_added(
    const sl_recorder *recorder); /* since the start, clear or not; more than capacity: the oldest are lost */

/* Records since the last clear that the ring no longer has. */
uint64_t sl_recorder_lost(const sl_recorder *recorder);

/* A copy of what is kept, in the order of adding; *records is the caller's to free() (NULL when *n is 0). May run while
 * others add: records being overwritten meanwhile are left out. */
sl_status sl_recorder_snapshot(const sl_recorder *recorder, sl_record **records, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
