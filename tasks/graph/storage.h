/* Runs an operation whose arguments may be stored in 16 bits, either by the operation's own kernel for 16 bits or by
 * its float kernel on copies in float. Except for products (product.h) both give the same bits: the float kernel's
 * result on the widened inputs, rounded. */
#ifndef SL_STORAGE_H
#define SL_STORAGE_H

#include "tasks/graph/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of scratch memory per thread: those that the operation asks for, and those of copies of the arguments if the
 * call needs copies. */
size_t sl_operation_scratch(const sl_operation *op, const sl_call *call);

/* Runs the call on the CPU with kernels of this instruction set. convert: the operation that copies between types
 * (sl_graph's). call->scratch_bytes is sl_operation_scratch's, and the team has as many reserved. */
sl_status sl_operation_run(const sl_operation *op, const sl_operation *convert, sl_isa isa, const sl_call *call);

/* The same on a GPU. fast: for the fast kernel. The first function returns the bytes of scratch memory in total,
 * 256-byte aligned. The second one returns the number of arrays in host memory that describe the copies (0: there are
 * no copies). */
size_t sl_operation_scratch_cuda(const sl_operation *op, int fast, const sl_call *call);
int sl_operation_copies_cuda(const sl_operation *op, const sl_call *call);
/* Queues the call on the context's stream. scratch: the context's memory, of which this call uses call->scratch_bytes
 * bytes. arrays: room for as many arrays as sl_operation_copies_cuda returns. */
sl_status sl_operation_run_cuda(const sl_operation *op, const sl_operation *convert, int fast, const sl_call *call,
                                sl_cuda *cuda, void *scratch, sl_array *arrays);

#ifdef __cplusplus
}
#endif
#endif
