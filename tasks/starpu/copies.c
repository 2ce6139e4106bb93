/* Finds the reader of each copy: sorts all reads of a run by data and time, then searches for each copy. */
#include "tasks/starpu/copies.h"

#include <stdlib.h>

/* A task's read of data in a memory. */
typedef struct reading {
  const void *data;
  int memory, node, ahead;
  int64_t step, end;
} reading;

static int by_node(const void *a, const void *b) {
  const sl__read *x = a, *y = b;
  return x->node - y->node;
}

static int by_place_and_time(const void *a, const void *b) {
  const reading *x = a, *y = b;
  if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
  if (x->memory != y->memory) return x->memory - y->memory;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

/* The first of the n sorted reads of a node. */
static size_t first_read(const sl__read *read, size_t n, int node) {
  size_t low = 0, high = n;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (read[middle].node < node)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

sl_status sl__copies_find(const sl_record *record, size_t n_records, const sl__read *read, size_t n_reads,
                          const int *memory, const sl_copy_record *copy, size_t n, int32_t *node) {
  sl__read *sorted = malloc((n_reads + 1) * sizeof *sorted);
  reading *all = NULL;
  size_t count = 0;
  sl_status status = sorted ? SL_OK : sl_no_memory("for the readers of %zu copies", n);
  SL_TRY_OUT(status);
  for (size_t i = 0; i < n_reads; i++) sorted[i] = read[i];
  qsort(sorted, n_reads, sizeof *sorted, by_node);
  for (int fill = 0; fill < 2; fill++) {
    if (fill && !(all = malloc((count + 1) * sizeof *all)))
      SL_TRY_OUT(sl_no_memory("for the readers of %zu copies", n));
    count = 0;
    for (size_t i = 0; i < n_records; i++) {
      const sl_record *r = &record[i];
      if (r->node < 0 || (r->kind != SL_RECORD_TASK && r->kind != SL_RECORD_EXCHANGE)) continue;
      const int where = r->kind == SL_RECORD_TASK && r->worker >= 0 ? memory[r->worker] : 0;
      for (size_t k = first_read(sorted, n_reads, r->node); k < n_reads && sorted[k].node == r->node; k++, count++)
        if (fill) all[count] = (reading){sorted[k].data, where, r->node, sorted[k].ahead, r->step, r->end};
    }
  }
  qsort(all, count, sizeof *all, by_place_and_time);
  for (size_t i = 0; i < n; i++) {
    const reading after = {.data = copy[i].data, .memory = copy[i].to, .step = copy[i].step, .end = copy[i].asked};
    size_t low = 0, high = count;
    while (low < high) { /* the first read that ended after the copy was requested */
      const size_t middle = (low + high) / 2;
      if (by_place_and_time(&all[middle], &after) <= 0)
        low = middle + 1;
      else
        high = middle;
    }
    const int found = low < count && all[low].data == after.data && all[low].memory == after.memory &&
                      all[low].step <= after.step + all[low].ahead;
    node[i] = found ? all[low].node : -1;
  }
out:
  free(sorted), free(all);
  return status;
}
