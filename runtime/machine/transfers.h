/* Bytes that StarPU has moved between memory nodes: host memory, each GPU's memory, and NUMA nodes if StarPU
 * distinguishes them. */
#ifndef SL_TRANSFERS_H
#define SL_TRANSFERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int sl_transfers_nodes(void); /* number of memory nodes; with one, nothing moves. Needs a runtime */
/* Bytes moved since the last call or the runtime's start. Call it between steps. */
uint64_t sl_transfers_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
