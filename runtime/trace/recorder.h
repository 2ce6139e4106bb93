/* The recorder keeps the times at which tasks and exchanges were submitted, ready, taken by a worker, started and
 * ended, in a ring buffer of the latest records.
 *
 * Adding a record is lock-free and takes tens of nanoseconds, so the recorder is always on. Records hold numbers only;
 * a timeline (timeline.h) adds the names. */
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
  int64_t taken;         /* task: a worker took it and fetches its inputs; exchange: its data are in host memory */
  int64_t start, end;    /* of the kernel, or of the exchange itself */
  int32_t node;          /* index in the step graph */
  int16_t worker;
  int16_t kind; /* sl_record_kind */
} sl_record;

typedef struct sl_recorder sl_recorder;
enum { SL_RECORDER_CAPACITY = 1 << 16 };

/* capacity: number of records kept, rounded up to a power of two; 0: SL_RECORDER_CAPACITY (4 MB). */
sl_status sl_recorder_create(size_t capacity, sl_recorder **recorder);
size_t sl_recorder_bytes(void);                                       /* of a recorder of the default capacity */
void sl_recorder_destroy(sl_recorder *recorder);                      /* NULL is allowed */
void sl_recorder_add(sl_recorder *recorder, const sl_record *record); /* any thread, any time */
void sl_recorder_clear(sl_recorder *recorder); /* drops all records added so far; any thread, any time */
size_t sl_recorder_capacity(const sl_recorder *recorder);
/* Number of records added since the start, cleared ones included; beyond the capacity the oldest are lost. */
uint64_t sl_recorder_added(const sl_recorder *recorder);
/* Number of records added since the last clear that the ring has overwritten. */
uint64_t sl_recorder_lost(const sl_recorder *recorder);

/* Copies the records kept, in the order in which they were added; the caller frees *records (NULL when *n is 0). Other
 * threads may add meanwhile: a record that is being overwritten is left out. */
sl_status sl_recorder_snapshot(const sl_recorder *recorder, sl_record **records, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
