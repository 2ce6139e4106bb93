/* The exchange nodes of a program as StarPU tasks. Such a task has no kernel and no worker. When its inputs are ready,
 * StarPU acquires its values in host memory, and its bucket is posted to the engine (runtime/exchange/exchange.h),
 * whose thread ends the task. Private to tasks/starpu. */
#ifndef SL_TASKS_EXCHANGE_H
#define SL_TASKS_EXCHANGE_H

#include "runtime/exchange/exchange.h"
#include "tasks/spread/exchange_node.h"
#include "tasks/starpu/codelet.h"

/* All exchanges of a program. */
typedef struct sl__exchanges sl__exchanges;

/* Collective over the runtime's ranks. type: NULL is the default. Rank r is model rank r % model_ranks
 * (placement.h) and computes leaves [first_leaf[r / model_ranks], first_leaf[r / model_ranks + 1]). Sums are over the
 * ranks with the same model rank. */
sl_status sl__exchanges_create(sl_runtime *runtime, const sl_exchange_type *type, int leaves, const int *first_leaf,
                               int model_ranks, sl_compression compression, sl__exchanges **exchanges);
/* Collective. Allocates memory for the values that move. The ranks of a node share it if the exchange and the system
 * allow it. It lives as long as the exchanges. */
sl_status sl__exchanges_allocate(sl__exchanges *x, size_t bytes, void **memory);
/* Whether all ranks are on one node and exchange through its memory. */
int sl__exchanges_share(const sl__exchanges *x);
/* Collective; called for the exchange nodes in the order of their buckets. data[n_in]: the node's inputs in host
 * memory; NULL: they lie in memory that all ranks share, and the node only orders its use. handle[n]: the StarPU
 * handles of inputs and outputs. urgency: sl_exchange_move.urgency; of a message only the receiver's counts. Makes the
 * StarPU task of t; t's other fields are already set. */
sl_status sl__exchanges_add(sl__exchanges *x, const sl_graph *graph, const sl_node *node, void *const *data,
                            const starpu_data_handle_t *handle, int n, double urgency, sl__task *t);
size_t sl__exchanges_bytes(const sl__exchanges *x);  /* sl_exchange_memory */
uint64_t sl__exchanges_sent(const sl__exchanges *x); /* sl_exchange_sent */
/* Prepares an exchange's task for its next submission, so that the task ends only when its exchange has ended. Call it
 * before each submission. */
void sl__exchanges_hold(sl__task *t);
/* SL_OK, or the failure that ended an exchange. Call after the step. */
sl_status sl__exchanges_status(sl__exchanges *x);
/* Collective. NULL is allowed. */
void sl__exchanges_destroy(sl__exchanges *x);

/* Seconds since any exchange made progress; 0 if none is under way. *node: the node that waits. late[ranks]: 1 for the
 * ranks that it waits for; all 0 if the implementation cannot tell. */
double sl__exchanges_stalled(sl__exchanges *x, int *node, char *late);

#endif
