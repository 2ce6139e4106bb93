/* conv2d_dw: dw[o, r, s, c] = the sum over images b and outputs (i, j) of dy[b, i, j, o] x[b, i stride + r - pad,
 * j stride + s - pad, c], and db[o] = the sum of dy[b, i, j, o].
 *
 * The sums go over pixels, from block to block of the view of x (conv2d_view.h). Taps with their channels are the rows
 * of the register tile (product.h), filters its columns. In bf16, the contraction takes its numbers by pairs of pixels
 * of a row (sl_walk in weights.h); an odd last pixel is paired with zero. conv2d_dw_blocks.c has the sums by blocks. */
#include "codelets/kernels/product_sizes.h"
#include "codelets/products/blas.h"
#include "codelets/products/by_blocks.h"
#include "codelets/products/conv2d_view.h"

SL_KERNEL_DECLARE(conv2d_dw);

enum { PANEL = SL_PRODUCT_COLUMNS, WIDEST = SL_PRODUCT_COLUMNS_MOST };

typedef struct dw_job {
  const sl_call *c;
  view v;
  int64_t kernel, O, width; /* O: all filters; width: filters of a tile */
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
      for (int64_t t = 0; t < v->taps; t += run_taps)
        for (int64_t piece = 0; piece < pieces; piece++) {
          int64_t k = sl_walk_strip(walk, run, piece), m = sl_walk_strip(walk, run, piece + 1) - k;
          const int64_t from = v->tap[t].row * block.x.row_step + v->tap[t].column * v->pixel + k;
          sl_walk_product(walk, m, sl_round_up(columns, SL_LANES), block.steps, (const float *)block.x.base + from,
                          walk.unit, at, panel, row, sum + (t * v->C + k) * j->width + o, j->width, NULL, number > 0,
                          NULL);
        }
      /* after the products, which have brought dy into the cache */
      if (c->n_out > 1) sl_add_columns(pixels, columns, dy + o, j->O, bias + o);
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
SL_CUDA_DECLARE(conv2d_dw);
SL_CUDA_DECLARE(conv2d_dw_fast);

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
static void cost_dw(const sl_call *c, sl_cost *cost) {
  double pixels = (double)sl_shape_count(&c->in[0].shape) / (double)sl_max64(1, c->in[0].shape.dim[3]);
  cost->flops = 2 * pixels * (double)sl_shape_count(&c->out[0].shape);
  if (c->n_out > 1) cost->flops += pixels * (double)c->out[0].shape.dim[0];
  cost->bytes = weights_bytes(c);
}

static size_t scratch_dw(const sl_call *c) {
  if (sl_by_blas(c)) return sl__conv2d_dw_blas_scratch(c);
  if (sl_by_blocks(c)) return sl_conv2d_dw_blocks_of(c, 1).bytes;
  view v = view_forward(c, &c->in[1], 1, NULL);
  return sl_float_bytes(dw_layout(&v, dw_width(c->out[0].shape.dim[0], v.taps * v.C, 1)).all) + taps_bytes(c->attr);
}

/* CUDA: the parts of the products, then the parts of the bias's sums, in the same memory. */
static size_t scratch_dw_cuda(const sl_call *c) {
  const view v = view_forward(c, &c->in[1], 1, NULL);
  const int64_t n = c->out[0].shape.dim[0];
  const size_t products = sl_cuda_product_bytes(n, v.taps * v.C, (int)view_blocks(&v), c->accumulate & 1);
  const size_t sums = c->n_out > 1 ? sl_cuda_column_bytes((int)view_blocks(&v), n) : 0;
  return products > sums ? products : sums;
}

/* The fast kernels: the arrays of conv2d_sizes.h, then the parts of the bias's sums, in the same memory. */
static size_t scratch_dw_fast(const sl_call *c) {
  const view v = view_forward(c, &c->in[1], 1, NULL);
  const size_t matrix = fast_bytes(c, &v, 0);
  const size_t sums = c->n_out > 1 ? sl_cuda_column_bytes((int)view_blocks(&v), c->out[0].shape.dim[0]) : 0;
  return matrix > sums ? matrix : sums;
}

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
#endif
