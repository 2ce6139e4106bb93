/* The hook by which cases run on a GPU. Without CUDA in the build, or a GPU in the machine, cuda_case_missing says so.
 */
#ifndef TESTS_CUDA_H
#define TESTS_CUDA_H

#include "tasks/graph/operation.h"

/* Why no case can run on a GPU here; NULL when it can. */
const char *cuda_case_missing(void);
/* Whether this build has CUDA kernels, be there a GPU or not; and whether op's are products by cuBLAS, whose bits
 * change with sizes and alignment. */
int cuda_case_built(void);
int cuda_case_uses_blas(const sl_operation *op);
/* Runs op->cuda on copies of the call's arrays (host memory, parts too), waits, and copies the outputs back. */
sl_status cuda_case_run(const sl_operation *op, const sl_call *call);

#endif
