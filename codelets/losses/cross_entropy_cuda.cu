/* cross_entropy on a GPU; computes the same as cross_entropy.c. One difference: a kernel cannot make the step fail at
 * once. So a target beyond the classes makes the log-sum-exp of its row NaN, and thereby the loss; the check of the
 * loss then stops the run. */
#include "codelets/losses/rows_cuda.h"

namespace {
/* Each row's log-sum-exp, and its part of the loss in scratch memory. */
template <bool SMOOTH>
struct row_loss {
  const float *logits;
  const int32_t *target;
  const double *count;
  double *lse, *loss;
  int64_t V;
  double smooth;

  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const int32_t t = target[i];
    if (t < 0 || t >= V) { /* the same for all threads of the row */
      if (thread == 0) lse[i] = loss[i] = t < 0 ? 0 : (double)NAN;
      return;
    }
    const float *x = logits + i * V;
    float odd = 0;
    const sums all = row_sums<SMOOTH>{V}.template of<T>(x, thread, &odd);
    if (thread > 0) return;
    const double value = (double)all.max + sl_log_d(all.exps) + (double)odd, aim = (double)x[t];
    lse[i] = value;
    loss[i] = (value - (SMOOTH ? sl_fmad(smooth, all.plain / (double)V, (1 - smooth) * aim) : aim)) / *count;
  }
};

struct backward {
  const float *logits;
  const int32_t *target;
  const double *count, *lse, *dloss; /* dloss NULL: 1 */
  float *to;
  int64_t V;
  double smooth;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = logits + i * V;
    float *dx = to + i * V;
    if (target[i] < 0) {
      for (int64_t k = thread; k < V; k += T) dx[k] = 0;
      return;
    }
    const double scale = (dloss ? *dloss : 1.0) / *count;
    row_slopes<T>(x, V, target[i], lse[i], scale, (float)(scale * smooth / (double)V), (float)(scale * (1 - smooth)),
                  dx, thread);
  }
};

int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
double smoothing(const sl_call *c) { return ((const sl_cross_entropy_attr *)c->attr)->smoothing; }
}  // namespace

extern "C" sl_status sl__cross_entropy_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t rows = sl_shape_count(&c->in[1].shape), V = classes(c);
  const float *logits = (const float *)c->in[0].data;
  const int32_t *target = (const int32_t *)c->in[1].data;
  const double *count = (const double *)c->in[2].data;
  SL_TRY(add_rows_scratch(cuda, c, "cross_entropy", rows, V));
  double *lse = (double *)c->out[1].data, *loss = (double *)cuda->scratch;
  if (smoothing(c) > 0)
    SL_TRY(sl_cuda_rows(cuda, "cross_entropy", rows, V,
                        row_loss<true>{logits, target, count, lse, loss, V, smoothing(c)}));
  else
    SL_TRY(sl_cuda_rows(cuda, "cross_entropy", rows, V, row_loss<false>{logits, target, count, lse, loss, V, 0}));
  return add_rows(c, cuda, "cross_entropy", rows, V);
}

extern "C" sl_status sl__cross_entropy_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(
      cuda, "cross_entropy_grad", sl_shape_count(&c->in[1].shape), classes(c),
      backward{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, (const double *)c->in[2].data,
               (const double *)c->in[3].data, c->n_in > 4 ? (const double *)c->in[4].data : NULL,
               (float *)c->out[0].data, classes(c), smoothing(c)});
}
