/* What conv2d.c and conv2d_dw.c share: how the products of a convolution read an image.
 *
 * A "view" is one convolution: the source image [B, H, W, C], a grid of outputs over the image, and a list of taps. The
 * grid is divided into blocks of about SL_CONV2D_BLOCK output pixels: several images, one image, or some rows of an
 * image. Products find the taps by offsets in the source itself, or in a copy of a block's rows, which has zeros around
 * them and stays in the cache. */
#ifndef SL_CONV2D_VIEW_H
#define SL_CONV2D_VIEW_H

#include "codelets/attributes.h"
#include "codelets/kernels/conv2d_sizes.h"
#include "codelets/kernels/weights.h"
#include "codelets/products/conv2d_blocks.h"

/* A filter tap: its offset from an output's first tap (in rows and columns of the padded source), and its number among
 * the kernel^2 positions. */
typedef struct tap {
  int32_t row, column, position;
} tap;

typedef struct view {
  sl_walk walk;
  const sl_real *x;
  sl_dtype dtype;     /* of x; scratch rules know it from here alone */
  int64_t B, H, W, C; /* the source */
  int64_t stride;
  int64_t top, left; /* zeros before the first row and column (negative: rows and columns left out) */
  int64_t OH, OW;    /* the grid */
  int64_t taps;
  tap *tap;
  int64_t reach_row, reach_column; /* largest tap row and column */
  int64_t group;                   /* channels that belong together */
  int64_t pixel;                   /* numbers from pixel to pixel in the memory that products read */
  int direct;                      /* products read the source itself */
  sl_conv2d_blocks blocks;
} view;

/* A block of the grid. */
typedef struct box {
  int64_t image, images, row, rows, column, columns;
} box;

/* Addresses of a block's pixels: base + image * image_step + i * stride * row_step + j * stride * pixel + tap, counted
 * in numbers: floats or, in pairs, sl_bf16. */
typedef struct source {
  const void *base;
  int64_t row_step, image_step;
} source;

static inline int64_t number_bytes(sl_walk w) { return (int64_t)sizeof(float) / w.unit; }
static inline const void *number_at(sl_walk w, const void *base, int64_t i) {
  return (const char *)base + i * number_bytes(w);
}

static inline int64_t grid_of(int64_t size, const sl_conv2d_attr *a) {
  return (size + 2 * a->pad - a->kernel) / a->stride + 1;
}

/* How many numbers take the space of a float in the memory that products read. */
static inline int64_t float_numbers(const view *v) { return v->group > 1 ? v->walk.unit : 1; }

/* Computes the remaining fields from source, stride, grid, taps, top, left and group. in_order: outputs are contiguous
 * in memory. A scratch rule does not know how the kernel takes its numbers, so for bf16 it computes the largest
 * sizes. */
static inline void view_finish(view *v, int in_order) {
  const sl_walk w = v->walk;
  const int known = v->dtype == SL_F32 || w.group > 1;
  const int64_t unit = float_numbers(v);
  int64_t span = (v->OW - 1) * v->stride + v->reach_column + 1, height = (v->OH - 1) * v->stride + v->reach_row + 1,
          channels = sl_round_up(v->C, v->group);
  int clash = !known || sl_stride_clashes(v->stride * channels / unit);
  v->direct = known && !sl_walk_widens(w) && !clash && v->C == channels && v->top == 0 && v->left == 0 &&
              span <= v->W && height <= v->H;
  v->pixel = clash ? channels + 16 * unit : channels;
  if (in_order && v->taps == 1 && v->stride == 1 && v->top == 0 && v->left == 0 && v->OH == v->H &&
      v->OW == v->W) { /* a product of matrices: one long row of pixels */
    v->W = v->OW = v->B * v->H * v->W;
    v->B = v->H = v->OH = 1;
  }
  v->blocks = sl_conv2d_blocks_of(v->B, v->OH, v->OW, v->taps);
}

static inline int64_t view_blocks(const view *v) { return sl_conv2d_blocks_count(&v->blocks); }

static inline box view_box(const view *v, int64_t i) {
  const sl_conv2d_blocks *g = &v->blocks;
  int64_t column = i % g->columns, row = i / g->columns % g->rows, image = i / g->columns / g->rows;
  box b = {.image = sl_piece(v->B, g->images, image),
           .row = sl_piece(v->OH, g->rows, row),
           .column = sl_piece(v->OW, g->columns, column)};
  b.images = sl_piece(v->B, g->images, image + 1) - b.image;
  b.rows = sl_piece(v->OH, g->rows, row + 1) - b.row;
  b.columns = sl_piece(v->OW, g->columns, column + 1) - b.column;
  return b;
}

static inline int64_t padded_rows(const view *v, int64_t rows) { return (rows - 1) * v->stride + v->reach_row + 1; }
static inline int64_t padded_columns(const view *v, int64_t n) { return (n - 1) * v->stride + v->reach_column + 1; }
static inline int64_t row_step(const view *v) { return v->direct ? v->W * v->C : padded_columns(v, v->OW) * v->pixel; }

/* Number of floats in the padded copy of the largest block; 0: products read the source itself. */
static inline int64_t block_floats(const view *v) {
  return v->direct ? 0
                   : sl_tiles_of(v->B, v->blocks.images) * padded_rows(v, sl_tiles_of(v->OH, v->blocks.rows)) *
                         padded_columns(v, sl_tiles_of(v->OW, v->blocks.columns)) * (v->pixel / float_numbers(v));
}

static inline void copy_numbers(sl_walk w, int64_t n, const sl_real *from, void *to) {
  if (sl_walk_widens(w))
    sl_widen(n, from, to);
  else
    memcpy(to, from, (size_t)n * sizeof *from);
}

/* Returns the block's pixels: in place, or copied into `to` with a border of zeros. */
static inline source view_source(const view *v, const box *b, float *to) {
  const sl_walk walk = v->walk;
  const int64_t bytes = number_bytes(walk);
  if (v->direct)
    return (source){v->x + ((b->image * v->H + b->row * v->stride) * v->W + b->column * v->stride) * v->C, v->W * v->C,
                    v->H * v->W * v->C};
  int64_t rows = padded_rows(v, b->rows), columns = padded_columns(v, b->columns), step = columns * v->pixel;
  int64_t first = b->column * v->stride - v->left; /* the source's column under the copy's first */
  int64_t from = sl_min64(sl_max64(0, -first), columns), end = sl_max64(from, sl_min64(columns, v->W - first));
  for (int64_t image = 0; image < b->images; image++)
    for (int64_t row = 0; row < rows; row++) {
      int64_t h = b->row * v->stride + row - v->top;
      char *line = (char *)to + (image * rows + row) * step * bytes;
      if (h < 0 || h >= v->H || from == end) {
        memset(line, 0, (size_t)(step * bytes));
        continue;
      }
      const sl_real *x = v->x + (((b->image + image) * v->H + h) * v->W + first + from) * v->C;
      memset(line, 0, (size_t)(from * v->pixel * bytes));
      if (v->pixel == v->C) copy_numbers(walk, (end - from) * v->C, x, line + from * v->pixel * bytes);
      for (int64_t w = from; w < end && v->pixel > v->C; w++) {
        char *at = line + w * v->pixel * bytes;
        copy_numbers(walk, v->C, x + (w - from) * v->C, at);
        if (v->C % v->group) memset(at + v->C * bytes, 0, (size_t)bytes); /* completes the last pair */
      }
      memset(line + end * v->pixel * bytes, 0, (size_t)((columns - end) * v->pixel * bytes));
    }
  return (source){to, step, rows * step};
}

/* The convolution's own view of x, for conv2d and conv2d_dw (group 1). tap may be NULL (sizes only). */
static inline view view_forward(const sl_call *c, const sl_array *x, int64_t group, tap *taps) {
  const sl_conv2d_attr *a = c->attr;
  view v = {.walk = sl_walk_of(&c->tiles),
            .x = x->data,
            .dtype = x->dtype,
            .B = x->shape.dim[0],
            .H = x->shape.dim[1],
            .W = x->shape.dim[2],
            .C = x->shape.dim[3],
            .group = group,
            .stride = a->stride,
            .top = a->pad,
            .left = a->pad,
            .taps = (int64_t)a->kernel * a->kernel,
            .tap = taps,
            .reach_row = a->kernel - 1,
            .reach_column = a->kernel - 1};
  v.OH = grid_of(v.H, a), v.OW = grid_of(v.W, a);
  for (int32_t r = 0; taps && r < a->kernel; r++)
    for (int32_t s = 0; s < a->kernel; s++) taps[r * a->kernel + s] = (tap){r, s, r * a->kernel + s};
  view_finish(&v, 1);
  return v;
}

/* Bytes of the list of taps of a forward view. */
static inline size_t taps_bytes(const sl_conv2d_attr *a) {
  return sl_float_bytes((int64_t)a->kernel * a->kernel * (int64_t)(sizeof(tap) / sizeof(float)));
}

#ifdef SL_ISA_BASE
/* dy must have the shape of conv2d's result on images [B, height, width, ...]. */
static inline sl_status check_gradient(const sl_conv2d_attr *a, const sl_shape *dy) {
  if (dy->ndim == 4 && a->kernel >= 1 && a->stride >= 1 && dy->dim[1] == grid_of(a->height, a) &&
      dy->dim[2] == grid_of(a->width, a))
    return SL_OK;
  char text[SL_SHAPE_TEXT];
  return sl_fail(SL_ESHAPE, "gradient %s is not that of a convolution of %dx%d images by kernel %d, stride %d, pad %d",
                 sl_shape_text(dy, text, sizeof text), a->height, a->width, a->kernel, a->stride, a->pad);
}

/* Scratch memory of the fast CUDA kernels, without what their callers add. result: channels of a row of the gradient by
 * x, else 0. */
static inline size_t fast_bytes(const sl_call *c, const view *v, int64_t result) {
  const sl_conv2d_attr *a = c->attr;
  const int64_t number = (int64_t)sl_dtype_bytes(c->in[0].dtype), windows = v->B * v->OH * v->OW;
  return sl_conv2d_scratch_of(a->kernel, a->stride, a->pad, v->taps, v->C, windows, number, result).all;
}
#endif

#endif
