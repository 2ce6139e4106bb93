/* What moves between memory nodes and what they hold: host memory, each GPU's memory, and NUMA nodes if StarPU
 * distinguishes them. StarPU numbers them; 0 is the host's. Needs a runtime. */
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
  int64_t start, end; /* ns of sl_now(): when it was asked for, or the copy before on this link has ended; and when
                         StarPU's model of the bus has it end */
  int64_t asked;      /* when it was asked for */
  int64_t bytes;
  const void *data; /* the StarPU handle of what was copied */
  int32_t from, to; /* memory nodes */
} sl_copy_record;

/* From now on copies are recorded, as those of this step; 0: none are. The latest 65536 are kept. Any thread. */
void sl_transfers_record(int64_t step);
/* Drops those recorded so far. Call it between steps, as the next one. */
void sl_transfers_clear(void);
/* Copies the records, the oldest first; the caller frees *transfers (NULL when *n is 0). */
sl_status sl_transfers_snapshot(sl_copy_record **transfers, size_t *n);

/* The most bytes of the memory node that StarPU has held for data since the last sl_transfers_peak_restart, as seen
 * after each of its allocations there. */
size_t sl_transfers_peak(int node);
/* Call between steps: from now on the peaks are those of what is allocated from here, what lies there now included. */
void sl_transfers_peak_restart(void);

#ifdef __cplusplus
}
#endif
#endif
