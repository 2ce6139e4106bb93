/* Runs an operation whose arguments may be stored in 16 bits: by its own kernel for them, or by the float kernel on
 * copies in float. Both give the same bits, products aside (product.h): the result is that of the float kernel on the
 * widened inputs, rounded. */
#ifndef SL_STORAGE_H
#define SL_STORAGE_H

#include "tasks/graph/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of scratch memory per thread: what the operation asks for, and copies of the arguments where it needs them. */
size_t sl_operation_scratch(const sl_operation *op, const sl_call *call);

/* Runs the call on the CPU with kernels of this instruction set. convert: the operation that copies between types
 * (sl_graph's). call->scratch_bytes is sl_operation_scratch's, and the team has as many reserved. */
sl_status sl_operation_run(const sl_operation *op, const sl_operation *convert, sl_isa isa, const sl_call *call);

/* The same on a GPU. Bytes of scratch memory in total, 256-byte aligned; and the number of arrays that describe the
 * copies, in host memory (0: there are none). */
size_t sl_operation_scratch_cuda(const sl_operation *op, const sl_call *call);
int sl_operation_copies_cuda(const sl_operation *op, const sl_call *call);
/* Queues the call on the context's stream. fast: with the fast kernel. scratch: the context's memory, of which
 * call->scratch_bytes are this call's; arrays: as many as sl_operation_copies_cuda says. */
sl_status sl_operation_run_cuda(const sl_operation *op, const sl_operation *convert, int fast, const sl_call *call,
                                sl_cuda *cuda, void *scratch, sl_array *arrays);

#ifdef __cplusplus
}
#endif
#endif
