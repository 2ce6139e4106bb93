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
 * (sl_graph's). The team has sl_operation_scratch bytes reserved. */
sl_status sl_operation_run(const sl_operation *op, const sl_operation *convert, sl_isa isa, const sl_call *call);

#ifdef __cplusplus
}
#endif
#endif
