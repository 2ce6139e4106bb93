/* add_class_sums on a GPU; computes the same as add_class_sums.c. */
#include "codelets/losses/rows_cuda.h"

namespace {
struct forward {
  const double *one, *other;
  double *to;
  __device__ void operator()(int64_t i) const {
    const double *a = one + i * SL_CLASS_SUMS, *b = other + i * SL_CLASS_SUMS;
    double *sum = to + i * SL_CLASS_SUMS;
    const double max = a[0] > b[0] ? a[0] : b[0];
    sum[0] = max + sl_log_d(sl_exp_d(a[0] - max) + sl_exp_d(b[0] - max));
    sum[1] = a[1] + b[1];
    sum[2] = a[2] + b[2];
  }
};

struct backward {
  const double *dsum, *sum, *part;
  double *to;
  __device__ void operator()(int64_t row) const {
    const int64_t i = row * SL_CLASS_SUMS;
    const double slope = sl_exp_d(part[i] - sum[i]);
    to[i] = dsum[i] * slope;
    to[i + 1] = dsum[i + 1];
    to[i + 2] = dsum[i + 2];
  }
};

int64_t rows(const sl_call *c) { return sl_shape_count(&c->in[0].shape) / SL_CLASS_SUMS; }
}  // namespace

extern "C" sl_status sl__add_class_sums_cuda(const sl_call *c, sl_cuda *cuda) {
  return each_row(cuda, "add_class_sums", rows(c),
                  forward{(const double *)c->in[0].data, (const double *)c->in[1].data, (double *)c->out[0].data});
}

extern "C" sl_status sl__add_class_sums_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return each_row(cuda, "add_class_sums_grad", rows(c),
                  backward{(const double *)c->in[0].data, (const double *)c->in[1].data, (const double *)c->in[2].data,
                           (double *)c->out[0].data});
}
