/* Runs cases on a GPU. cuda_case_missing says if the build has no CUDA or the machine no GPU. */
#ifndef TESTS_CUDA_H
#define TESTS_CUDA_H

#include "tasks/graph/operation.h"

/* Why no case can run on a GPU here; NULL when it can. */
const char *cuda_case_missing(void);
/* Whether this build has CUDA kernels, with or without a GPU. */
int cuda_case_built(void);
/* Runs op->cuda on copies of the call's arrays (host memory, parts too), waits, and copies the outputs back; with
 * `fast` op->cuda_fast, if there is one. */
sl_status cuda_case_run(const sl_operation *op, const sl_call *call, int fast);

#endif
