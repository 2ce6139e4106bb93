/* The exchange nodes of a program as StarPU tasks. Such a task has no kernel and no worker: when its inputs are ready
 * its values are acquired in host memory, the engine (runtime/exchange/exchange.h) is told, and the engine's thread
 * ends the task. Private to tasks/starpu. */
#ifndef SL_TASKS_EXCHANGE_H
#define SL_TASKS_EXCHANGE_H

#include "runtime/exchange/exchange.h"
#include "tasks/spread/exchange_node.h"
#include "tasks/starpu/codelet.h"

/* All exchanges of a program. */
typedef struct sl__exchanges sl__exchanges;

/* Collective over the runtime's ranks. first_leaf[ranks + 1]: rank r computes leaves [first_leaf[r], first_leaf[r +
 * 1]). by_mpi: sums over ranks are MPI_Iallreduce's (runtime/exchange/exchange_mpi.h), and not compressed.
 */
sl_status sl__exchanges_create(sl_runtime *runtime, int leaves, const int *first_leaf, int by_mpi,
                               sl_compression compression, sl__exchanges **exchanges);
/* Collective. Memory for the values that are exchanged, which the ranks of a node share where they can. Lives as long
 * as the exchanges. */
sl_status sl__exchanges_allocate(sl__exchanges *x, size_t bytes, void **memory);
/* Whether all ranks share memory that exchanges order the use of. */
int sl__exchanges_share(const sl__exchanges *x);
/* Collective; for the exchange nodes in the order of their buckets. data[n_in]: where the node's inputs are in host
 * memory; NULL: in memory that all ranks have in common, so that the node only orders its use. handle[n]: StarPU's of
 * inputs and outputs. Makes the StarPU task of t, whose other fields are filled in. */
sl_status sl__exchanges_add(sl__exchanges *x, const sl_graph *graph, const sl_node *node, void *const *data,
                            const starpu_data_handle_t *handle, int n, sl__task *t);
size_t sl__exchanges_bytes(const sl__exchanges *x);  /* sl_exchange_memory; 0: MPI's is not known */
uint64_t sl__exchanges_sent(const sl__exchanges *x); /* sl_exchange_sent; 0: MPI's are not counted */
/* Before an exchange's task is submitted. */
void sl__exchanges_hold(sl__task *t);
/* SL_OK, or the failure that ended an exchange. After the step. */
sl_status sl__exchanges_status(sl__exchanges *x);
/* Collective. NULL is allowed. */
void sl__exchanges_destroy(sl__exchanges *x);

/* Seconds since an exchange that is under way moved, its node, and the ranks that it waits for (late[ranks]; none where
 * MPI does not tell); 0 when none is. */
double sl__exchanges_stalled(sl__exchanges *x, int *node, char *late);

#endif
