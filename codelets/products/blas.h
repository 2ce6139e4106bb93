/* Linear layers and convolutions in fp32 whose products of matrices are OpenBLAS's (--products openblas), in place of
 * Starling's own.
 *
 * Each call of OpenBLAS computes one tile of the result on one thread. The sizes of a tile follow from shapes and plan,
 * so the bits depend neither on workers nor on teams. They depend on OpenBLAS's version and on the CPU for which it
 * chose its kernels; the plan names both. The rows of a shard or of a row block may have other bits than in a call for
 * all rows; with own products they have the same.
 *
 * R rows (all dimensions but the last), K inputs, N features; images are NHWC, filters [O, kernel, kernel, C]. */
#ifndef SL_CODELETS_BLAS_H
#define SL_CODELETS_BLAS_H

#include "tasks/graph/operation.h"

static inline int sl_by_blas(const sl_call *c) { return c->tiles.blas && c->in[0].dtype == SL_F32; }

/* Kernels of linear, linear_dx, linear_dw, conv2d, conv2d_dx and conv2d_dw; and bytes of scratch memory for each thread
 * (those of linear layers need none). */
sl_status sl__linear_blas(const sl_call *call);
sl_status sl__linear_dx_blas(const sl_call *call);
sl_status sl__linear_dw_blas(const sl_call *call);
sl_status sl__conv2d_blas(const sl_call *call);
sl_status sl__conv2d_dx_blas(const sl_call *call);
sl_status sl__conv2d_dw_blas(const sl_call *call);
size_t sl__conv2d_blas_scratch(const sl_call *call);
size_t sl__conv2d_dx_blas_scratch(const sl_call *call);
size_t sl__conv2d_dw_blas_scratch(const sl_call *call);

/* *gain: time of a linear layer with Starling's products (the kernels of sl_isa_current), divided by its time with
 * OpenBLAS. Each time is the shortest of several calls on one thread, with 128 rows, 512 inputs and 512 features.
 * SL_ENOMEM. Call it outside of steps. */
sl_status sl_blas_gain(double *gain);

/* A matrix in row-major order: `row` numbers from row to row; transposed: its columns are read as rows. */
typedef struct sl_matrix {
  const float *data;
  int64_t row;
  int transposed;
} sl_matrix;
/* y[m][n] = a[m][k] b[k][n], or y + a b with add. */
void sl__blas_product(int64_t m, int64_t n, int64_t k, sl_matrix a, sl_matrix b, int add, float *y, int64_t y_row);
/* to[n] = the sum of from[rows][n], or to + the sum with add, in the order of rows. */
void sl__blas_columns(int64_t rows, int64_t n, const float *from, int64_t from_row, int add, float *to);
/* y[rows][n] += the elements from `first` on of a bias that may lie in several parts. */
void sl__blas_bias(const sl_array *bias, int64_t first, int64_t n, int64_t rows, float *y, int64_t y_row);

#endif
