/* class_loss on a GPU; computes the same as class_loss.c. */
#include "codelets/losses/rows_cuda.h"

namespace {
/* Each row's part of the loss, in scratch memory. */
struct forward {
  const double *of;
  const int32_t *target;
  const double *count;
  double *loss;
  double smooth, classes;
  __device__ void operator()(int64_t i) const {
    const double *s = of + i * SL_CLASS_SUMS;
    loss[i] = target[i] < 0
                  ? 0
                  : (s[0] - (smooth > 0 ? sl_fmad(smooth, s[2] / classes, (1 - smooth) * s[1]) : s[1])) / *count;
  }
};

struct backward {
  const int32_t *target;
  const double *count, *dloss; /* dloss NULL: 1 */
  double *to;
  double smooth, classes;
  __device__ void operator()(int64_t i) const {
    const double scale = (dloss ? *dloss : 1.0) / *count;
    double *d = to + i * SL_CLASS_SUMS;
    d[0] = target[i] < 0 ? 0 : scale;
    d[1] = target[i] < 0 ? 0 : -(scale * (1 - smooth));
    d[2] = target[i] < 0 ? 0 : -(scale * smooth / classes);
  }
};

const sl_class_loss_attr *attr_of(const sl_call *c) { return (const sl_class_loss_attr *)c->attr; }
}  // namespace

extern "C" sl_status sl__class_loss_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t rows = sl_shape_count(&c->in[1].shape);
  SL_TRY(add_rows_scratch(cuda, c, "class_loss", rows, SL_CLASS_SUMS));
  SL_TRY(each_row(cuda, "class_loss", rows,
                  forward{(const double *)c->in[0].data, (const int32_t *)c->in[1].data, (const double *)c->in[2].data,
                          (double *)cuda->scratch, attr_of(c)->smoothing, (double)attr_of(c)->classes}));
  return add_rows(c, cuda, "class_loss", rows, SL_CLASS_SUMS);
}

extern "C" sl_status sl__class_loss_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return each_row(cuda, "class_loss_grad", sl_shape_count(&c->in[0].shape),
                  backward{(const int32_t *)c->in[0].data, (const double *)c->in[1].data,
                           c->n_in > 2 ? (const double *)c->in[2].data : NULL, (double *)c->out[0].data,
                           attr_of(c)->smoothing, (double)attr_of(c)->classes});
}
