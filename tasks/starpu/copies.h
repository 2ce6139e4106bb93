/* For which task each copy between memories was made. */
#ifndef SL_COPIES_H
#define SL_COPIES_H

#include "runtime/machine/transfers.h"
#include "runtime/trace/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The node reads what is registered as `data`. */
typedef struct sl__read {
  const void *data;
  int node;
  int ahead; /* 1: it may have been copied in the step before (inputs.h) */
} sl__read;

/* node[n]: the first task that read the copy's data in the memory that they were copied to, in the same step or, if
 * copied ahead, in the next, or the exchange; -1: none did, so the memory that they left was needed, or another process
 * reads them. memory[]: of each worker; exchanges read in memory 0. */
sl_status sl__copies_find(const sl_record *record, size_t n_records, const sl__read *read, size_t n_reads,
                          const int *memory, const sl_copy_record *copy, size_t n, int32_t *node);

#ifdef __cplusplus
}
#endif
#endif
