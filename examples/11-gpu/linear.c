/* The codelet of lesson 2, with a second implementation: StarPU may run a task on a core or on a GPU. */
#include "linear.h"

#include <math.h>

static void linear_cpu(void *buffers[], void *packed) {
  float *array[4];
  int rows, in, out;
  starpu_codelet_unpack_args(packed, &rows, &in, &out);
  for (int i = 0; i < 4; i++) array[i] = (float *)STARPU_VECTOR_GET_PTR(buffers[i]);
  const float *x = array[0], *w = array[1], *b = array[2];
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      float sum = b[o];
      for (int i = 0; i < in; i++) sum = fmaf(x[r * in + i], w[o * in + i], sum);
      array[3][r * out + o] = sum;
    }
}

/* StarPU keeps the times of earlier tasks of each size here, for each kind of processor. */
static struct starpu_perfmodel linear_model = {.type = STARPU_HISTORY_BASED, .symbol = "lesson_linear"};

struct starpu_codelet linear_codelet = {
    .cpu_funcs = {linear_cpu},
    .cuda_funcs = {linear_gpu},
    .cuda_flags = {STARPU_CUDA_ASYNC}, /* linear_gpu does not wait for its kernel: StarPU does */
    .nbuffers = 4,
    .modes = {STARPU_R, STARPU_R, STARPU_R, STARPU_W},
    .model = &linear_model,
    .name = "linear"};
