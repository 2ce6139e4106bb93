/* cuBLAS for the emulated device: the product of matrices in single precision (or TF32) or bf16, queued like a kernel.
 * Each element is one chain of fused multiply-adds in float (where the processor has them), k upwards, whatever the
 * sizes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cublas_v2.h"
#include "device.h"

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t mode;
};

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes) {
  (void)handle;
  device *d = emulated_owner(workspace);
  return bytes == 0 || (d && emulated_inside(d, workspace, bytes)) ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  (void)handle, (void)mode;
  return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
cublasStatus_t cublasInit(void) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasShutdown(void) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetKernelStream(cudaStream_t stream) {
  (void)stream;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- in the device's process ------------------------------------------------------------------------------------- */

enum { ROWS = 16, COLUMNS = 6, LANES = 8 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

typedef struct product {
  bool transpose_a, transpose_b, bf16; /* bf16: A and B */
  bool tf32;                           /* A and B are rounded to 11 significant bits */
  size_t m, n, k, lda, ldb, ldc;
  size_t count, a_stride, b_stride, c_stride; /* of a batch */
  float alpha, beta;
  const void *A, *B;
  float *C;
} product;

/* Permanent memory: the process cannot use malloc, because its locks may have been held when the process was forked. */
static float *room(int which, size_t floats) {
  static float *have[2];
  static size_t bytes[2];
  const size_t wanted = floats * sizeof(float);
  if (bytes[which] < wanted) {
    if (have[which]) munmap(have[which], bytes[which]);
    have[which] = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (have[which] == MAP_FAILED) abort();
    bytes[which] = wanted;
  }
  return have[which];
}

static void check_matrix(const void *x, size_t bytes, size_t rows, size_t columns, size_t ld, int write) {
  for (size_t j = 0; j < columns; j++) emulated_check((const char *)x + j * ld * bytes, rows * bytes, write);
}

static float number(const product *p, const void *x, size_t i) {
  if (p->tf32 && !p->bf16) {
    uint32_t bits;
    memcpy(&bits, (const float *)x + i, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return rounded;
  }
  if (!p->bf16) return ((const float *)x)[i];
  const uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
  float of_bits;
  memcpy(&of_bits, &bits, sizeof bits);
  return of_bits;
}

/* packed[panel][l][width]: rows (or columns) of a matrix whose element (i, l) is x[i * step + l * next]; zeros at the
 * end. */
static void pack(const product *p, float *packed, int width, const void *x, size_t step, size_t next, size_t count) {
  for (size_t from = 0; from < count; from += (size_t)width)
    for (size_t l = 0; l < p->k; l++)
      for (size_t i = from; i < from + (size_t)width; i++)
        *packed++ = i < count ? number(p, x, i * step + l * next) : 0;
}

static void tile(size_t k, const float *a, const float *b, float *sums) {
  lanes sum[COLUMNS][2] = {{{0}}};
  for (size_t l = 0; l < k; l++, a += ROWS, b += COLUMNS) {
    lanes low, high;
    memcpy(&low, a, sizeof low);
    memcpy(&high, a + LANES, sizeof high);
    for (int j = 0; j < COLUMNS; j++) {
      sum[j][0] += low * b[j];
      sum[j][1] += high * b[j];
    }
  }
  memcpy(sums, sum, sizeof sum);
}

static void multiply_one(const product *p) {
  const size_t bytes = p->bf16 ? sizeof(uint16_t) : sizeof(float);
  check_matrix(p->A, bytes, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->lda, 0);
  check_matrix(p->B, bytes, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->ldb, 0);
  if (p->beta != 0) check_matrix(p->C, sizeof *p->C, p->m, p->n, p->ldc, 0);
  check_matrix(p->C, sizeof *p->C, p->m, p->n, p->ldc, 1);
  const size_t panels = (p->m + ROWS - 1) / ROWS, strips = (p->n + COLUMNS - 1) / COLUMNS;
  float *a = room(0, panels * ROWS * p->k + 1), *b = room(1, strips * COLUMNS * p->k + 1);
  pack(p, a, ROWS, p->A, p->transpose_a ? p->lda : 1, p->transpose_a ? 1 : p->lda, p->m);
  pack(p, b, COLUMNS, p->B, p->transpose_b ? 1 : p->ldb, p->transpose_b ? p->ldb : 1, p->n);
  for (size_t strip = 0; strip < strips; strip++)
    for (size_t panel = 0; panel < panels; panel++) {
      float sums[COLUMNS][ROWS];
      tile(p->k, a + panel * ROWS * p->k, b + strip * COLUMNS * p->k, sums[0]);
      for (size_t j = 0; j < COLUMNS && strip * COLUMNS + j < p->n; j++)
        for (size_t i = 0; i < ROWS && panel * ROWS + i < p->m; i++) {
          float *c = &p->C[panel * ROWS + i + (strip * COLUMNS + j) * p->ldc];
          *c = p->beta != 0 ? p->alpha * sums[j][i] + p->beta * *c : p->alpha * sums[j][i];
        }
    }
}

static void multiply(void *arguments) {
  product p = *(const product *)arguments;
  const size_t bytes = p.bf16 ? sizeof(uint16_t) : sizeof(float);
  for (size_t i = 0; i < p.count; i++) {
    multiply_one(&p);
    p.A = (const char *)p.A + p.a_stride * bytes;
    p.B = (const char *)p.B + p.b_stride * bytes;
    p.C += p.c_stride;
  }
}

/* ---- in the program ---------------------------------------------------------------------------------------------- */

/* batch: `count` and the strides. */
static cublasStatus_t queue(cublasHandle_t handle, const char *name, bool bf16, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const float *alpha, const void *A,
                            int lda, const void *B, int ldb, const float *beta, float *C, int ldc,
                            const long long batch[4]) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || lda < (transpose_a ? k : m) || ldb < (transpose_b ? n : k) || ldc < m || lda < 1 ||
      ldb < 1 || ldc < 1 || batch[0] < 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0 || batch[0] == 0) return CUBLAS_STATUS_SUCCESS;
  const product p = {.transpose_a = transpose_a != CUBLAS_OP_N,
                     .transpose_b = transpose_b != CUBLAS_OP_N,
                     .bf16 = bf16,
                     .tf32 = handle->mode == CUBLAS_TF32_TENSOR_OP_MATH,
                     .m = (size_t)m,
                     .n = (size_t)n,
                     .k = (size_t)k,
                     .lda = (size_t)lda,
                     .ldb = (size_t)ldb,
                     .ldc = (size_t)ldc,
                     .count = (size_t)batch[0],
                     .a_stride = (size_t)batch[1],
                     .b_stride = (size_t)batch[2],
                     .c_stride = (size_t)batch[3],
                     .alpha = *alpha,
                     .beta = *beta,
                     .A = A,
                     .B = B,
                     .C = C};
  emulated_launch launch = {.run = multiply, .argument_bytes = sizeof p, .kernel = name, .file = "cuBLAS", .line = 1};
  emulated_queue_kernel(&launch, &p, handle->stream);
  return cudaPeekAtLastError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                           int n, int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                           const float *beta, float *C, int ldc) {
  return queue(handle, "cublasSgemm", false, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,
               (long long[]){1, 0, 0, 0});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                            int n, int k, const void *alpha, const void *A, cudaDataType a_type, int lda, const void *B,
                            cudaDataType b_type, int ldb, const void *beta, void *C, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  (void)algorithm;
  if (a_type != CUDA_R_16BF || b_type != CUDA_R_16BF || c_type != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_INVALID_VALUE;
  return queue(handle, "cublasGemmEx", true, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,
               (long long[]){1, 0, 0, 0});
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void *alpha,
                                          const void *A, cudaDataType a_type, int lda, long long a_stride,
                                          const void *B, cudaDataType b_type, int ldb, long long b_stride,
                                          const void *beta, void *C, cudaDataType c_type, int ldc, long long c_stride,
                                          int count, cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  (void)algorithm;
  if (a_type != CUDA_R_16BF || b_type != CUDA_R_16BF || c_type != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_INVALID_VALUE;
  return queue(handle, "cublasGemmStridedBatchedEx", true, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb,
               beta, C, ldc, (long long[]){count, a_stride, b_stride, c_stride});
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k, const float *alpha,
                                         const float *A, int lda, long long a_stride, const float *B, int ldb,
                                         long long b_stride, const float *beta, float *C, int ldc, long long c_stride,
                                         int count) {
  return queue(handle, "cublasSgemmStridedBatched", false, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb,
               beta, C, ldc, (long long[]){count, a_stride, b_stride, c_stride});
}
