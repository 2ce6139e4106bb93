/* Transferred bytes, from StarPU's bus counters. */
#include "runtime/machine/transfers.h"

#include <starpu.h>

int sl_transfers_nodes(void) { return (int)starpu_memory_nodes_get_count(); }

uint64_t sl_transfers_bytes(void) {
  uint64_t bytes = 0;
  for (int bus = 0; bus < starpu_bus_get_count(); bus++) {
    struct starpu_profiling_bus_info info;
    if (starpu_bus_get_profiling_info(bus, &info) == 0 && info.transferred_bytes > 0)
      bytes += (uint64_t)info.transferred_bytes;
  }
  return bytes;
}
