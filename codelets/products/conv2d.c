/* conv2d: y[b, i, j, o] = bias[o] + sum over (r, s, c) of x[b, i stride + r - pad, j stride + s - pad, c] w[o, r, s,
 * c], and its gradients. Images are NHWC, filters [O, kernel, kernel, C].
 *
 * The convolutions are direct, without im2col. A register tile (product.h) takes up to 14 neighbouring pixels and two
 * vectors of output channels. A table of offsets finds the taps in a copy of a few image rows, which has zeros around
 * them and stays in the cache. The gradient by x is a convolution of dy with the rotated filters. Each phase of the
 * stride has a convolution of its own, so that inserted zeros are never multiplied. The gradient by w sums over pixels,
 * with the taps as rows of the tile.
 *
 * A "view" below is one such convolution: the source image [B, H, W, C], a grid of outputs over the image, and a list
 * of taps. The grid is divided into blocks of about SL_CONV2D_BLOCK output pixels: several images, one image, or some
 * rows of an image.
 *
 * In bf16, the contraction takes its numbers by pairs (sl_walk in weights.h): pairs of channels for conv2d and
 * conv2d_dx, pairs of pixels of a row for conv2d_dw. An odd last number is paired with zero. Sums are rounded when they
 * are complete. */
#include "codelets/attributes.h"
#include "codelets/kernels/conv2d_sizes.h"
#include "codelets/kernels/product_sizes.h"
#include "codelets/kernels/weights.h"
#include "codelets/products/blas.h"
#include "codelets/products/by_blocks.h"
#include "codelets/products/conv2d_blocks.h"

SL_KERNEL_DECLARE(conv2d);
SL_KERNEL_DECLARE(conv2d_dx);
SL_KERNEL_DECLARE(conv2d_dw);

enum { PANEL = SL_PRODUCT_COLUMNS, WIDEST = SL_PRODUCT_COLUMNS_MOST };

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

typedef struct box {
  int64_t image, images, row, rows, column, columns;
} box;

/* Addresses of a block's pixels: base + image * image_step + i * stride * row_step + j * stride * pixel + tap, counted
 * in numbers: floats or, in pairs, sl_bf16. */
typedef struct source {
  const void *base;
  int64_t row_step, image_step;
} source;

static int64_t number_bytes(sl_walk w) { return (int64_t)sizeof(float) / w.unit; }
static const void *number_at(sl_walk w, const void *base, int64_t i) {
  return (const char *)base + i * number_bytes(w);
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static int64_t grid_of(int64_t size, const sl_conv2d_attr *a) {
  return (size + 2 * a->pad - a->kernel) / a->stride + 1;
}

/* How many numbers take the space of a float in the memory that products read. */
static int64_t float_numbers(const view *v) { return v->group > 1 ? v->walk.unit : 1; }

/* Computes the remaining fields from source, stride, grid, taps, top, left and group. in_order: outputs are contiguous
 * in memory. A scratch rule does not know how the kernel takes its numbers, so for bf16 it computes the largest
 * sizes. */
static void view_finish(view *v, int in_order) {
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

static int64_t view_blocks(const view *v) { return sl_conv2d_blocks_count(&v->blocks); }

static box view_box(const view *v, int64_t i) {
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

static int64_t padded_rows(const view *v, int64_t rows) { return (rows - 1) * v->stride + v->reach_row + 1; }
static int64_t padded_columns(const view *v, int64_t n) { return (n - 1) * v->stride + v->reach_column + 1; }
static int64_t row_step(const view *v) { return v->direct ? v->W * v->C : padded_columns(v, v->OW) * v->pixel; }

/* Number of floats in the padded copy of the largest block; 0: products read the source itself. */
static int64_t block_floats(const view *v) {
  return v->direct ? 0
                   : sl_tiles_of(v->B, v->blocks.images) * padded_rows(v, sl_tiles_of(v->OH, v->blocks.rows)) *
                         padded_columns(v, sl_tiles_of(v->OW, v->blocks.columns)) * (v->pixel / float_numbers(v));
}

static void copy_numbers(sl_walk w, int64_t n, const sl_real *from, void *to) {
  if (sl_walk_widens(w))
    sl_widen(n, from, to);
  else
    memcpy(to, from, (size_t)n * sizeof *from);
}

/* Returns the block's pixels: in place, or copied into `to` with a border of zeros. */
static source view_source(const view *v, const box *b, float *to) {
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

/* How many channels a contraction over channels takes together: 2 in pairs, else 1. */
static int64_t group_of(sl_dtype dtype) { return dtype == SL_F32 ? 1 : 2; }

/* The convolution's own view of x, for conv2d and conv2d_dw (group 1). tap may be NULL (sizes only). */
static view view_forward(const sl_call *c, const sl_array *x, int64_t group, tap *taps) {
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

/* The taps of dx at rows = phase (mod stride). Output row i of dy reaches input row i stride + r - pad, so the offsets
 * of dy's rows are (phase + pad - r) / stride. Returns the number of taps, and the smallest and the largest offset. */
static int64_t phase_taps(const sl_conv2d_attr *a, int phase, int32_t *position, int32_t *offset, int64_t *least,
                          int64_t *most) {
  int64_t n = 0;
  *least = *most = 0;
  for (int32_t r = a->kernel - 1; r >= 0; r--) { /* offsets ascend */
    int32_t d = phase + a->pad - r;
    if (d % a->stride) continue;
    d /= a->stride;
    if (n == 0) *least = d;
    *most = d;
    if (position) position[n] = r, offset[n] = d;
    n++;
  }
  return n;
}

/* The view of dy whose outputs are dx at rows = row (mod stride), columns = column (mod stride). work has room for
 * 4 kernel numbers; taps and work may be NULL (sizes only). */
static view view_phase(const sl_call *c, const sl_array *dy, int row, int column, tap *taps, int32_t *work) {
  const sl_conv2d_attr *a = c->attr;
  view v = {.walk = sl_walk_of(&c->tiles),
            .x = dy->data,
            .dtype = dy->dtype,
            .B = dy->shape.dim[0],
            .H = dy->shape.dim[1],
            .W = dy->shape.dim[2],
            .C = dy->shape.dim[3],
            .group = group_of(dy->dtype),
            .stride = 1,
            .tap = taps,
            .OH = sl_tiles_of(a->height - row, a->stride),
            .OW = sl_tiles_of(a->width - column, a->stride)};
  int64_t row0, row1, column0, column1;
  int32_t *r = work, *dr = work ? r + a->kernel : NULL, *s = work ? dr + a->kernel : NULL,
          *ds = work ? s + a->kernel : NULL;
  int64_t R = phase_taps(a, row, r, dr, &row0, &row1);
  int64_t S = phase_taps(a, column, s, ds, &column0, &column1);
  v.taps = R * S;
  v.top = -row0, v.left = -column0, v.reach_row = row1 - row0, v.reach_column = column1 - column0;
  for (int64_t i = 0; taps && i < R; i++)
    for (int64_t j = 0; j < S; j++)
      taps[i * S + j] = (tap){(int32_t)(dr[i] - row0), (int32_t)(ds[j] - column0), r[i] * a->kernel + s[j]};
  view_finish(&v, a->stride == 1);
  return v;
}

/* ---- conv2d and conv2d_dx ---------------------------------------------------------------------------------------- */

/* Products sum over k = (channel piece, tap, channel in the piece), in the steps of sl_walk. With pieces of channels, a
 * kernel reads little of the image before it adds to the same result again. */
typedef struct job {
  const sl_call *c;
  const sl_conv2d_attr *attr;
  sl_walk walk;
  view v;
  int transposed;      /* dx: the view's channels are filters, its outputs the filters' channels */
  int64_t O, channels; /* outputs of the view; the filters' channels */
  int64_t pieces;
  int64_t steps;                              /* of a tap */
  int32_t *at;                                /* [taps steps] */
  float *start, *panels;                      /* [ceil(O / PANEL)][PANEL]; [ceil(O / PANEL)][taps steps][PANEL] */
  size_t own;                                 /* offset of a thread's own scratch */
  sl_real *y;                                 /* of the phase's first output */
  int64_t column_step, line_step, image_step; /* of y */
} job;

static size_t taps_bytes(const sl_conv2d_attr *a) {
  return sl_float_bytes((int64_t)a->kernel * a->kernel * (int64_t)(sizeof(tap) / sizeof(float)));
}
static int64_t groups_of(const view *v) { return sl_tiles_of(v->C, v->group); }
static int64_t pieces_of(const view *v) { return sl_conv2d_pieces(v->taps, groups_of(v), SL_PRODUCT_DEPTH / v->group); }

/* dx: the numbers of a filter at a tap, from channel `first` on; NULL: there is no such filter. */
static const sl_real *filter_at(const job *j, int64_t filter, int64_t tap, int64_t first) {
  const sl_array *weights = &j->c->in[1];
  const int64_t row = (int64_t)j->attr->kernel * j->attr->kernel * j->channels;
  for (int part = 0; part < weights->parts; part++) {
    const sl_array *w = &weights->part[part];
    if (filter >= w->row0 && filter < w->row0 + w->shape.dim[0])
      return (const sl_real *)w->data + (filter - w->row0) * row + j->v.tap[tap].position * j->channels + first;
  }
  return NULL;
}

static void pack_filters(void *arg, int64_t panel, int thread) {
  (void)thread;
  const job *j = arg;
  const sl_walk walk = j->walk;
  const sl_array *weights = &j->c->in[1];
  int64_t K = j->v.taps * j->steps, row = (int64_t)j->attr->kernel * j->attr->kernel * j->channels;
  int64_t first = panel * PANEL, n = sl_min64(PANEL, j->O - first);
  float *to = j->panels + panel * K * PANEL;
  if (n < PANEL) memset(to, 0, (size_t)(K * PANEL) * sizeof *to);
  for (int64_t piece = 0; piece < j->pieces; piece++) {
    int64_t groups = groups_of(&j->v), from = sl_walk_piece(walk, groups, j->pieces, piece) * walk.group,
            end = sl_walk_piece(walk, groups, j->pieces, piece + 1) * walk.group,
            steps = (end - from) / walk.group * walk.steps;
    for (int64_t t = 0; t < j->v.taps; t++, to += steps * PANEL) {
      for (int64_t k = from; j->transposed && k < end; k += walk.group)
        sl_pack_group(walk, filter_at(j, k, t, first), walk.group > 1 ? filter_at(j, k + 1, t, first) : NULL, n, n,
                      to + (k - from) / walk.group * walk.steps * PANEL, PANEL);
      for (int part = 0; !j->transposed && part < weights->parts; part++) {
        const sl_array *w = &weights->part[part];
        int64_t o = sl_max64(first, w->row0), last = sl_min64(first + n, w->row0 + w->shape.dim[0]);
        if (o < last)
          sl_pack_columns(walk, last - o, sl_min64(end, j->v.C) - from,
                          (const sl_real *)w->data + (o - w->row0) * row + j->v.tap[t].position * j->channels + from,
                          row, to + o - first, PANEL);
      }
    }
  }
}

/* The sums of a block's pixels, in order, for GROUP outputs. They lie in scratch memory until they are rounded. */
enum { GROUP = PANEL, WIDEST_GROUP = WIDEST };

#ifdef SL_STORE_BF16
static void store_sums(const job *j, const box *b, int64_t outputs, const float *sums, sl_real *y) {
  for (int64_t image = 0; image < b->images; image++)
    for (int64_t row = 0; row < b->rows; row++)
      for (int64_t column = 0; column < b->columns; column++, sums += GROUP)
        sl_narrow(outputs, sums, y + image * j->image_step + row * j->line_step + column * j->column_step);
}
#endif

static void convolve(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const view *v = &j->v;
  box b = view_box(v, tile);
  float *scratch = sl_own_scratch(j->c, thread, j->own);
  source x = view_source(v, &b, scratch);
  int64_t K = v->taps * j->steps, groups = groups_of(v), segments = sl_walk_strips(j->walk, b.columns);
  sl_real *y = j->y + b.image * j->image_step + b.row * j->line_step + b.column * j->column_step;
#ifdef SL_STORE_BF16
  const int64_t group = GROUP, column_step = GROUP, line_step = b.columns * GROUP, image_step = b.rows * line_step;
  float *sums = scratch + sl_round_up(block_floats(v), 16);
#else
  const int64_t group = j->O, column_step = j->column_step, line_step = j->line_step, image_step = j->image_step;
  float *sums = y;
#endif
  for (int64_t first = 0; first < j->O; first += group) {
    const int64_t end = sl_min64(j->O, first + group);
    for (int64_t piece = 0; piece < j->pieces; piece++) {
      int64_t k = v->taps * sl_walk_piece(j->walk, groups, j->pieces, piece) * j->walk.steps,
              depth = v->taps * sl_walk_piece(j->walk, groups, j->pieces, piece + 1) * j->walk.steps - k;
      for (int64_t o = first; o < end; o += PANEL)
        for (int64_t image = 0; image < b.images; image++)
          for (int64_t row = 0; row < b.rows; row++)
            for (int64_t segment = 0, from = 0, end_at; segment < segments; segment++, from = end_at) {
              end_at = sl_walk_strip(j->walk, b.columns, segment + 1);
              const int64_t pixel = image * x.image_step + row * v->stride * x.row_step + from * v->stride * v->pixel;
              sl_walk_product(j->walk, end_at - from, sl_min64(PANEL, j->O - o), depth,
                              number_at(j->walk, x.base, pixel), v->stride * v->pixel, j->at + k,
                              j->panels + o * K + k * PANEL, PANEL,
                              sums + image * image_step + row * line_step + from * column_step + o - first, column_step,
                              piece ? NULL : j->start + o, piece > 0, NULL);
            }
    }
#ifdef SL_STORE_BF16
    store_sums(j, &b, end - first, sums, y + first);
#endif
  }
}

/* Scratch memory of conv2d and conv2d_dx: the part that all threads share, and each thread's own part. K: how many
 * numbers the contraction has, including the zeros that complete pairs. */
static size_t shared_bytes(const sl_conv2d_attr *a, int64_t K, int64_t O) {
  return taps_bytes(a) + sl_float_bytes(4 * a->kernel) + sl_float_bytes(K) + sl_float_bytes(sl_round_up(O, WIDEST)) +
         sl_float_bytes(sl_round_up(O, WIDEST) * K);
}

/* Lays out the shared memory; taps, at and panels are filled later. */
static tap *lay_out(job *j, int64_t K, int64_t O, int32_t **work) {
  char *at = j->c->team->scratch[0];
  tap *taps = (tap *)at;
  at += taps_bytes(j->attr);
  *work = (int32_t *)at, at += sl_float_bytes(4 * j->attr->kernel);
  j->at = (int32_t *)at, at += sl_float_bytes(K);
  j->start = (float *)at, at += sl_float_bytes(sl_round_up(O, WIDEST));
  j->panels = (float *)at;
  j->own = shared_bytes(j->attr, K, O);
  memset(j->start, 0, sl_float_bytes(sl_round_up(O, WIDEST)));
  return taps;
}

/* How many numbers the contraction over the channels of x (for dx, of dy) and over `taps` taps has. */
static int64_t most_numbers(const sl_array *x, int64_t taps) {
  return taps * sl_round_up(x->shape.dim[3], group_of(x->dtype));
}

static void run(job *j) {
  const view *v = &j->v;
  int32_t *at = j->at;
  j->pieces = pieces_of(v);
  const int64_t groups = groups_of(v), each = j->walk.steps;
  j->steps = groups * each;
  for (int64_t piece = 0; piece < j->pieces; piece++)
    for (int64_t t = 0; t < v->taps; t++)
      for (int64_t i = sl_walk_piece(j->walk, groups, j->pieces, piece) * each;
           i < sl_walk_piece(j->walk, groups, j->pieces, piece + 1) * each; i++)
        *at++ = (int32_t)(v->tap[t].row * row_step(v) + v->tap[t].column * v->pixel) + sl_walk_at(j->walk, (int32_t)i);
  sl_team_for(j->c->team, sl_tiles_of(j->O, PANEL), pack_filters, j);
  sl_team_for(j->c->team, view_blocks(v), convolve, j);
}

sl_status SL_KERNEL(conv2d)(const sl_call *c) {
#ifndef SL_STORE_BF16
  if (c->tiles.blas) return sl__conv2d_blas(c);
#endif
  const sl_shape *y = &c->out[0].shape;
  job j = {.c = c,
           .attr = c->attr,
           .walk = sl_walk_of(&c->tiles),
           .O = y->dim[3],
           .channels = c->in[0].shape.dim[3],
           .y = c->out[0].data};
  int32_t *work;
  tap *taps = lay_out(&j, most_numbers(&c->in[0], (int64_t)j.attr->kernel * j.attr->kernel), j.O, &work);
  for (int part = 0; c->n_in > 2 && part < c->in[2].parts; part++) {
    const sl_array *bias = &c->in[2].part[part];
    memcpy(j.start + bias->row0, bias->data, (size_t)bias->shape.dim[0] * sizeof(float));
  }
  j.v = view_forward(c, &c->in[0], group_of(c->in[0].dtype), taps);
  j.column_step = j.O, j.line_step = y->dim[2] * j.O, j.image_step = y->dim[1] * j.line_step;
  run(&j);
  return SL_OK;
}

/* The largest number of taps of a phase of the stride. */
static int64_t most_taps(const sl_conv2d_attr *a) {
  int64_t side = sl_tiles_of(a->kernel, a->stride);
  return side * side;
}

sl_status SL_KERNEL(conv2d_dx)(const sl_call *c) {
#ifndef SL_STORE_BF16
  if (c->tiles.blas) return sl__conv2d_dx_blas(c);
#endif
  const sl_shape *dx = &c->out[0].shape;
  job j = {
      .c = c, .attr = c->attr, .walk = sl_walk_of(&c->tiles), .transposed = 1, .O = dx->dim[3], .channels = dx->dim[3]};
  int32_t *work;
  tap *taps = lay_out(&j, most_numbers(&c->in[0], most_taps(j.attr)), j.O, &work);
  int64_t stride = j.attr->stride, line = dx->dim[2] * j.O;
  j.column_step = stride * j.O, j.line_step = stride * line, j.image_step = dx->dim[1] * line;
  for (int row = 0; row < sl_min64(stride, dx->dim[1]); row++)
    for (int column = 0; column < sl_min64(stride, dx->dim[2]); column++) {
      j.y = (sl_real *)c->out[0].data + row * line + column * j.O;
      j.v = view_phase(c, &c->in[0], row, column, taps, work);
      run(&j);
    }
  return SL_OK;
}

/* ---- conv2d_dw --------------------------------------------------------------------------------------------------- */

typedef struct dw_job {
  const sl_call *c;
  view v;
  int64_t kernel, O, width; /* all filters; of a tile */
} dw_job;

/* Scratch memory of a thread, in floats. */
typedef struct dw_scratch {
  int64_t copy, sum, bias, tail, at, turned, all;
} dw_scratch;
enum { TURN = 256 }; /* sums transposed at once */

/* Number of filters in a tile. Each tile packs x and dy anew, so a tile should be wide, but its sums [K][width] must
 * stay in the cache. A team gets some tiles for each thread. */
static int64_t dw_width(int64_t filters, int64_t K, int threads) {
  enum { KEPT = 131072, MOST = 256 }; /* floats: half of a cache of 1 MB; filters */
  const int64_t kept = sl_max64(1, KEPT / K / WIDEST) * WIDEST;
  const int64_t given = sl_round_up(threads > 1 ? sl_tiles_of(filters, 4) : filters, WIDEST);
  return sl_min64(MOST, sl_min64(kept, given));
}

/* In bf16 the copy of a row holds each pixel together with the pixel that the next output reads at the same tap. If the
 * row has an odd number of outputs, the pixels of the last one follow, each paired with zero. A kernel of one tap needs
 * no more than one pair for two outputs. */
static int dw_packs(const view *v) { return v->taps == 1 && v->top == 0 && v->left == 0; }
static int64_t dw_row_pixels(const view *v, int64_t columns) {
  return dw_packs(v) ? sl_round_up(columns, 2) : padded_columns(v, columns) + v->reach_column + 1;
}

static dw_scratch dw_layout(const view *v, int64_t width) {
  dw_scratch s = {0};
  const sl_conv2d_blocks *g = &v->blocks;
  const int64_t images = sl_tiles_of(v->B, g->images), rows = sl_tiles_of(v->OH, g->rows),
                columns = sl_tiles_of(v->OW, g->columns), narrow = v->dtype != SL_F32,
                copy = narrow ? images * padded_rows(v, rows) * dw_row_pixels(v, columns) * v->pixel : block_floats(v),
                steps = images * rows * sl_round_up(columns, 1 + narrow);
  s.copy = 0;
  s.sum = s.copy + sl_round_up(copy, 16);
  s.bias = s.sum + v->taps * v->C * width;
  s.tail = s.bias + sl_round_up(width, 16);
  s.at = s.tail + steps * WIDEST;
  s.turned = s.at + sl_round_up(steps, 16);
  s.all = s.turned + WIDEST * TURN;
  return s;
}

/* A block in the form that products take: the offset in floats at which the numbers of each step begin, and the number
 * of steps. */
typedef struct dw_block {
  box b;
  source x;
  int64_t steps;
} dw_block;

#ifdef SL_STORE_BF16
/* The pixel of the padded image at that row and column; NULL: a zero. */
static const sl_real *pixel_at(const view *v, int64_t image, int64_t row, int64_t column) {
  row -= v->top, column -= v->left;
  if (row < 0 || row >= v->H || column < 0 || column >= v->W) return NULL;
  return v->x + ((image * v->H + row) * v->W + column) * v->C;
}

/* Copies a row of the padded image for n outputs from column `first` on, with taps. */
static void dw_copy_row(const view *v, sl_walk walk, int64_t image, int64_t row, int64_t first, int64_t n, float *to) {
  const int64_t columns = padded_columns(v, n), last = (n - 1) * v->stride;
  for (int64_t w = 0; w < columns; w++, to += v->pixel) {
    const sl_real *pixel = pixel_at(v, image, row, first + w);
    if (sl_walk_paired(walk))
      sl_pack_group(walk, pixel, w + v->stride < columns ? pixel_at(v, image, row, first + w + v->stride) : NULL, v->C,
                    v->C, to, 0);
    else
      sl_pack_line(pixel ? v->C : 0, v->C, pixel, to);
  }
  for (int64_t w = last; n % 2 && w < columns; w++, to += v->pixel) {
    const sl_real *pixel = sl_walk_paired(walk) ? pixel_at(v, image, row, first + w) : NULL;
    if (sl_walk_paired(walk))
      sl_pack_group(walk, pixel, NULL, v->C, v->C, to, 0);
    else
      memset(to, 0, (size_t)v->C * sizeof *to);
  }
}

static dw_block dw_prepare(const view *v, int64_t number, float *copy, int32_t *at) {
  const sl_walk walk = v->walk;
  dw_block k = {.b = view_box(v, number)};
  const box *b = &k.b;
  const int64_t rows = padded_rows(v, b->rows), groups = sl_walk_groups(walk, b->columns),
                first = b->column * v->stride;
  k.x.row_step = dw_row_pixels(v, b->columns) * v->pixel, k.x.image_step = rows * k.x.row_step, k.x.base = copy;
  for (int64_t image = 0; image < b->images; image++)
    for (int64_t row = 0; row < rows; row++) {
      float *to = copy + image * k.x.image_step + row * k.x.row_step;
      if (!dw_packs(v))
        dw_copy_row(v, walk, b->image + image, b->row * v->stride + row, first, b->columns, to);
      else if (row % v->stride == 0)
        sl_pack_rows(walk, b->columns, v->C, pixel_at(v, b->image + image, b->row * v->stride + row, first),
                     v->stride * v->C, v->C, to, v->pixel);
    }
  for (int64_t image = 0; image < b->images; image++)
    for (int64_t i = 0; i < b->rows; i++)
      for (int64_t g = 0; g < groups; g++)
        for (int64_t step = 0; step < walk.steps; step++) {
          /* The pixel whose number comes first: in floats, the second pixel of the pair. */
          const int64_t column = 2 * g + (sl_walk_widens(walk) && step == 0), odd = 2 * g + 1 == b->columns;
          int64_t pixel = column * v->stride;
          if (dw_packs(v))
            pixel = g * walk.steps + step;
          else if (odd && step == 0)
            pixel = padded_columns(v, b->columns);
          at[k.steps++] =
              (int32_t)(image * k.x.image_step + i * v->stride * k.x.row_step + pixel * v->pixel) * (int32_t)walk.unit;
        }
  return k;
}
#else
static dw_block dw_prepare(const view *v, int64_t number, float *copy, int32_t *at) {
  dw_block k = {.b = view_box(v, number)};
  const box *b = &k.b;
  k.x = view_source(v, b, copy);
  for (int64_t image = 0; image < b->images; image++)
    for (int64_t i = 0; i < b->rows; i++)
      for (int64_t column = 0; column < b->columns; column++)
        at[k.steps++] =
            (int32_t)(image * k.x.image_step + i * v->stride * k.x.row_step + column * v->stride * v->pixel);
  return k;
}
#endif

/* Adds the sums [K][width] of `n` filters to dw, or overwrites dw. */
static void dw_finish(const float *sum, int64_t width, int64_t n, int64_t K, float *turned, float *dw, int add) {
  for (int64_t o = 0; o < n; o += SL_LANES)
    for (int64_t k = 0; k < K; k += TURN) {
      int64_t rows = sl_min64(TURN, K - k), filters = sl_min64(SL_LANES, n - o);
      SL_SHARED(transpose)(rows, filters, sum + k * width + o, width, turned, TURN);
      for (int64_t f = 0; f < filters; f++) {
        float *restrict to = dw + (o + f) * K + k;
        const float *restrict from = turned + f * TURN;
        if (add)
          for (int64_t i = 0; i < rows; i++) to[i] += from[i];
        else
          memcpy(to, from, (size_t)rows * sizeof *to);
      }
    }
}

static void weight_gradient(void *arg, int64_t tile, int thread) {
  const dw_job *j = arg;
  const sl_call *c = j->c;
  const view *v = &j->v;
  const sl_walk walk = v->walk;
  sl_range filters = sl_tile_range(tile, j->width, c->out[0].shape.dim[0]);
  int64_t n = filters.to - filters.from, K = v->taps * v->C;
  dw_scratch s = dw_layout(v, j->width);
  float *memory = c->team->scratch[thread], *sum = memory + s.sum, *bias = memory + s.bias, *tail = memory + s.tail;
  int32_t *at = (int32_t *)(memory + s.at);
  /* Taps whose channels are contiguous are rows of one tile: the taps of a kernel row, unless the pixels were
   * spread. */
  int64_t run_taps = v->pixel == v->C ? j->kernel : 1, run = run_taps * v->C, pieces = sl_walk_strips(walk, run);
  memset(bias, 0, (size_t)n * sizeof *bias);
  for (int64_t number = 0; number < view_blocks(v); number++) {
    const dw_block block = dw_prepare(v, number, memory + s.copy, at);
    const box *b = &block.b;
    const int64_t lines = b->images * b->rows, pixels = lines * b->columns;
    const sl_real *dy = (const sl_real *)c->in[0].data + ((b->image * v->OH + b->row) * v->OW + b->column) * j->O +
                        c->out[0].row0 + filters.from;
    for (int64_t o = 0; o < n; o += PANEL) {
      int64_t columns = sl_min64(PANEL, n - o), row = PANEL;
      const float *panel = tail;
      if (sizeof *dy < sizeof *tail || columns % SL_LANES) { /* vectors would read past the last pixel */
        const int64_t steps = block.steps / sl_max64(1, lines);
        for (int64_t line = 0; line < lines; line++)
          sl_pack_rows(walk, b->columns, columns, dy + o + line * b->columns * j->O, j->O, PANEL,
                       tail + line * steps * PANEL, PANEL);
      } else {
        panel = (const float *)(const void *)(dy + o), row = j->O;
      }
      if (c->n_out > 1) sl_add_columns(pixels, columns, dy + o, j->O, bias + o);
      for (int64_t t = 0; t < v->taps; t += run_taps)
        for (int64_t piece = 0; piece < pieces; piece++) {
          int64_t k = sl_walk_strip(walk, run, piece), m = sl_walk_strip(walk, run, piece + 1) - k;
          const int64_t from = v->tap[t].row * block.x.row_step + v->tap[t].column * v->pixel + k;
          sl_walk_product(walk, m, sl_round_up(columns, SL_LANES), block.steps, (const float *)block.x.base + from,
                          walk.unit, at, panel, row, sum + (t * v->C + k) * j->width + o, j->width, NULL, number > 0,
                          NULL);
        }
    }
  }
  dw_finish(sum, j->width, n, K, memory + s.turned, (float *)c->out[0].data + filters.from * K, c->accumulate & 1);
  if (c->n_out > 1) {
    float *db = (float *)c->out[1].data + filters.from;
    for (int64_t o = 0; o < n; o++) db[o] = c->accumulate & 2 ? db[o] + bias[o] : bias[o];
  }
}

sl_status SL_KERNEL(conv2d_dw)(const sl_call *c) {
#ifdef SL_STORE_BF16
  if (c->tiles.blocks) return SL_KERNEL(conv2d_dw_blocks)(c);
#else
  if (c->tiles.blas) return sl__conv2d_dw_blas(c);
#endif
  const sl_conv2d_attr *a = c->attr;
  dw_job j = {.c = c, .kernel = a->kernel, .O = c->in[0].shape.dim[3]};
  j.v = view_forward(c, &c->in[1], 1, NULL);
  j.width = dw_width(c->out[0].shape.dim[0], j.v.taps * j.v.C, c->team->threads);
  j.v = view_forward(c, &c->in[1], 1, (tap *)((float *)c->team->scratch[0] + dw_layout(&j.v, j.width).all));
  sl_team_for(c->team, sl_tiles_of(c->out[0].shape.dim[0], j.width), weight_gradient, &j);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(conv2d);
SL_CUDA_DECLARE(conv2d_dx);
SL_CUDA_DECLARE(conv2d_dw);
SL_CUDA_DECLARE(conv2d_fast);
SL_CUDA_DECLARE(conv2d_dx_fast);
SL_CUDA_DECLARE(conv2d_dw_fast);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_out;
  SL_TRY(weights_check(in, n_in));
  const sl_conv2d_attr *a = attr;
  char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
  sl_shape_text(&in[0]->shape, x, sizeof x), sl_shape_text(&in[1]->shape, w, sizeof w);
  if (in[0]->shape.ndim != 4) return sl_fail(SL_ESHAPE, "expects images [B, H, W, C], got %s", x);
  if (a->kernel < 1 || a->stride < 1 || a->pad < 0)
    return sl_fail(SL_ESHAPE, "kernel %d, stride %d, pad %d: expects kernel and stride 1 or more, pad 0 or more",
                   a->kernel, a->stride, a->pad);
  if (in[1]->shape.ndim != 4 || in[1]->shape.dim[1] != a->kernel || in[1]->shape.dim[2] != a->kernel ||
      in[1]->shape.dim[3] != in[0]->shape.dim[3])
    return sl_fail(SL_ESHAPE, "filters %s do not fit images %s: expects [filters, %d, %d, %lld]", w, x, a->kernel,
                   a->kernel, (long long)in[0]->shape.dim[3]);
  if (n_in > 2 && (in[2]->shape.ndim != 1 || in[2]->shape.dim[0] != in[1]->shape.dim[0]))
    return sl_fail(SL_ESHAPE, "bias %s does not fit filters %s: expects one for each",
                   sl_shape_text(&in[2]->shape, x, sizeof x), w);
  int64_t H = in[0]->shape.dim[1], W = in[0]->shape.dim[2];
  if (a->kernel > H + 2 * a->pad || a->kernel > W + 2 * a->pad)
    return sl_fail(SL_ESHAPE, "kernel %d does not fit the padded input %lldx%lld", a->kernel,
                   (long long)(H + 2 * a->pad), (long long)(W + 2 * a->pad));
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], grid_of(H, a), grid_of(W, a), in[1]->shape.dim[0]);
  return SL_OK;
}

/* dy must have the shape of conv2d's result on images [B, height, width, ...]. */
static sl_status check_gradient(const sl_conv2d_attr *a, const sl_shape *dy) {
  if (dy->ndim == 4 && a->kernel >= 1 && a->stride >= 1 && dy->dim[1] == grid_of(a->height, a) &&
      dy->dim[2] == grid_of(a->width, a))
    return SL_OK;
  char text[SL_SHAPE_TEXT];
  return sl_fail(SL_ESHAPE, "gradient %s is not that of a convolution of %dx%d images by kernel %d, stride %d, pad %d",
                 sl_shape_text(dy, text, sizeof text), a->height, a->width, a->kernel, a->stride, a->pad);
}

static sl_status shape_dx(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_out;
  SL_TRY(weights_check(in, n_in));
  const sl_conv2d_attr *a = attr;
  SL_TRY(check_gradient(a, &in[0]->shape));
  char w[SL_SHAPE_TEXT], dy[SL_SHAPE_TEXT];
  if (in[1]->shape.ndim != 4 || in[1]->shape.dim[0] != in[0]->shape.dim[3])
    return sl_fail(SL_ESHAPE, "filters %s do not fit the gradient %s: expects one for each channel",
                   sl_shape_text(&in[1]->shape, w, sizeof w), sl_shape_text(&in[0]->shape, dy, sizeof dy));
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0], a->height, a->width, in[1]->shape.dim[3]);
  return SL_OK;
}

static sl_status shape_dw(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  SL_TRY(weights_check(in, n_in));
  const sl_conv2d_attr *a = attr;
  SL_TRY(check_gradient(a, &in[0]->shape));
  const sl_shape *x = &in[1]->shape;
  char text[SL_SHAPE_TEXT];
  if (x->ndim != 4 || x->dim[0] != in[0]->shape.dim[0] || x->dim[1] != a->height || x->dim[2] != a->width)
    return sl_fail(SL_ESHAPE, "expects images [%lld, %d, %d, C], got %s", (long long)in[0]->shape.dim[0], a->height,
                   a->width, sl_shape_text(x, text, sizeof text));
  out[0].shape = SL_SHAPE(in[0]->shape.dim[3], a->kernel, a->kernel, x->dim[3]);
  out[0].scope = SL_SCOPE_WHOLE;
  if (n_out > 1) out[1].shape = SL_SHAPE(in[0]->shape.dim[3]), out[1].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

/* FLOPs include the products with the zeros of the padding, as is usual. */
static void cost(const sl_call *c, sl_cost *cost) {
  const sl_conv2d_attr *a = c->attr;
  cost->flops = (double)sl_shape_count(&c->out[0].shape) *
                (2 * (double)a->kernel * a->kernel * (double)c->in[0].shape.dim[3] + (c->n_in > 2));
  cost->bytes = weights_bytes(c);
}

static void cost_dx(const sl_call *c, sl_cost *cost) {
  const sl_conv2d_attr *a = c->attr;
  cost->flops = 2 * (double)sl_shape_count(&c->in[0].shape) * a->kernel * a->kernel * (double)c->out[0].shape.dim[3];
  cost->bytes = weights_bytes(c);
}

static void cost_dw(const sl_call *c, sl_cost *cost) {
  double pixels = (double)sl_shape_count(&c->in[0].shape) / (double)sl_max64(1, c->in[0].shape.dim[3]);
  cost->flops = 2 * pixels * (double)sl_shape_count(&c->out[0].shape);
  if (c->n_out > 1) cost->flops += pixels * (double)c->out[0].shape.dim[0];
  cost->bytes = weights_bytes(c);
}

/* Output pixels of the largest block. */
static int64_t block_pixels(const view *v) {
  return sl_tiles_of(v->B, v->blocks.images) * sl_tiles_of(v->OH, v->blocks.rows) *
         sl_tiles_of(v->OW, v->blocks.columns);
}
static int64_t sum_floats(const view *v) { return v->dtype == SL_F32 ? 0 : block_pixels(v) * WIDEST_GROUP; }
static size_t own_bytes(const view *v) { return sl_float_bytes(block_floats(v)) + sl_float_bytes(sum_floats(v)); }
static size_t scratch(const sl_call *c) {
  if (sl_by_blas(c)) return sl__conv2d_blas_scratch(c);
  const sl_conv2d_attr *a = c->attr;
  view v = view_forward(c, &c->in[0], group_of(c->in[0].dtype), NULL);
  return shared_bytes(a, most_numbers(&c->in[0], v.taps), c->out[0].shape.dim[3]) + own_bytes(&v);
}

static size_t scratch_dx(const sl_call *c) {
  if (sl_by_blas(c)) return sl__conv2d_dx_blas_scratch(c);
  const sl_conv2d_attr *a = c->attr;
  size_t most = 0;
  for (int row = 0; row < sl_min64(a->stride, a->height); row++)
    for (int column = 0; column < sl_min64(a->stride, a->width); column++) {
      view v = view_phase(c, &c->in[0], row, column, NULL, NULL);
      const size_t bytes = own_bytes(&v);
      if (bytes > most) most = bytes;
    }
  return shared_bytes(a, most_numbers(&c->in[0], most_taps(a)), c->out[0].shape.dim[3]) + most;
}

static size_t scratch_dw(const sl_call *c) {
  if (sl_by_blas(c)) return sl__conv2d_dw_blas_scratch(c);
  if (sl_by_blocks(c)) return sl_conv2d_dw_blocks_of(c, 1).bytes;
  view v = view_forward(c, &c->in[1], 1, NULL);
  return sl_float_bytes(dw_layout(&v, dw_width(c->out[0].shape.dim[0], v.taps * v.C, 1)).all) + taps_bytes(c->attr);
}

/* CUDA: the sums of a result in bf16; filters and bias, copied together if they lie in several parts; the parts of
 * products. */
static size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }
static size_t together(const sl_array *a) { return a->parts > 1 ? sl_float_bytes(sl_shape_count(&a->shape)) : 0; }
static size_t scratch_cuda(const sl_call *c) {
  const sl_shape *y = &c->out[0].shape;
  const view v = view_forward(c, &c->in[0], group_of(c->in[0].dtype), NULL);
  return round_up(weights_sums_cuda(c) + together(&c->in[1]) + (c->n_in > 2 ? together(&c->in[2]) : 0)) +
         sl_cuda_product_bytes(y->dim[0] * y->dim[1] * y->dim[2], y->dim[3], (int)pieces_of(&v), 0);
}
static size_t scratch_dx_cuda(const sl_call *c) {
  const sl_conv2d_attr *a = c->attr;
  size_t most = 0;
  for (int row = 0; row < sl_min64(a->stride, a->height); row++)
    for (int column = 0; column < sl_min64(a->stride, a->width); column++) {
      const view v = view_phase(c, &c->in[0], row, column, NULL, NULL);
      const int64_t pixels =
          c->out[0].shape.dim[0] * sl_tiles_of(a->height - row, a->stride) * sl_tiles_of(a->width - column, a->stride);
      const size_t bytes = sl_cuda_product_bytes(pixels, c->out[0].shape.dim[3], (int)pieces_of(&v), 0);
      if (bytes > most) most = bytes;
    }
  return round_up(weights_sums_cuda(c) + together(&c->in[1])) + most;
}
static size_t scratch_dw_cuda(const sl_call *c) {
  const view v = view_forward(c, &c->in[1], 1, NULL);
  const int64_t n = c->out[0].shape.dim[0];
  const size_t products = sl_cuda_product_bytes(n, v.taps * v.C, (int)view_blocks(&v), c->accumulate & 1);
  const size_t sums = c->n_out > 1 ? sl_cuda_column_bytes((int)view_blocks(&v), n) : 0;
  return products > sums ? products : sums;
}

/* The fast kernels: the first two as above, and what conv2d_sizes.h says. */
static size_t fast_bytes(const sl_call *c, const view *v, int64_t result) {
  const sl_conv2d_attr *a = c->attr;
  const int64_t number = (int64_t)sl_dtype_bytes(c->in[0].dtype), windows = v->B * v->OH * v->OW;
  return sl_conv2d_scratch_of(a->kernel, a->stride, a->pad, v->taps, v->C, windows, number, result).all;
}
static size_t scratch_fast(const sl_call *c) {
  const view v = view_forward(c, &c->in[0], 1, NULL);
  return round_up(weights_sums_cuda(c) + together(&c->in[1]) + (c->n_in > 2 ? together(&c->in[2]) : 0)) +
         fast_bytes(c, &v, 0);
}
static size_t scratch_dx_fast(const sl_call *c) {
  const sl_conv2d_attr *a = c->attr;
  size_t most = 0;
  for (int row = 0; row < sl_min64(a->stride, a->height); row++)
    for (int column = 0; column < sl_min64(a->stride, a->width); column++) {
      const view v = view_phase(c, &c->in[0], row, column, NULL, NULL);
      const size_t bytes = fast_bytes(c, &v, c->out[0].shape.dim[3]);
      if (bytes > most) most = bytes;
    }
  return round_up(weights_sums_cuda(c) + together(&c->in[1])) + most;
}
static size_t scratch_dw_fast(const sl_call *c) {
  const view v = view_forward(c, &c->in[1], 1, NULL);
  const size_t matrix = fast_bytes(c, &v, 0);
  const size_t sums = c->n_out > 1 ? sl_cuda_column_bytes((int)view_blocks(&v), c->out[0].shape.dim[0]) : 0;
  return matrix > sums ? matrix : sums;
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  weights_gradient(graph, node, dout[0], need, din, &sl_op_conv2d_dx, &sl_op_conv2d_dw);
}

const sl_operation sl_op_conv2d = {
    .name = "conv2d",
    .attr_bytes = sizeof(sl_conv2d_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .scratch_fast = scratch_fast,
    .cpu = SL_KERNELS(conv2d),
    .cpu_bf16 = SL_KERNELS_BF16(conv2d),
    .pairs = 1,
    .copies = 2,
    .cuda = SL_CUDA_KERNEL(conv2d),
    .cuda_fast = SL_CUDA_KERNEL(conv2d_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .all_in = 2 | 4,
};
const sl_operation sl_op_conv2d_dx = {
    .name = "conv2d_dx",
    .attr_bytes = sizeof(sl_conv2d_attr),
    .shape = shape_dx,
    .cost = cost_dx,
    .scratch = scratch_dx,
    .scratch_cuda = scratch_dx_cuda,
    .scratch_fast = scratch_dx_fast,
    .cpu = SL_KERNELS(conv2d_dx),
    .cpu_bf16 = SL_KERNELS_BF16(conv2d_dx),
    .pairs = 1,
    .copies = 2,
    .cuda = SL_CUDA_KERNEL(conv2d_dx),
    .cuda_fast = SL_CUDA_KERNEL(conv2d_dx_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .all_in = 2,
};
const sl_operation sl_op_conv2d_dw = {
    .name = "conv2d_dw",
    .attr_bytes = sizeof(sl_conv2d_attr),
    .shape = shape_dw,
    .cost = cost_dw,
    .scratch = scratch_dw,
    .scratch_cuda = scratch_dw_cuda,
    .scratch_fast = scratch_dw_fast,
    .cpu = SL_KERNELS(conv2d_dw),
    .cpu_bf16 = SL_KERNELS_BF16(conv2d_dw),
    .pairs = 1,
    .cuda = SL_CUDA_KERNEL(conv2d_dw),
    .cuda_fast = SL_CUDA_KERNEL(conv2d_dw_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .map_out = 1 | 2,
};

sl_value sl_conv2d_init(sl_graph *graph, const char *layer, sl_value x, int64_t channels, int kernel, int stride,
                        int pad, int bias, const sl_layer_init *init) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info) return SL_NONE;
  char text[SL_SHAPE_TEXT];
  if (info->shape.ndim != 4) {
    sl_graph_fail(
        graph,
        sl_fail(SL_ESHAPE, "expects images [B, H, W, C], got %s", sl_shape_text(&info->shape, text, sizeof text)),
        layer);
    return SL_NONE;
  }
  int64_t C = info->shape.dim[3];
  sl_conv2d_attr attr = {kernel, stride, pad, (int)info->shape.dim[1], (int)info->shape.dim[2]};
  sl_value in[3] = {x, sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32,
                                       SL_SHAPE(channels, kernel, kernel, C), init->weight)};
  if (bias) in[2] = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "bias", SL_F32, SL_SHAPE(channels), init->bias);
  return sl_graph_add1(graph, &sl_op_conv2d, layer, &attr, in, bias ? 3 : 2);
}

sl_value sl_conv2d(sl_graph *graph, const char *layer, sl_value x, int64_t channels, int kernel, int stride, int pad,
                   int bias) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info) return SL_NONE;
  const int64_t inputs = (info->shape.ndim > 0 ? info->shape.dim[info->shape.ndim - 1] : 1) * kernel * kernel;
  const sl_init init = {SL_INIT_UNIFORM, 1 / sqrt((double)sl_max64(1, inputs))};
  return sl_conv2d_init(graph, layer, x, channels, kernel, stride, pad, bias, &(sl_layer_init){init, init});
}
#endif
