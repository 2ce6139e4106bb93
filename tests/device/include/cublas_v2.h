/* The part of cuBLAS's interface that Starling and StarPU use, for the emulated device. */
#ifndef EMULATED_CUBLAS_V2_H
#define EMULATED_CUBLAS_V2_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14
} cublasStatus_t;
typedef cublasStatus_t cublasStatus;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED, CUBLAS_ATOMICS_ALLOWED } cublasAtomicsMode_t;
typedef struct cublasContext *cublasHandle_t;

cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
const char *cublasGetStatusString(cublasStatus_t status);
/* Column-major C = alpha op(A) op(B) + beta C. */
cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                           int n, int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                           const float *beta, float *C, int ldc);
/* The same of `count` products, whose matrices lie the strides apart, in numbers. */
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k, const float *alpha,
                                         const float *A, int lda, long long a_stride, const float *B, int ldb,
                                         long long b_stride, const float *beta, float *C, int ldc, long long c_stride,
                                         int count);
/* The same of other types; here A and B of bf16, C and sums of float. */
typedef enum { CUBLAS_COMPUTE_32F = 68 } cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType;
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                            int n, int k, const void *alpha, const void *A, cudaDataType a_type, int lda, const void *B,
                            cudaDataType b_type, int ldb, const void *beta, void *C, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void *alpha,
                                          const void *A, cudaDataType a_type, int lda, long long a_stride,
                                          const void *B, cudaDataType b_type, int ldb, long long b_stride,
                                          const void *beta, void *C, cudaDataType c_type, int ldc, long long c_stride,
                                          int count, cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

/* Of cuBLAS's first interface, which StarPU starts and stops. */
cublasStatus_t cublasInit(void);
cublasStatus_t cublasShutdown(void);
cublasStatus_t cublasSetKernelStream(cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
