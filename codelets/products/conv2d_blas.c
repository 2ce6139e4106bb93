/* conv2d, conv2d_dx and conv2d_dw by OpenBLAS. The pixels under the taps of a filter are gathered as rows of a matrix
 * (im2col), for a strip of output pixels at a time; a kernel of one tap whose stride is 1 reads the image itself. */
#include <string.h>

#include "codelets/attributes.h"
#include "codelets/products/blas.h"
#include "runtime/processors/team.h"

/* All of these sizes decide bits. */
enum {
  STRIP = 256,       /* output pixels of conv2d that are gathered at once */
  DEPTH = 1024,      /* most numbers gathered at once for an output pixel, but at least one tap */
  LONG_STRIP = 1024, /* output pixels at once of conv2d_dx and conv2d_dw */
  CHANNELS = 128     /* channels of a tile of conv2d_dx and conv2d_dw */
};

/* An image [B, H, W, C] and the grid of outputs over it. */
typedef struct view {
  const sl_conv2d_attr *a;
  int64_t H, W, C, OH, OW, pixels; /* pixels: of all outputs */
} view;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

/* image: x or dx; outputs: y or dy. */
static view view_of(const sl_call *c, const sl_array *image, const sl_array *outputs) {
  const int64_t *x = image->shape.dim, *y = outputs->shape.dim;
  return (view){.a = c->attr, .H = x[1], .W = x[2], .C = x[3], .OH = y[1], .OW = y[2], .pixels = y[0] * y[1] * y[2]};
}
static int is_direct(const view *v) { return v->a->kernel == 1 && v->a->stride == 1 && v->a->pad == 0; }
static int64_t taps_of(const view *v) { return (int64_t)v->a->kernel * v->a->kernel; }

/* Calls `at` for output pixels [from, from + n) with the offset of the image's pixel under a tap; -1: in the padding.
 */
typedef void (*pixel_at)(void *arg, int64_t i, int64_t pixel);
static inline __attribute__((always_inline)) void walk(const view *v, int64_t from, int64_t n, int64_t tap, pixel_at at,
                                                       void *arg) {
  const int64_t r = tap / v->a->kernel, s = tap % v->a->kernel;
  int64_t column = from % v->OW, row = from / v->OW % v->OH, image = from / v->OW / v->OH;
  for (int64_t i = 0; i < n; i++) {
    const int64_t h = row * v->a->stride + r - v->a->pad, w = column * v->a->stride + s - v->a->pad;
    at(arg, i, h >= 0 && h < v->H && w >= 0 && w < v->W ? (image * v->H + h) * v->W + w : -1);
    if (++column < v->OW) continue;
    column = 0;
    if (++row == v->OH) row = 0, image++;
  }
}

/* Numbers [first, first + n) of pixels, and the rows of the matrix that they become or come from. */
typedef struct rows {
  float *image, *matrix;
  int64_t C, first, n, row;
} rows;
static inline void gather_one(void *arg, int64_t i, int64_t pixel) {
  const rows *r = arg;
  float *to = r->matrix + i * r->row;
  if (pixel < 0)
    memset(to, 0, (size_t)r->n * sizeof *to);
  else
    memcpy(to, r->image + pixel * r->C + r->first, (size_t)r->n * sizeof *to);
}
static inline void add_one(void *arg, int64_t i, int64_t pixel) {
  const rows *r = arg;
  if (pixel < 0) return;
  float *restrict to = r->image + pixel * r->C + r->first;
  const float *restrict from = r->matrix + i * r->row;
  for (int64_t k = 0; k < r->n; k++) to[k] += from[k];
}

/* ---- conv2d ------------------------------------------------------------------------------------------------------ */

static int64_t taps_at_once(const view *v) { return v->C < DEPTH ? DEPTH / (v->C ? v->C : 1) : 1; }
static int64_t depth_of(const view *v) { return least(taps_at_once(v), taps_of(v)) * v->C; }

/* A strip of output pixels, all filters. */
static void forward(void *arg, int64_t tile, int thread) {
  const sl_call *c = arg;
  const view v = view_of(c, &c->in[0], &c->out[0]);
  const int64_t from = tile * STRIP, n = least(STRIP, v.pixels - from), taps = taps_of(&v), O = c->out[0].shape.dim[3];
  float *y = (float *)c->out[0].data + from * O, *scratch = c->team->scratch[thread];
  for (int64_t tap = 0; tap < taps; tap += taps_at_once(&v)) {
    const int64_t together = least(taps_at_once(&v), taps - tap), depth = together * v.C;
    sl_matrix a = {scratch, depth, 0};
    if (is_direct(&v)) a.data = (const float *)c->in[0].data + from * v.C;
    for (int64_t t = 0; t < together && !is_direct(&v); t++)
      walk(&v, from, n, tap + t, gather_one,
           &(rows){.image = c->in[0].data, .matrix = scratch + t * v.C, .C = v.C, .n = v.C, .row = depth});
    for (int part = 0; part < c->in[1].parts; part++) {
      const sl_array *w = &c->in[1].part[part];
      sl__blas_product(n, w->shape.dim[0], depth, a, (sl_matrix){(const float *)w->data + tap * v.C, taps * v.C, 1},
                       tap > 0, y + w->row0, O);
    }
  }
  if (c->n_in > 2) sl__blas_bias(&c->in[2], 0, O, n, y, O);
}

sl_status sl__conv2d_blas(const sl_call *c) {
  const view v = view_of(c, &c->in[0], &c->out[0]);
  sl_team_for(c->team, tiles_of(v.pixels, STRIP), forward, (void *)c);
  return SL_OK;
}

size_t sl__conv2d_blas_scratch(const sl_call *c) {
  const view v = view_of(c, &c->in[0], &c->out[0]);
  return is_direct(&v) ? 0 : (size_t)(STRIP * depth_of(&v)) * sizeof(float);
}

/* ---- conv2d_dx --------------------------------------------------------------------------------------------------- */

/* Some channels of one image. */
static void backward(void *arg, int64_t tile, int thread) {
  const sl_call *c = arg;
  const view v = view_of(c, &c->out[0], &c->in[0]);
  const int64_t runs = tiles_of(v.C, CHANNELS), image = tile / runs, first = tile % runs * CHANNELS,
                n = least(CHANNELS, v.C - first), O = c->in[0].shape.dim[3], K = taps_of(&v) * v.C,
                end = (image + 1) * v.OH * v.OW;
  float *dx = c->out[0].data, *scratch = c->team->scratch[thread];
  for (int64_t i = image * v.H * v.W; i < (image + 1) * v.H * v.W; i++)
    memset(dx + i * v.C + first, 0, (size_t)n * sizeof *dx);
  for (int64_t from = image * v.OH * v.OW; from < end; from += LONG_STRIP)
    for (int64_t tap = 0; tap < taps_of(&v); tap++) {
      const int64_t pixels = least(LONG_STRIP, end - from);
      float *y = is_direct(&v) ? dx + from * v.C + first : scratch;
      const int64_t y_row = is_direct(&v) ? v.C : n;
      for (int part = 0; part < c->in[1].parts; part++) {
        const sl_array *w = &c->in[1].part[part];
        sl__blas_product(pixels, n, w->shape.dim[0],
                         (sl_matrix){(const float *)c->in[0].data + from * O + w->row0, O, 0},
                         (sl_matrix){(const float *)w->data + tap * v.C + first, K, 0}, part > 0, y, y_row);
      }
      if (!is_direct(&v))
        walk(&v, from, pixels, tap, add_one,
             &(rows){.image = dx, .matrix = scratch, .C = v.C, .first = first, .n = n, .row = n});
    }
}

sl_status sl__conv2d_dx_blas(const sl_call *c) {
  const int64_t *dx = c->out[0].shape.dim;
  sl_team_for(c->team, dx[0] * tiles_of(dx[3], CHANNELS), backward, (void *)c);
  return SL_OK;
}

static size_t strip_bytes(const view *v) {
  return is_direct(v) ? 0 : (size_t)(LONG_STRIP * least(CHANNELS, v->C)) * sizeof(float);
}
size_t sl__conv2d_dx_blas_scratch(const sl_call *c) {
  const view v = view_of(c, &c->out[0], &c->in[0]);
  return strip_bytes(&v);
}

/* ---- conv2d_dw --------------------------------------------------------------------------------------------------- */

/* Some channels of one tap, all filters of the output, which may be a row block. */
static void weight_gradient(void *arg, int64_t tile, int thread) {
  const sl_call *c = arg;
  const view v = view_of(c, &c->in[1], &c->in[0]);
  const int64_t runs = tiles_of(v.C, CHANNELS), tap = tile / runs, first = tile % runs * CHANNELS,
                n = least(CHANNELS, v.C - first), O = c->in[0].shape.dim[3], K = taps_of(&v) * v.C;
  float *scratch = c->team->scratch[thread], *dw = (float *)c->out[0].data + tap * v.C + first;
  for (int64_t from = 0; from < v.pixels; from += LONG_STRIP) {
    const int64_t pixels = least(LONG_STRIP, v.pixels - from);
    sl_matrix x = {scratch, n, 0};
    if (is_direct(&v))
      x = (sl_matrix){(const float *)c->in[1].data + from * v.C + first, v.C, 0};
    else
      walk(&v, from, pixels, tap, gather_one,
           &(rows){.image = c->in[1].data, .matrix = scratch, .C = v.C, .first = first, .n = n, .row = n});
    sl__blas_product(c->out[0].shape.dim[0], n, pixels,
                     (sl_matrix){(const float *)c->in[0].data + from * O + c->out[0].row0, O, 1}, x,
                     from > 0 || (c->accumulate & 1), dw, K);
  }
}

static void bias_gradient(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const int64_t O = c->in[0].shape.dim[3], first = tile * CHANNELS, n = least(CHANNELS, c->out[1].shape.dim[0] - first);
  sl__blas_columns(O ? sl_shape_count(&c->in[0].shape) / O : 0, n,
                   (const float *)c->in[0].data + c->out[0].row0 + first, O, (c->accumulate & 2) != 0,
                   (float *)c->out[1].data + first);
}

sl_status sl__conv2d_dw_blas(const sl_call *c) {
  const view v = view_of(c, &c->in[1], &c->in[0]);
  sl_team_for(c->team, taps_of(&v) * tiles_of(v.C, CHANNELS), weight_gradient, (void *)c);
  if (c->n_out > 1) sl_team_for(c->team, tiles_of(c->out[1].shape.dim[0], CHANNELS), bias_gradient, (void *)c);
  return SL_OK;
}

size_t sl__conv2d_dw_blas_scratch(const sl_call *c) {
  const view v = view_of(c, &c->in[1], &c->in[0]);
  return strip_bytes(&v);
}
