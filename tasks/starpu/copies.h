/* Finds the task for which each copy between memories was made. */
#ifndef SL_COPIES_H
#define SL_COPIES_H

#include "runtime/machine/transfers.h"
#include "runtime/trace/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The node reads the StarPU handle `data`. */
typedef struct sl__read {
  const void *data;
  int node;
  int ahead; /* 1: may have been copied during the step before (inputs.h) */
} sl__read;

/* node[n]: for each copy, its first reader in the target memory: a task of the same step (of the next step if copied
 * ahead) or an exchange. -1: no reader, because the copy was an eviction or another process reads it. memory[]: the
 * memory of each worker; exchanges read from memory 0. */
sl_status sl__copies_find(const sl_record *record, size_t n_records, const sl__read *read, size_t n_reads,
                          const int *memory, const sl_copy_record *copy, size_t n, int32_t *node);

#ifdef __cplusplus
}
#endif
#endif
