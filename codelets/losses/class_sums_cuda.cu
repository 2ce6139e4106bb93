/* class_sums on a GPU; computes the same as class_sums.c. One difference: a kernel cannot make the step fail at once.
 * So a target beyond the classes makes the sums of its row NaN, and thereby the loss; the check of the loss then stops
 * the run. */
#include "codelets/losses/rows_cuda.h"

namespace {
struct forward {
  const float *logits;
  const int32_t *target;
  double *sums;
  int64_t V, from, all;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const int64_t t = target[i], aim = t - from;
    double *to = sums + i * SL_CLASS_SUMS;
    if (t < 0 || t >= all) { /* the same for all threads of the row */
      if (thread < SL_CLASS_SUMS) to[thread] = t < 0 ? 0 : (double)NAN;
      return;
    }
    const float *x = logits + i * V;
    float odd = 0;
    const struct sums row = row_sums<true>{V}.template of<T>(x, thread, &odd);
    if (thread > 0) return;
    to[0] = (double)row.max + sl_log_d(row.exps) + (double)odd;
    to[1] = aim >= 0 && aim < V ? (double)x[aim] : 0;
    to[2] = row.plain;
  }
};

struct backward {
  const float *logits;
  const int32_t *target;
  const double *sums, *dsums;
  float *to;
  int64_t V, from;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const double *s = sums + i * SL_CLASS_SUMS, *d = dsums + i * SL_CLASS_SUMS;
    float *dx = to + i * V;
    if (target[i] < 0)
      for (int64_t k = thread; k < V; k += T) dx[k] = 0;
    else
      row_slopes<T>(logits + i * V, V, target[i] - from, s[0], d[0], (float)-d[2], (float)-d[1], dx, thread);
  }
};

int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
const sl_classes_attr *attr_of(const sl_call *c) { return (const sl_classes_attr *)c->attr; }
}  // namespace

extern "C" sl_status sl__class_sums_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(cuda, "class_sums", sl_shape_count(&c->in[1].shape), classes(c),
                      forward{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, (double *)c->out[0].data,
                              classes(c), attr_of(c)->from, attr_of(c)->all});
}

extern "C" sl_status sl__class_sums_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(
      cuda, "class_sums_grad", sl_shape_count(&c->in[1].shape), classes(c),
      backward{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, (const double *)c->in[2].data,
               (const double *)c->in[3].data, (float *)c->out[0].data, classes(c), attr_of(c)->from});
}
