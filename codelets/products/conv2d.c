/* conv2d: y[b, i, j, o] = bias[o] + sum over (r, s, c) of x[b, i stride + r - pad, j stride + s - pad, c] w[o, r, s,
 * c], and conv2d_dx, its gradient by x. Images are NHWC, filters [O, kernel, kernel, C].
 *
 * The convolutions are direct, without im2col. A register tile (product.h) takes up to 14 neighbouring pixels and two
 * vectors of output channels. A table of offsets finds the taps (conv2d_view.h). The gradient by x is a convolution of
 * dy with the rotated filters. Each phase of the stride has a convolution of its own, so that inserted zeros are never
 * multiplied. conv2d_dw.c has the gradient by the filters.
 *
 * In bf16, the contraction takes its numbers by pairs of channels (sl_walk in weights.h). An odd last number is paired
 * with zero. Sums are rounded when they are complete. */
#include "codelets/kernels/product_sizes.h"
#include "codelets/products/blas.h"
#include "codelets/products/conv2d_view.h"

SL_KERNEL_DECLARE(conv2d);
SL_KERNEL_DECLARE(conv2d_dx);

enum { PANEL = SL_PRODUCT_COLUMNS, WIDEST = SL_PRODUCT_COLUMNS_MOST };

/* How many channels a contraction over channels takes together: 2 in pairs, else 1. */
static int64_t group_of(sl_dtype dtype) { return dtype == SL_F32 ? 1 : 2; }

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

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(conv2d);
SL_CUDA_DECLARE(conv2d_dx);
SL_CUDA_DECLARE(conv2d_fast);
SL_CUDA_DECLARE(conv2d_dx_fast);

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
/* The fast kernels: the sums of a result in bf16; filters and bias, copied together; the arrays of conv2d_sizes.h. */
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
