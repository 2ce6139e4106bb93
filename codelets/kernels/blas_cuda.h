/* Matrix products by cuBLAS, which chooses the order of their sums. For .cu files only. */
#ifndef SL_BLAS_CUDA_H
#define SL_BLAS_CUDA_H

#include <cublas_v2.h>
#include <limits.h>

#include "codelets/kernels/cuda.h"

/* C [m, n] = or += op(A) op(B), of matrices stored by columns, with ld numbers from column to column; T is float or
 * sl_bf16. In bf16, cuBLAS uses tensor cores and sums in float. SL_ETASK: more than INT_MAX rows or columns, or cuBLAS
 * fails. */
template <class T>
static sl_status sl_cuda_blas(sl_cuda *cuda, const char *operation, bool transpose_a, bool transpose_b, int64_t m,
                              int64_t n, int64_t k, const T *A, int64_t lda, const T *B, int64_t ldb, bool add,
                              float *C, int64_t ldc) {
  const float one = 1, beta = add ? 1 : 0;
  const cublasOperation_t a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (m == 0 || n == 0) return SL_OK;
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX)
    return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS takes no matrix of more than %d rows or columns", operation, INT_MAX);
  cublasStatus_t status;
  if constexpr (sl_cuda_narrow<T>)
    status = cublasGemmEx(cuda->blas, a, b, (int)m, (int)n, (int)k, &one, A, CUDA_R_16BF, (int)lda, B, CUDA_R_16BF,
                          (int)ldb, &beta, C, CUDA_R_32F, (int)ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  else
    status = cublasSgemm(cuda->blas, a, b, (int)m, (int)n, (int)k, &one, A, (int)lda, B, (int)ldb, &beta, C, (int)ldc);
  if (status == CUBLAS_STATUS_SUCCESS) return SL_OK;
  return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS: %s", operation, cublasGetStatusString(status));
}

/* Matrices of a batch: the first, numbers from column to column, numbers from matrix to matrix. */
template <class T>
struct sl_cuda_batch {
  T *first;
  int64_t ld, step;
};
/* The same of `count` matrices, with a factor: C [m, n] = or += scale op(A) op(B). */
template <class T>
static sl_status sl_cuda_blas_batch(sl_cuda *cuda, const char *operation, bool transpose_a, bool transpose_b, int64_t m,
                                    int64_t n, int64_t k, float scale, sl_cuda_batch<const T> A,
                                    sl_cuda_batch<const T> B, bool add, sl_cuda_batch<float> C, int64_t count) {
  const float beta = add ? 1 : 0;
  const cublasOperation_t a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (m == 0 || n == 0 || count == 0) return SL_OK;
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || A.ld > INT_MAX || B.ld > INT_MAX || C.ld > INT_MAX ||
      count > INT_MAX)
    return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS takes no more than %d rows, columns or matrices", operation, INT_MAX);
  cublasStatus_t status;
  if constexpr (sl_cuda_narrow<T>)
    status =
        cublasGemmStridedBatchedEx(cuda->blas, a, b, (int)m, (int)n, (int)k, &scale, A.first, CUDA_R_16BF, (int)A.ld,
                                   A.step, B.first, CUDA_R_16BF, (int)B.ld, B.step, &beta, C.first, CUDA_R_32F,
                                   (int)C.ld, C.step, (int)count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  else
    status = cublasSgemmStridedBatched(cuda->blas, a, b, (int)m, (int)n, (int)k, &scale, A.first, (int)A.ld, A.step,
                                       B.first, (int)B.ld, B.step, &beta, C.first, (int)C.ld, C.step, (int)count);
  if (status == CUBLAS_STATUS_SUCCESS) return SL_OK;
  return sl_fail(SL_ETASK, "%s on a GPU: cuBLAS: %s", operation, cublasGetStatusString(status));
}

#endif
