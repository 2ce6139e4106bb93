/* The GPU's implementation of linear. The buffers lie in the GPU's memory: StarPU has copied there what was missing. */
#include "linear.h"

enum { THREADS = 256 }; /* of a block */

/* Each thread computes one element of y. */
__global__ void linear_kernel(float *y, const float *x, const float *w, const float *b, int rows, int in, int out) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= rows * out) return; /* the last block has threads to spare */
  const int r = e / out, o = e % out;
  float sum = b[o];
  for (int i = 0; i < in; i++) sum = fmaf(x[r * in + i], w[o * in + i], sum);
  y[e] = sum;
}

/* Runs on the core that drives the GPU, and returns once the kernel is queued. */
void linear_gpu(void *buffers[], void *packed) {
  float *array[4];
  int rows, in, out;
  starpu_codelet_unpack_args(packed, &rows, &in, &out);
  for (int i = 0; i < 4; i++) array[i] = (float *)STARPU_VECTOR_GET_PTR(buffers[i]);
  const int blocks = (rows * out + THREADS - 1) / THREADS;
  linear_kernel<<<blocks, THREADS, 0, starpu_cuda_get_local_stream()>>>(array[3], array[0], array[1], array[2], rows,
                                                                        in, out);
}
