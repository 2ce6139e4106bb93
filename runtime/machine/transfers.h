/* Copies between memory nodes, and the bytes that memory nodes hold. Memory nodes are host memory, each GPU's memory,
 * and NUMA nodes if StarPU distinguishes them. StarPU numbers them; 0 is host memory. Needs a runtime. */
#ifndef SL_TRANSFERS_H
#define SL_TRANSFERS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

int sl_transfers_nodes(void); /* number of memory nodes; with one, nothing moves */
/* Bytes moved since the last call or the runtime's start. Call it between steps. */
uint64_t sl_transfers_bytes(void);

typedef struct sl_copy_record {
  int64_t step;
  /* ns of sl_now(). start: request, or end of the link's previous copy; end: by StarPU's bus model */
  int64_t start, end;
  int64_t asked; /* time of the request */
  int64_t bytes;
  const void *data; /* StarPU handle of the data */
  int32_t from, to; /* memory nodes */
} sl_copy_record;

enum { SL_TRANSFERS_KEPT = 1 << 16 };
/* Records copies from now on, with this step's number; 0: stops recording. Keeps the latest SL_TRANSFERS_KEPT. Any
 * thread. */
void sl_transfers_record(int64_t step);
/* Drops the records so far. Call this and the next function between steps. */
void sl_transfers_clear(void);
/* Copies the records, the oldest first; the caller frees *transfers (NULL when *n is 0). */
sl_status sl_transfers_snapshot(sl_copy_record **transfers, size_t *n);

/* The most bytes of the memory node that StarPU has held for data since the last sl_transfers_peak_restart, as seen
 * after each of its allocations there. */
size_t sl_transfers_peak(int node);
/* Restarts the peaks of all memory nodes, from the bytes that each holds now. Call between steps. */
void sl_transfers_peak_restart(void);

#ifdef __cplusplus
}
#endif
#endif
