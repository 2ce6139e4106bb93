/* Bytes that StarPU has moved between memory nodes: host memory, each GPU's, and NUMA nodes where StarPU tells them
 * apart. */
#ifndef SL_TRANSFERS_H
#define SL_TRANSFERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int sl_transfers_nodes(void); /* memory nodes; with one there is nothing to move. Runtime up */
/* Moved since the last call, or the start of the runtime. Between steps. */
uint64_t sl_transfers_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
