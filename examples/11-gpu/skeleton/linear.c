/* The codelet of lesson 2. It gets a second implementation, so that StarPU may run a task on a core or on a GPU: TO DO
 * 1 is in linear_gpu.cu, TO DO 2 and 3 are here. */
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

/* TO DO 3: give the codelet a performance model: StarPU keeps the times of earlier tasks of each size there, for each
 * kind of processor. Type STARPU_HISTORY_BASED, symbol "lesson_linear"; the codelet has its address in `.model`. */

struct starpu_codelet linear_codelet = {
    .cpu_funcs = {linear_cpu},
    /* TO DO 2: the second implementation, in `.cuda_funcs`; and in `.cuda_flags` that it returns while its kernel still
     * runs, so that StarPU waits for the stream. */
    .nbuffers = 4,
    .modes = {STARPU_R, STARPU_R, STARPU_R, STARPU_W},
    .name = "linear"};
