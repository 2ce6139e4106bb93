/* Lesson 11: a layer's product, y = x w^T + b, with an implementation for each kind of processor. */
#ifndef LINEAR_H
#define LINEAR_H

#include <starpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers: x [rows][in], w [out][in], b [out], y [rows][out], all F32. Packed: rows, in, out.
 *
 * Each element of y is one chain of fused multiply-adds, which round once: it begins with the bias, and i ascends. So
 * it is defined to the last bit. */
extern struct starpu_codelet linear_codelet;

void linear_gpu(void *buffers[], void *packed); /* linear_gpu.cu */

#ifdef __cplusplus
}
#endif
#endif
