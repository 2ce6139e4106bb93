/* conv2d_dw in bf16, with sums by blocks (product.h): dw[o][r][s][c] = the sum over outputs (i, j) of dy[i][j][o]
 * x[i stride + r - pad][j stride + s - pad][c].
 *
 * For a row r of taps, the numbers of x that are multiplied with an output lie side by side, for all s and c, and so do
 * their sums in dw. So the kernel packs 32 of these numbers at a time in a panel, by pairs of outputs, and multiplies
 * the panel with strips of 32 filters of the transposed dy. It adds up one chunk of lines (rows of outputs) after the
 * other. */
#include "codelets/attributes.h"
#include "codelets/products/by_blocks.h"

#ifdef SL_STORE_BF16

enum { PANEL = SL_PRODUCT_COLUMNS, STRIP = SL_BLOCK_ROWS };

typedef struct job {
  const sl_call *c;
  const sl_conv2d_attr *attr;
  sl_walk walk;
  sl_blocks_layout l;
  const sl_real *x, *dy;
  int64_t C, O;                  /* channels; filters of dy */
  int64_t images, height, width; /* of x */
  int64_t lines, each, outputs;  /* lines of an image; outputs of a line; all outputs */
  int32_t at[SL_CONV2D_CHUNK];
} job;

/* A kernel of one tap is a product of matrices: one long line. */
static job job_of(const sl_call *c) {
  const sl_conv2d_attr *a = c->attr;
  const sl_shape *x = &c->in[1].shape, *dy = &c->in[0].shape;
  job j = {.c = c,
           .attr = a,
           .walk = sl_walk_of(&c->tiles),
           .l = sl_conv2d_dw_blocks_of(c, c->team->threads),
           .x = c->in[1].data,
           .dy = c->in[0].data,
           .C = x->dim[3],
           .O = dy->dim[3],
           .images = x->dim[0],
           .height = x->dim[1],
           .width = x->dim[2],
           .lines = dy->dim[1],
           .each = dy->dim[2]};
  if (a->kernel == 1 && a->stride == 1 && a->pad == 0) {
    j.width = j.each = j.images * j.height * j.width;
    j.images = j.height = j.lines = 1;
  }
  j.outputs = j.images * j.lines * j.each;
  for (int32_t i = 0; i < SL_CONV2D_CHUNK; i++) j.at[i] = 2 * i;
  return j;
}

/* Outputs [column, column + n) of the lines [line, line + lines), over all images. */
typedef struct chunk {
  int64_t line, lines, column, n;
} chunk;

static int64_t pairs_of(const chunk *k) { return sl_tiles_of(k->n, 2); }

/* Moves k to the next chunk (k->lines = 0: to the first chunk). */
static int next_chunk(const job *j, chunk *k) {
  const int64_t all = j->images * j->lines;
  if (k->lines && k->column + k->n < j->each)
    k->column += k->n;
  else
    k->line += k->lines, k->column = 0;
  k->n = sl_min64(2 * SL_CONV2D_CHUNK, j->each - k->column);
  k->lines = sl_min64(sl_conv2d_chunk_lines(sl_tiles_of(j->each, 2)), all - k->line);
  return k->line < all && k->n > 0;
}

/* Returns numbers [from, from + n) of a row of x that has `all` numbers. Numbers beyond the ends of the row are zeros;
 * then the numbers are put together in `spare`. NULL: all are zeros. */
static inline const sl_real *numbers_of(const sl_real *row, int64_t all, int64_t from, int64_t n, sl_real *spare) {
  if (from >= 0 && from + n <= all) return row + from;
  const int64_t first = sl_max64(0, -from), end = sl_min64(n, all - from);
  if (first >= end) return NULL;
  memset(spare, 0, PANEL * sizeof *spare);
  memcpy(spare + first, row + from + first, (size_t)(end - first) * sizeof *spare);
  return spare;
}

/* Packs a panel of x for row r of taps: for each pair of outputs, numbers [k, k + n) among the numbers of x that are
 * multiplied with the pair. */
static void pack_panel(const job *j, const chunk *q, int64_t r, int64_t k, int64_t n, float *to) {
  const int64_t step = (int64_t)j->attr->stride * j->C, all = j->width * j->C;
  sl_real spare[2][PANEL];
  for (int64_t line = q->line; line < q->line + q->lines; line++) {
    const int64_t row = line % j->lines * j->attr->stride + r - j->attr->pad;
    if (row < 0 || row >= j->height) {
      memset(to, 0, (size_t)(pairs_of(q) * PANEL) * sizeof *to);
      to += pairs_of(q) * PANEL;
      continue;
    }
    const sl_real *x = j->x + (line / j->lines * j->height + row) * all;
    int64_t from = q->column * step - j->attr->pad * j->C + k;
    for (int64_t i = 0; i < q->n; i += 2, from += 2 * step, to += PANEL)
      sl_pack_group(j->walk, numbers_of(x, all, from, n, spare[0]),
                    i + 1 < q->n ? numbers_of(x, all, from + step, n, spare[1]) : NULL, n, PANEL, to, PANEL);
  }
}

/* Transposes dy of the chunk, filters [filter, filter + n), by pairs of outputs, into to[n][row]. Memory after the last
 * pair is not read. */
static void turn_outputs(const job *j, const chunk *q, int64_t filter, int64_t n, float *lines, float *to) {
  const int64_t line_row = sl_round_up(n, SL_BLOCK);
  int64_t filled = 0;
  for (int64_t line = q->line; line < q->line + q->lines; line++)
    for (int64_t i = 0; i < q->n; i += 2) {
      const sl_real *dy = j->dy + (line * j->each + q->column + i) * j->O + filter;
      sl_pack_group(j->walk, dy, i + 1 < q->n ? dy + j->O : NULL, n, line_row, lines + filled++ * line_row, line_row);
      if (filled < SL_BLOCK) continue;
      SL_SHARED(transpose)(SL_BLOCK, line_row, lines, line_row, to, j->l.row);
      to += SL_BLOCK, filled = 0;
    }
  if (filled) SL_SHARED(transpose)(SL_BLOCK, line_row, lines, line_row, to, j->l.row);
}

static void weight_gradient(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const sl_call *c = j->c;
  const sl_range filters = sl_tile_range(tile, j->l.width, c->out[0].shape.dim[0]);
  const int64_t n = filters.to - filters.from, taps = j->attr->kernel * j->C, K = j->attr->kernel * taps,
                filter = c->out[0].row0 + filters.from;
  float *turned = c->team->scratch[thread], *panel = turned + j->l.b, *bias = turned + j->l.c;
  float *dw = (float *)c->out[0].data + filters.from * K;
  int add = c->accumulate & 1;
  chunk q = {0};
  if (j->outputs == 0 && !add) memset(dw, 0, (size_t)(n * K) * sizeof *dw);
  for (; next_chunk(j, &q); add = 1) {
    turn_outputs(j, &q, filter, n, turned + j->l.a, turned);
    for (int64_t k = 0; k < taps; k += PANEL)
      for (int64_t r = 0; r < j->attr->kernel; r++) {
        const int64_t columns = sl_min64(PANEL, taps - k);
        pack_panel(j, &q, r, k, columns, panel);
        for (int64_t o = 0; o < n; o += STRIP) SL_SHARED(product_blocks)
        (sl_min64(STRIP, n - o), columns, q.lines * pairs_of(&q),
         (const sl_real *)(const void *)(turned + o * j->l.row), 2 * j->l.row, j->at, panel, PANEL,
         dw + o * K + r * taps + k, K, NULL, add);
      }
  }
  if (c->n_out < 2) return;
  float *db = (float *)c->out[1].data + filters.from;
  memset(bias, 0, (size_t)n * sizeof *bias);
  sl_add_columns(j->outputs, n, j->dy + filter, j->O, bias);
  for (int64_t o = 0; o < n; o++) db[o] = c->accumulate & 2 ? db[o] + bias[o] : bias[o];
}

sl_status SL_KERNEL(conv2d_dw_blocks)(const sl_call *c) {
  job j = job_of(c);
  sl_team_for(c->team, sl_tiles_of(c->out[0].shape.dim[0], j.l.width), weight_gradient, &j);
  return SL_OK;
}
#endif
