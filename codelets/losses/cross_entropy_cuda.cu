/* cross_entropy on a GPU; the meaning is cross_entropy.c's, with one difference: a kernel cannot fail the step at once,
 * so a target beyond the classes makes its row's log-sum-exp, and with it the loss, NaN, and the check of the loss
 * stops the run. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct log_sum_exp {
  const float *logits;
  const int32_t *target;
  double *lse;
  int64_t V;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    if (target[i] < 0 || target[i] >= V) { /* the same for all threads of the row */
      if (thread == 0) lse[i] = target[i] < 0 ? 0 : (double)NAN;
      return;
    }
    const float *x = logits + i * V;
    float max = -INFINITY;
    for (int64_t k = thread; k < V; k += T) max = sl_cuda_greater()(max, x[k]);
    max = sl_cuda_reduce<T>(max, sl_cuda_greater());
    double sum = 0;
    for (int64_t k = thread; k < V; k += T)
      sum += (double)(expf(x[k] - max) + (x[k] - x[k])); /* + 0, or NaN if not finite */
    sum = sl_cuda_reduce<T>(sum, sl_cuda_plus());
    if (thread == 0) lse[i] = (double)max + log(sum);
  }
};

/* The value subtracted from a row's log-sum-exp: its target's logit or, with smoothing, a weighted mean of all logits.
 * One per row, in scratch memory. */
struct row_aim {
  const float *logits;
  const int32_t *target;
  double *aim;
  int64_t V;
  double smooth;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    if (target[i] < 0 || target[i] >= V) return; /* the same for all threads of the row */
    const float *x = logits + i * V;
    double sum = 0;
    for (int64_t k = thread; k < V; k += T) sum += (double)x[k];
    sum = sl_cuda_reduce<T>(sum, sl_cuda_plus());
    if (thread == 0) aim[i] = (1 - smooth) * (double)x[target[i]] + smooth * (sum / (double)V);
  }
};

struct row_loss {
  const float *logits;
  const int32_t *target;
  const double *lse, *count, *aim; /* aim NULL: no smoothing */
  int64_t V;
  __device__ double operator()(int64_t i) const {
    if (target[i] < 0) return 0;
    if (target[i] >= V) return (double)NAN;
    return (lse[i] - (aim ? aim[i] : (double)logits[i * V + target[i]])) / *count;
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
    const float high = (float)lse[i], factor = (float)(exp((double)high - lse[i]) * scale);
    const float even = (float)(scale * smooth / (double)V), one = (float)(scale * (1 - smooth));
    for (int64_t k = thread; k < V; k += T) {
      float d = expf(x[k] - high) * factor - even;
      dx[k] = k == target[i] ? d - one : d;
    }
  }
};

int64_t classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
double smoothing(const sl_call *c) { return ((const sl_cross_entropy_attr *)c->attr)->smoothing; }
}  // namespace

extern "C" sl_status sl__cross_entropy_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t rows = sl_shape_count(&c->in[1].shape), V = classes(c);
  const float *logits = (const float *)c->in[0].data;
  const int32_t *target = (const int32_t *)c->in[1].data;
  double *lse = (double *)c->out[1].data;
  SL_TRY(sl_cuda_rows(cuda, "cross_entropy", rows, V, log_sum_exp{logits, target, lse, V}));
  double *aim = NULL;
  if (smoothing(c) > 0) {
    SL_TRY(sl_cuda_scratch(cuda, SL_CUDA_SUM_BYTES + (size_t)rows * sizeof *aim, "cross_entropy"));
    aim = (double *)((char *)cuda->scratch + SL_CUDA_SUM_BYTES);
    SL_TRY(sl_cuda_rows(cuda, "cross_entropy", rows, V, row_aim{logits, target, aim, V, smoothing(c)}));
  }
  return sl_cuda_sum(cuda, "cross_entropy", 0, rows,
                     row_loss{logits, target, lse, (const double *)c->in[2].data, aim, V}, sl_cuda_output(c, 0));
}

extern "C" sl_status sl__cross_entropy_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return sl_cuda_rows(
      cuda, "cross_entropy_grad", sl_shape_count(&c->in[1].shape), classes(c),
      backward{(const float *)c->in[0].data, (const int32_t *)c->in[1].data, (const double *)c->in[2].data,
               (const double *)c->in[3].data, c->n_in > 4 ? (const double *)c->in[4].data : NULL,
               (float *)c->out[0].data, classes(c), smoothing(c)});
}
