/* What max-pooling and average-pooling share: the geometry of windows over [B, H, W, C], the loops over tiles, and the
 * rules of shape and cost. */
#ifndef SL_POOL_H
#define SL_POOL_H

#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

/* The window of output `at` along one axis: it begins at pixel `start`, which may lie before the image; its pixels
 * [from, to) lie in the image. */
typedef struct sl_window {
  int start, from, to;
} sl_window;
static inline sl_window sl_pool_window(const sl_pool_attr *a, int64_t at, int size) {
  int start = (int)at * a->stride - a->pad, end = start + a->kernel;
  return (sl_window){start, start < 0 ? 0 : start, end > size ? size : end};
}

/* The windows [from, to), of `size` windows along one axis, that contain pixel `at`. In the first of these windows the
 * pixel has index `start`. w: the windows of the previous pixel; zeros for the first pixel. */
static inline sl_window sl_pool_windows(const sl_pool_attr *a, int64_t at, int64_t size, sl_window w) {
  const int place = (int)at + a->pad;
  while (w.to < size && w.to * a->stride <= place) w.to++;
  while (w.from < w.to && w.from * a->stride + a->kernel <= place) w.from++;
  w.start = place - w.from * a->stride;
  return w;
}

/* Whether windows are disjoint. If they are, the kernel can write a gradient instead of adding it up. */
static inline int sl_pool_disjoint(const sl_pool_attr *a) { return a->stride == a->kernel && a->pad == 0; }

/* Runs a kernel over tiles of rows of the result. The kernel's argument is the call. */
static inline sl_status sl_pool_rows(const sl_call *c, sl_team_body kernel) {
  const sl_pool_attr *a = c->attr;
  const int64_t *y = c->out[0].shape.dim;
  sl_team_for(c->team, sl_tiles_of(y[0] * y[1], sl_tile_rows(c, a->kernel * a->width * y[3])), kernel, (void *)c);
  return SL_OK;
}
/* Runs a gradient's kernel over tiles of samples. in[0] is dy. */
static inline sl_status sl_pool_samples(const sl_call *c, sl_team_body kernel) {
  const sl_pool_attr *a = c->attr;
  const int64_t *dy = c->in[0].shape.dim;
  sl_team_for(c->team, sl_tiles_of(dy[0], sl_tile_rows(c, (int64_t)a->height * a->width * dy[3])), kernel, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
/* Shape rule: [B, H, W, C] -> [B, H', W', C]; stores the input's height and width in the attribute. */
static sl_status pool_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in;
  const sl_pool_attr *a = attr;
  const sl_shape *x = &in[0]->shape;
  char text[SL_SHAPE_TEXT];
  if (x->ndim != 4) return sl_fail(SL_ESHAPE, "images are [B, H, W, C], not %s", sl_shape_text(x, text, sizeof text));
  if (a->kernel < 1 || a->kernel > 16 || a->stride < 1 || a->pad < 0 || 2 * a->pad > a->kernel)
    return sl_fail(SL_EINVAL, "kernel %d (1 to 16), stride %d (1 or more), pad %d (at most half the kernel)", a->kernel,
                   a->stride, a->pad);
  if (x->dim[1] + 2 * a->pad < a->kernel || x->dim[2] + 2 * a->pad < a->kernel)
    return sl_fail(SL_ESHAPE, "a kernel of %d does not fit into %s", a->kernel, sl_shape_text(x, text, sizeof text));
  for (int j = 0; j < n_out; j++)
    out[j].shape = SL_SHAPE(x->dim[0], (x->dim[1] + 2 * a->pad - a->kernel) / a->stride + 1,
                            (x->dim[2] + 2 * a->pad - a->kernel) / a->stride + 1, x->dim[3]);
  return SL_OK;
}

/* The gradient has the input's shape; in[0] is dy. */
static sl_status pool_grad_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                                 int n_out) {
  (void)n_in, (void)n_out;
  const sl_pool_attr *a = attr;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], a->height, a->width, in[0]->shape.dim[3]);
  return SL_OK;
}

/* One addition or comparison for each element of each window. */
static void pool_cost(const sl_call *c, sl_cost *cost) {
  const sl_pool_attr *a = c->attr;
  cost->flops = (double)sl_shape_count(&c->out[0].shape) * a->kernel * a->kernel;
}

/* Adds the pooling node; fails for sizes beyond int. */
static sl_value pool_add(sl_graph *graph, const sl_operation *op, const char *layer, sl_value x, int n_out,
                         const sl_pool_attr *given) {
  sl_value out[2];
  sl_pool_attr attr = *given;
  const sl_value_info *info = sl_graph_value(graph, x);
  if (info && info->shape.ndim == 4) attr.height = (int)info->shape.dim[1], attr.width = (int)info->shape.dim[2];
  sl_graph_add(graph, op, layer, &attr, &x, 1, out, n_out);
  return out[0];
}
#endif
#endif
