/* linear: y = activation(x W^T + b), and its gradients dx = dy W and dW = dy^T x, db = the column sums of dy.
 *
 * The products do not use a BLAS, unless the plan says so (tiles.blas). With the few rows of a shard (64 to 128)
 * OpenBLAS spends a quarter of its time packing W for x W^T, and its bits depend on the processor for which it chooses
 * its kernels. Here y is computed transposed: features are the rows of a register tile. So W is read once, without
 * packing, and only the small x is packed. See docs/performance.md.
 *
 * In bf16, the contraction takes its numbers by pairs; a product takes both numbers of a pair in one step, or in two
 * steps (sl_walk in weights.h). An odd last number is paired with zero. "Steps" below are the steps of a product. Sums
 * by blocks have loops of their own: linear_blocks.c.
 *
 * R rows (all dimensions but the last), K inputs, N features. */
#include "codelets/attributes.h"
#include "codelets/kernels/product_sizes.h"
#include "codelets/kernels/weights.h"
#include "codelets/products/blas.h"
#include "codelets/products/by_blocks.h"

SL_KERNEL_DECLARE(linear);
SL_KERNEL_DECLARE(linear_dx);
SL_KERNEL_DECLARE(linear_dw);

enum {
  PANEL = SL_PRODUCT_COLUMNS,
  WIDEST = SL_PRODUCT_COLUMNS_MOST,
  WIDEST_ROWS = SL_PRODUCT_ROWS_MOST,
  ROW_BLOCK = 128, /* rows of x or dy worked on at once by linear and linear_dx: their panels stay in the L2 cache */
  SUM_BLOCK = SL_LINEAR_SUM_BLOCK, /* rows that linear_dw adds up in one chain */
  PANEL_GROUP = 16, /* panels of x that linear_dw uses before the next features: they stay in the L2 cache */
};

typedef struct job {
  const sl_call *c;
  sl_walk walk;
  int64_t R, K, N;
  int64_t row, rows; /* the row block */
  int add;           /* linear_dw: 1: adds to dW */
  const float *left; /* linear_dx: rows of dy, in place or copied (not in bf16) */
  int64_t left_row;
  int32_t *at;   /* offsets of the broadcast factor */
  float *shared; /* all threads' part of the scratch memory */
  size_t own;    /* offset of a thread's own part */
} job;

static int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }
static int64_t rows_of(const sl_shape *s) { return last(s) ? sl_shape_count(s) / last(s) : 0; }
static int64_t pieces_of(int64_t n, int64_t depth) { return sl_max64(1, sl_tiles_of(n, depth)); }
/* Columns of a tile: about the plan's number, with tiles of equal size. */
static int64_t tile_width(const sl_call *c, int64_t n) {
  int64_t tiles = pieces_of(n, c->tiles.columns);
  return sl_min64(c->tiles.columns, sl_round_up(sl_tiles_of(n, tiles), 16));
}
static size_t table_bytes(void) { return SL_PRODUCT_DEPTH * sizeof(int32_t); }

/* ---- linear ---------------------------------------------------------------------------------------------------- */

/* Packed x: panel p holds [steps of K][PANEL], row i of x in column i % PANEL; zeros after the last row. */
static void pack_rows(void *arg, int64_t panel, int thread) {
  (void)thread;
  const job *j = arg;
  int64_t from = panel * PANEL, n = sl_min64(PANEL, j->rows - from), steps = sl_walk_steps(j->walk, j->K);
  float *to = j->shared + panel * PANEL * steps;
  if (n < PANEL) memset(to, 0, (size_t)(PANEL * steps) * sizeof *to);
  sl_pack_columns(j->walk, n, j->K, (const sl_real *)j->c->in[0].data + (j->row + from) * j->K, j->K, to, PANEL);
}

/* y[rows][y_row] += bias, then the activation; y[0] belongs to feature `feature`. */
static void activate(const sl_call *c, int64_t feature, int64_t features, int64_t rows, float *y, int64_t y_row) {
  const sl_linear_attr *attr = c->attr;
  for (int part = 0; c->n_in > 2 && part < c->in[2].parts; part++) {
    const sl_array *bias = &c->in[2].part[part];
    int64_t from = sl_max64(feature, bias->row0), to = sl_min64(feature + features, bias->row0 + bias->shape.dim[0]);
    const float *b = (const float *)bias->data - bias->row0;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t n = from; n < to; n++) y[i * y_row + n - feature] += b[n];
  }
  if (attr->activation == SL_ACTIVATION_RELU)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t n = 0; n < features; n++) y[i * y_row + n] = y[i * y_row + n] < 0 ? 0 : y[i * y_row + n];
}

/* y = the transposed sums, with bias and activation. spare: FINISH_ROWS x FINISH_COLUMNS floats. */
enum { FINISH_ROWS = 16, FINISH_COLUMNS = 256 };
static void finish(const job *j, const float *yt, int64_t yt_row, int64_t feature, int64_t features, float *spare) {
  sl_real *y = (sl_real *)j->c->out[0].data + j->row * j->N + feature;
#ifdef SL_STORE_BF16
  for (int64_t n = 0; n < features; n += FINISH_COLUMNS)
    for (int64_t i = 0; i < j->rows; i += FINISH_ROWS) {
      int64_t columns = sl_min64(FINISH_COLUMNS, features - n), rows = sl_min64(FINISH_ROWS, j->rows - i);
      SL_SHARED(transpose)(columns, rows, yt + n * yt_row + i, yt_row, spare, FINISH_COLUMNS);
      activate(j->c, feature + n, columns, rows, spare, FINISH_COLUMNS);
      for (int64_t r = 0; r < rows; r++) sl_narrow(columns, spare + r * FINISH_COLUMNS, y + (i + r) * j->N + n);
    }
#else
  (void)spare;
  SL_SHARED(transpose)(features, j->rows, yt, yt_row, y, j->N);
  activate(j->c, feature, features, j->rows, y, j->N);
#endif
}

static int64_t transposed_row(int64_t rows) { return sl_round_up(rows, WIDEST) + 16; }

/* The rows of W in one register tile: m rows from feature n on, steps of inputs [k, k + depth). */
typedef struct slab {
  int part;
  int64_t piece, n, m, k, depth;
} slab;

/* Offsets of the vectors that are copied while a tile is computed. The table is recomputed when one of the sizes
 * changes. */
typedef struct copy_table {
  int64_t m, depth, steps;
  int32_t *from_at, *to_at;
} copy_table;
enum { TABLE = SL_PRODUCT_DEPTH + SL_PRODUCT_AHEAD };
static int fits(int64_t rows, int64_t row) { return rows * row <= INT32_MAX; }

/* Moves s to the next slab (s->m = 0: to the first slab). All features for a piece of the inputs come first, then the
 * next piece. */
static int next_slab(const job *j, sl_range features, slab *s) {
  const sl_array *W = &j->c->in[1];
  int64_t groups = sl_walk_groups(j->walk, j->K), pieces = pieces_of(groups, SL_PRODUCT_DEPTH / j->walk.group);
  s->n = s->m ? s->n + s->m : features.from;
  while (1) {
    if (s->n >= features.to) s->piece++, s->n = features.from, s->part = 0;
    if (s->piece >= pieces) return 0;
    const sl_array *w = &W->part[s->part];
    int64_t from = sl_max64(features.from, w->row0), to = sl_min64(features.to, w->row0 + w->shape.dim[0]);
    if (s->n < from || s->n >= to) {
      s->part++;
      continue;
    }
    int64_t slabs = sl_tiles_of(to - from, SL_PRODUCT_ROWS), i = 0;
    while (from + sl_piece(to - from, slabs, i + 1) <= s->n) i++;
    s->m = from + sl_piece(to - from, slabs, i + 1) - s->n;
    s->k = sl_piece(groups, pieces, s->piece) * j->walk.steps;
    s->depth = sl_piece(groups, pieces, s->piece + 1) * j->walk.steps - s->k;
    return 1;
  }
}

static const sl_real *slab_data(const job *j, const slab *s) {
  const sl_array *w = &j->c->in[1].part[s->part];
  return (const sl_real *)w->data + (s->n - w->row0) * j->K + s->k * j->walk.unit;
}
/* Copies a slab's steps from `from` on to rows a_row steps apart. */
static void copy_slab(const job *j, const slab *s, int64_t from, float *a, int64_t a_row) {
  const int64_t unit = j->walk.unit, numbers = sl_min64((s->k + s->depth) * unit, j->K) - (s->k + from) * unit;
  for (int64_t i = 0; i < s->m && from < s->depth; i++) {
    const sl_real *w = slab_data(j, s) + i * j->K + from * unit;
    if (j->K % j->walk.group) a[i * a_row + s->depth - 1] = 0;
    if (sl_walk_widens(j->walk))
      sl_widen(numbers, w, a + i * a_row + from);
    else
      memcpy(a + i * a_row + from, w, (size_t)numbers * sizeof *w);
  }
}

static void forward(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const sl_call *c = j->c;
  sl_range features = sl_tile_range(tile, tile_width(c, j->N), j->N);
  const int64_t steps = sl_walk_steps(j->walk, j->K);
  int64_t yt_row = transposed_row(j->rows), a_row = sl_spread_stride(sl_min64(steps, SL_PRODUCT_DEPTH));
  float *yt = sl_own_scratch(j->c, thread, j->own), *a = yt + c->tiles.columns * yt_row,
        *other = a + WIDEST_ROWS * a_row;
  copy_table table = {.from_at = (int32_t *)(other + WIDEST_ROWS * a_row)};
  table.to_at = table.from_at + TABLE;
  slab s = {0};
  next_slab(j, features, &s);
  copy_slab(j, &s, 0, a, a_row);
  for (int more = 1; more;) {
    /* While the products of this slab run, W is read for the next slab, into rows whose distance suits the L1 cache. */
    slab next = s;
    more = next_slab(j, features, &next);
    int64_t vectors = next.depth / SL_LANES, ahead = more && !sl_walk_widens(j->walk) && j->K % j->walk.unit == 0 &&
                                                             next.m * vectors <= s.depth && fits(next.m, steps)
                                                         ? vectors
                                                         : 0;
    if (ahead && (table.m != next.m || table.depth != next.depth || table.steps != s.depth)) {
      table.m = next.m, table.depth = next.depth, table.steps = s.depth;
      int64_t n = 0;
      for (int64_t i = 0; i < next.m; i++)
        for (int64_t v = 0; v < vectors; v++, n++) {
          table.from_at[n] = (int32_t)(i * steps + v * SL_LANES);
          table.to_at[n] = (int32_t)(i * a_row + v * SL_LANES);
        }
      for (; n < s.depth + SL_PRODUCT_AHEAD; n++)
        table.from_at[n] = table.from_at[n - 1], table.to_at[n] = table.to_at[n - 1];
    }
    sl_product_copy copy = {more ? (const float *)(const void *)slab_data(j, &next) : NULL, other, table.from_at,
                            table.to_at};
    for (int64_t row = 0; row < j->rows; row += PANEL) {
      int64_t columns = j->rows - row > SL_LANES ? PANEL : SL_LANES;
      sl_walk_product(j->walk, s.m, columns, s.depth, a, a_row * j->walk.unit, j->at,
                      j->shared + row * steps + s.k * PANEL, PANEL, yt + (s.n - features.from) * yt_row + row, yt_row,
                      NULL, s.piece > 0, ahead && row == 0 ? &copy : NULL);
    }
    if (more) copy_slab(j, &next, ahead * SL_LANES, other, a_row);
    float *turn = a;
    a = other, other = turn, s = next;
  }
  finish(j, yt, yt_row, features.from, features.to - features.from, yt + c->tiles.columns * yt_row);
}

/* For bf16, K is rounded up, because an odd last number is paired with zero. */
static size_t linear_shared(int64_t rows, int64_t K) {
  return table_bytes() + sl_float_bytes(sl_round_up(sl_min64(rows, ROW_BLOCK), WIDEST) * sl_round_up(K, 2));
}

sl_status SL_KERNEL(linear)(const sl_call *c) {
#ifdef SL_STORE_BF16
  if (c->tiles.blocks) return SL_KERNEL(linear_blocks)(c);
#else
  if (c->tiles.blas) return sl__linear_blas(c);
#endif
  job j = {.c = c,
           .walk = sl_walk_of(&c->tiles),
           .R = rows_of(&c->in[0].shape),
           .K = last(&c->in[0].shape),
           .N = last(&c->out[0].shape)};
  j.at = c->team->scratch[0];
  j.shared = (float *)((char *)c->team->scratch[0] + table_bytes());
  j.own = linear_shared(j.R, j.K);
  for (int32_t i = 0; i < SL_PRODUCT_DEPTH; i++) j.at[i] = sl_walk_at(j.walk, i);
  for (j.row = 0; j.row < j.R; j.row += ROW_BLOCK) {
    j.rows = sl_min64(ROW_BLOCK, j.R - j.row);
    sl_team_for(c->team, sl_tiles_of(j.rows, PANEL), pack_rows, &j);
    sl_team_for(c->team, sl_tiles_of(j.N, tile_width(c, j.N)), forward, &j);
  }
  return SL_OK;
}

/* ---- linear_dx ------------------------------------------------------------------------------------------------- */

static void copy_rows(void *arg, int64_t tile, int thread) {
  (void)thread;
  const job *j = arg;
  sl_range r = sl_tile_range(tile, 16, j->rows);
  for (int64_t i = r.from; i < r.to; i++)
    memcpy(j->shared + i * j->left_row, (const float *)j->c->in[0].data + (j->row + i) * j->N,
           (size_t)j->N * sizeof(float));
}

/* A panel of a part of W: inputs [k, k + columns) of features [n, n + depth). Features are counted in steps. */
typedef struct block {
  int part;
  int64_t piece, k, columns, n, depth;
} block;

/* Moves b to the next block (b->columns = 0: to the first block). All panels for a piece of the features come first,
 * then the next piece, so that W's pages stay in the TLB. */
static int next_block(const job *j, sl_range inputs, block *b) {
  const sl_array *W = &j->c->in[1];
  b->k = b->columns ? b->k + PANEL : inputs.from;
  if (b->k >= inputs.to) b->k = inputs.from, b->piece++;
  for (; b->part < W->parts; b->part++, b->piece = 0) {
    int64_t groups = sl_walk_groups(j->walk, W->part[b->part].shape.dim[0]),
            pieces = pieces_of(groups, SL_PRODUCT_DEPTH / j->walk.group);
    if (b->piece >= pieces) continue;
    b->columns = sl_min64(PANEL, inputs.to - b->k);
    b->n = sl_piece(groups, pieces, b->piece) * j->walk.steps;
    b->depth = sl_piece(groups, pieces, b->piece + 1) * j->walk.steps - b->n;
    return 1;
  }
  return 0;
}

static const sl_real *block_data(const job *j, const block *b) {
  return (const sl_real *)j->c->in[1].part[b->part].data + b->n * j->walk.unit * j->K + b->k;
}
/* Features of a block. */
static int64_t block_rows(const job *j, const block *b) {
  return sl_min64(b->depth * j->walk.unit, j->c->in[1].part[b->part].shape.dim[0] - b->n * j->walk.unit);
}
static void pack_block(const job *j, const block *b, float *panel) {
  sl_pack_rows(j->walk, block_rows(j, b), b->columns, block_data(j, b), j->K, PANEL, panel, PANEL);
}

#ifdef SL_STORE_BF16
/* The features of dy for the block, in rows that are left_row steps apart: pairs or floats, an odd last number paired
 * with zero. */
static void copy_left(const job *j, const block *b, float *left, int64_t left_row) {
  const int64_t n = block_rows(j, b), first = j->c->in[1].part[b->part].row0 + b->n * j->walk.unit;
  for (int64_t i = 0; i < j->rows; i++) {
    const sl_real *dy = (const sl_real *)j->c->in[0].data + (j->row + i) * j->N + first;
    float *to = left + i * left_row;
    to[b->depth - 1] = 0;
    if (sl_walk_widens(j->walk))
      sl_widen(n, dy, to);
    else
      memcpy(to, dy, (size_t)n * sizeof *dy);
  }
}
#endif

static void backward(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const sl_call *c = j->c;
  sl_range inputs = sl_tile_range(tile, tile_width(c, j->K), j->K);
  float *panel = sl_own_scratch(j->c, thread, j->own), *other = panel + SL_PRODUCT_DEPTH * PANEL;
  copy_table table = {.from_at = (int32_t *)(other + SL_PRODUCT_DEPTH * PANEL)};
  table.to_at = table.from_at + TABLE;
#ifdef SL_STORE_BF16 /* sums in float, of this tile's columns; and dy's features of this piece */
  const int64_t sum_row = sl_round_up(inputs.to - inputs.from, 16), left_row = sl_spread_stride(SL_PRODUCT_DEPTH);
  float *left = (float *)(table.to_at + TABLE), *sums = left + ROW_BLOCK * left_row - inputs.from;
#else
  const int64_t sum_row = j->K;
  float *sums = (float *)c->out[0].data + j->row * j->K;
#endif
  int64_t slabs = sl_tiles_of(j->rows, SL_PRODUCT_ROWS);
  block b = {0};
  next_block(j, inputs, &b);
  pack_block(j, &b, panel);
  for (int more = 1; more;) {
    /* The products also pack the next panel: the first product packs its left half, the second product its right half.
     * In bf16, rows must be paired, so the panel is packed after the products. */
    block next = b;
    more = next_block(j, inputs, &next);
    int ahead = j->walk.group == 1 && more && slabs > 1 && next.columns == PANEL && next.depth <= b.depth &&
                fits(next.depth, j->K);
    if (ahead && (table.depth != next.depth || table.steps != b.depth)) {
      table.depth = next.depth, table.steps = b.depth;
      for (int64_t i = 0; i < b.depth + SL_PRODUCT_AHEAD; i++) {
        int64_t n = sl_min64(i, next.depth - 1);
        table.from_at[i] = (int32_t)(n * j->K), table.to_at[i] = (int32_t)(n * PANEL);
      }
    }
    sl_product_copy copy[2] = {
        {more ? (const float *)(const void *)block_data(j, &next) : NULL, other, table.from_at, table.to_at}};
    if (more) copy[1] = (sl_product_copy){copy[0].from + SL_LANES, other + SL_LANES, table.from_at, table.to_at};
    for (int64_t slab = 0; slab < slabs; slab++) {
      int64_t i = sl_piece(j->rows, slabs, slab), m = sl_piece(j->rows, slabs, slab + 1) - i;
#ifdef SL_STORE_BF16
      if (slab == 0 && b.k == inputs.from) copy_left(j, &b, left, left_row);
      const float *dy = left + i * left_row;
      const int64_t dy_row = left_row * j->walk.unit;
#else
      const float *dy = j->left + i * j->left_row + c->in[1].part[b.part].row0 + b.n;
      const int64_t dy_row = j->left_row;
#endif
      sl_walk_product(j->walk, m, b.columns, b.depth, dy, dy_row, j->at, panel, PANEL, sums + i * sum_row + b.k,
                      sum_row, NULL, b.part > 0 || b.piece > 0, ahead && slab < 2 ? &copy[slab] : NULL);
    }
    if (more && !ahead) pack_block(j, &next, other);
    float *turn = panel;
    panel = other, other = turn, b = next;
  }
#ifdef SL_STORE_BF16
  for (int64_t i = 0; i < j->rows; i++)
    sl_narrow(inputs.to - inputs.from, sums + i * sum_row + inputs.from,
              (sl_real *)c->out[0].data + (j->row + i) * j->K + inputs.from);
#endif
}

/* Rows of dy are copied if their distance suits the cache badly. In bf16, each thread copies the rows that it reads. */
static int copies_rows(const sl_call *c) {
  return c->in[0].dtype == SL_F32 && sl_stride_clashes(last(&c->in[0].shape));
}
static size_t linear_dx_shared(const sl_call *c) {
  const int64_t rows = sl_min64(rows_of(&c->in[0].shape), ROW_BLOCK);
  return table_bytes() + (copies_rows(c) ? sl_float_bytes(rows * sl_spread_stride(last(&c->in[0].shape))) : 0);
}

sl_status SL_KERNEL(linear_dx)(const sl_call *c) {
#ifdef SL_STORE_BF16
  if (c->tiles.blocks) return SL_KERNEL(linear_dx_blocks)(c);
#else
  if (c->tiles.blas) return sl__linear_dx_blas(c);
#endif
  job j = {.c = c,
           .walk = sl_walk_of(&c->tiles),
           .R = rows_of(&c->in[0].shape),
           .K = last(&c->out[0].shape),
           .N = last(&c->in[0].shape)};
  j.at = c->team->scratch[0];
  j.shared = (float *)((char *)c->team->scratch[0] + table_bytes());
  j.own = linear_dx_shared(c);
  for (int32_t i = 0; i < SL_PRODUCT_DEPTH; i++) j.at[i] = sl_walk_at(j.walk, i);
  for (j.row = 0; j.row < j.R; j.row += ROW_BLOCK) {
    j.rows = sl_min64(ROW_BLOCK, j.R - j.row);
    j.left = (const float *)c->in[0].data + j.row * j.N, j.left_row = j.N;
    if (copies_rows(c)) {
      j.left = j.shared, j.left_row = sl_spread_stride(j.N);
      sl_team_for(c->team, sl_tiles_of(j.rows, 16), copy_rows, &j);
    }
    sl_team_for(c->team, sl_tiles_of(j.K, tile_width(c, j.K)), backward, &j);
  }
  return SL_OK;
}

/* ---- linear_dw ------------------------------------------------------------------------------------------------- */

/* Panel p of x: [steps of rows][PANEL], columns p * PANEL and on. */
static void pack_columns(void *arg, int64_t panel, int thread) {
  (void)thread;
  const job *j = arg;
  int64_t k = panel * PANEL;
  sl_pack_rows(j->walk, j->rows, sl_min64(PANEL, j->K - k), (const sl_real *)j->c->in[1].data + j->row * j->K + k, j->K,
               PANEL, j->shared + panel * PANEL * sl_walk_steps(j->walk, j->rows), PANEL);
}

static void weight_gradient(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const sl_call *c = j->c;
  int64_t N = c->out[0].shape.dim[0], features = last(&c->in[0].shape), steps = sl_walk_steps(j->walk, j->rows);
  sl_range all = sl_tile_range(tile, tile_width(c, N), N);
  int64_t width = all.to - all.from, dy_row = sl_spread_stride(width), slabs = sl_tiles_of(width, SL_PRODUCT_ROWS);
  float *dy = sl_own_scratch(j->c, thread, j->own), *dw = (float *)c->out[0].data + all.from * j->K;
  int32_t *at = (int32_t *)(dy + SUM_BLOCK * sl_spread_stride(c->tiles.columns));
  for (int64_t i = 0; i < steps; i++) at[i] = (int32_t)(i * dy_row * j->walk.unit);
  sl_pack_rows(j->walk, j->rows, width, (const sl_real *)c->in[0].data + j->row * features + c->out[0].row0 + all.from,
               features, width, dy, dy_row);
  for (int64_t group = 0; group < j->K; group += PANEL_GROUP * PANEL)
    for (int64_t slab = 0; slab < slabs; slab++) {
      int64_t n = sl_piece(width, slabs, slab), m = sl_piece(width, slabs, slab + 1) - n;
      for (int64_t k = group; k < sl_min64(j->K, group + PANEL_GROUP * PANEL); k += PANEL)
        sl_walk_product(j->walk, m, sl_min64(PANEL, j->K - k), steps, dy + n, j->walk.unit, at, j->shared + k * steps,
                        PANEL, dw + n * j->K + k, j->K, NULL, j->add || (c->accumulate & 1), NULL);
    }
  if (c->n_out > 1) {
    float *db = (float *)c->out[1].data + all.from;
    if (!j->add && !(c->accumulate & 2)) memset(db, 0, (size_t)width * sizeof *db);
#ifdef SL_STORE_BF16
    const sl_real *rows = (const sl_real *)c->in[0].data + j->row * features + c->out[0].row0 + all.from;
    sl_add_columns(j->rows, width, rows, features, db);
#else
    sl_add_columns(j->rows, width, dy, dy_row, db); /* as packed */
#endif
  }
}

static size_t linear_dw_shared(int64_t rows, int64_t K) {
  return sl_float_bytes(sl_round_up(sl_min64(rows, SUM_BLOCK), 2) * sl_round_up(K, WIDEST));
}

sl_status SL_KERNEL(linear_dw)(const sl_call *c) {
#ifdef SL_STORE_BF16
  if (c->tiles.blocks) return SL_KERNEL(linear_dw_blocks)(c);
#else
  if (c->tiles.blas) return sl__linear_dw_blas(c);
#endif
  job j = {.c = c, .walk = sl_walk_of(&c->tiles), .R = rows_of(&c->in[0].shape), .K = last(&c->in[1].shape)};
  j.shared = c->team->scratch[0];
  j.own = linear_dw_shared(j.R, j.K);
  for (j.row = 0; j.row < j.R; j.row += SUM_BLOCK, j.add = 1) {
    j.rows = sl_min64(SUM_BLOCK, j.R - j.row);
    sl_team_for(c->team, sl_tiles_of(j.K, PANEL), pack_columns, &j);
    sl_team_for(c->team, sl_tiles_of(c->out[0].shape.dim[0], tile_width(c, c->out[0].shape.dim[0])), weight_gradient,
                &j);
  }
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(linear);
SL_CUDA_DECLARE(linear_dx);
SL_CUDA_DECLARE(linear_dw);
SL_CUDA_DECLARE(linear_fast);
SL_CUDA_DECLARE(linear_dx_fast);
SL_CUDA_DECLARE(linear_dw_fast);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_out;
  SL_TRY(weights_check(in, n_in));
  char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
  if (in[0]->shape.ndim < 1 || in[1]->shape.ndim != 2 || last(&in[0]->shape) != in[1]->shape.dim[1])
    return sl_fail(SL_ESHAPE, "weights %s do not fit inputs %s: expects [features, inputs] and [..., inputs]",
                   sl_shape_text(&in[1]->shape, w, sizeof w), sl_shape_text(&in[0]->shape, x, sizeof x));
  if (n_in > 2 && (in[2]->shape.ndim != 1 || in[2]->shape.dim[0] != in[1]->shape.dim[0]))
    return sl_fail(SL_ESHAPE, "bias %s does not fit weights %s: expects one for each row",
                   sl_shape_text(&in[2]->shape, x, sizeof x), sl_shape_text(&in[1]->shape, w, sizeof w));
  out[0].shape = in[0]->shape;
  out[0].shape.dim[out[0].shape.ndim - 1] = in[1]->shape.dim[0];
  return SL_OK;
}

static sl_status shape_dx(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_out;
  SL_TRY(weights_check(in, n_in));
  char dy[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
  if (in[0]->shape.ndim < 1 || in[1]->shape.ndim != 2 || last(&in[0]->shape) != in[1]->shape.dim[0])
    return sl_fail(SL_ESHAPE, "weights %s do not fit the gradient %s: expects [features, inputs] and [..., features]",
                   sl_shape_text(&in[1]->shape, w, sizeof w), sl_shape_text(&in[0]->shape, dy, sizeof dy));
  out[0].shape = in[0]->shape;
  out[0].shape.dim[out[0].shape.ndim - 1] = in[1]->shape.dim[1];
  return SL_OK;
}

static sl_status shape_dw(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr;
  SL_TRY(weights_check(in, n_in));
  char dy[SL_SHAPE_TEXT], x[SL_SHAPE_TEXT];
  if (in[0]->shape.ndim < 1 || in[1]->shape.ndim < 1 || rows_of(&in[0]->shape) != rows_of(&in[1]->shape))
    return sl_fail(SL_ESHAPE, "gradient %s and inputs %s differ in rows", sl_shape_text(&in[0]->shape, dy, sizeof dy),
                   sl_shape_text(&in[1]->shape, x, sizeof x));
  out[0].shape = SL_SHAPE(last(&in[0]->shape), last(&in[1]->shape));
  out[0].scope = SL_SCOPE_WHOLE;
  if (n_out > 1) out[1].shape = SL_SHAPE(last(&in[0]->shape)), out[1].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) {
  const sl_linear_attr *attr = c->attr;
  double y = (double)sl_shape_count(&c->out[0].shape);
  cost->flops = y * (2 * (double)last(&c->in[0].shape) + (c->n_in > 2) + (attr->activation == SL_ACTIVATION_RELU));
  cost->bytes = weights_bytes(c);
}

static void cost_dx(const sl_call *c, sl_cost *cost) {
  cost->flops = 2 * (double)sl_shape_count(&c->out[0].shape) * (double)last(&c->in[0].shape);
  cost->bytes = weights_bytes(c);
}

static void cost_dw(const sl_call *c, sl_cost *cost) {
  double rows = (double)rows_of(&c->in[0].shape);
  cost->flops = 2 * (double)sl_shape_count(&c->out[0].shape) * rows;
  if (c->n_out > 1) cost->flops += (double)sl_shape_count(&c->out[1].shape) * rows;
  cost->bytes = weights_bytes(c);
}

static size_t scratch(const sl_call *c) {
  if (sl_by_blas(c)) return 0;
  if (sl_by_blocks(c)) return sl_linear_blocks_of(c, last(&c->in[0].shape), last(&c->out[0].shape)).bytes;
  int64_t R = rows_of(&c->in[0].shape);
  return linear_shared(R, last(&c->in[0].shape)) +
         sl_float_bytes(c->tiles.columns * transposed_row(sl_min64(R, ROW_BLOCK)) +
                        2 * WIDEST_ROWS * sl_spread_stride(SL_PRODUCT_DEPTH) + 2 * TABLE);
}

static size_t scratch_dx(const sl_call *c) {
  if (sl_by_blas(c)) return 0;
  if (sl_by_blocks(c)) return sl_linear_dx_blocks_of(c, last(&c->out[0].shape), last(&c->in[0].shape)).bytes;
  const int64_t sums =
      c->in[0].dtype == SL_F32
          ? 0
          : ROW_BLOCK * (sl_spread_stride(SL_PRODUCT_DEPTH) + sl_round_up(tile_width(c, last(&c->out[0].shape)), 16));
  return linear_dx_shared(c) + sl_float_bytes(2 * SL_PRODUCT_DEPTH * WIDEST + 2 * TABLE) + sl_float_bytes(sums);
}

static size_t scratch_dw(const sl_call *c) {
  if (sl_by_blas(c)) return 0;
  if (sl_by_blocks(c)) return sl_linear_dw_blocks_of(c, last(&c->in[1].shape), last(&c->in[0].shape)).bytes;
  return linear_dw_shared(rows_of(&c->in[0].shape), last(&c->in[1].shape)) +
         sl_float_bytes(SUM_BLOCK * sl_spread_stride(c->tiles.columns)) + sl_float_bytes(SUM_BLOCK);
}

/* CUDA: the sums of a result in bf16, and the parts of products and of the sums for the bias. */
static size_t scratch_cuda(const sl_call *c) {
  const int64_t R = rows_of(&c->in[0].shape), K = last(&c->in[0].shape);
  size_t most = 0;
  for (int part = 0; part < c->in[1].parts; part++) {
    const size_t bytes =
        sl_cuda_product_bytes(R, c->in[1].part[part].shape.dim[0], (int)pieces_of(K, SL_PRODUCT_DEPTH), 0);
    if (bytes > most) most = bytes;
  }
  return weights_sums_cuda(c) + most;
}

static size_t scratch_dx_cuda(const sl_call *c) {
  const int64_t R = rows_of(&c->in[0].shape), K = last(&c->out[0].shape);
  size_t most = 0;
  for (int part = 0; part < c->in[1].parts; part++) {
    const int64_t features = c->in[1].part[part].shape.dim[0];
    const size_t bytes = sl_cuda_product_bytes(R, K, (int)pieces_of(features, SL_PRODUCT_DEPTH), 0);
    if (bytes > most) most = bytes;
  }
  return weights_sums_cuda(c) + most;
}

static size_t scratch_dw_cuda(const sl_call *c) {
  const int64_t N = c->out[0].shape.dim[0];
  const int blocks = (int)sl_tiles_of(rows_of(&c->in[0].shape), SL_LINEAR_SUM_BLOCK);
  const size_t products = sl_cuda_product_bytes(N, last(&c->in[1].shape), blocks, 0);
  const size_t sums = c->n_out > 1 ? sl_cuda_column_bytes(blocks, N) : 0;
  return products > sums ? products : sums;
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_linear_attr *attr = node->attr;
  sl_value dy = dout[0];
  if (attr->activation == SL_ACTIVATION_RELU)
    dy = sl_graph_add1(graph, &sl_op_relu_grad, node->name, NULL, (sl_value[]){dy, node->out[0]}, 2);
  weights_gradient(graph, node, dy, need, din, &sl_op_linear_dx, &sl_op_linear_dw);
}

static const sl_operation *after_folds(void *attr) {
  sl_linear_attr *a = attr;
  if (a->activation != SL_ACTIVATION_RELU) return NULL;
  a->activation = SL_ACTIVATION_NONE;
  return &sl_op_relu;
}

/* Folds divide weight and bias by rows, or they divide the weight by columns and give the bias to one fold. */
static const sl_folding folding = {.rows = 2 | 4, .columns = 2, .once = 4, .after = after_folds};

const sl_operation sl_op_linear = {
    .name = "linear",
    .folding = &folding,
    .attr_bytes = sizeof(sl_linear_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = scratch_cuda,
    .cpu = SL_KERNELS(linear),
    .cpu_bf16 = SL_KERNELS_BF16(linear),
    .pairs = 1,
    .copies = 2,
    .cuda = SL_CUDA_KERNEL(linear),
    .cuda_fast = SL_CUDA_KERNEL(linear_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .all_in = 2 | 4,
};
const sl_operation sl_op_linear_dx = {
    .name = "linear_dx",
    .shape = shape_dx,
    .cost = cost_dx,
    .scratch = scratch_dx,
    .scratch_cuda = scratch_dx_cuda,
    .cpu = SL_KERNELS(linear_dx),
    .cpu_bf16 = SL_KERNELS_BF16(linear_dx),
    .pairs = 1,
    .copies = 2,
    .cuda = SL_CUDA_KERNEL(linear_dx),
    .cuda_fast = SL_CUDA_KERNEL(linear_dx_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .all_in = 2,
};
const sl_operation sl_op_linear_dw = {
    .name = "linear_dw",
    .shape = shape_dw,
    .cost = cost_dw,
    .scratch = scratch_dw,
    .scratch_cuda = scratch_dw_cuda,
    .cpu = SL_KERNELS(linear_dw),
    .cpu_bf16 = SL_KERNELS_BF16(linear_dw),
    .pairs = 1,
    .cuda = SL_CUDA_KERNEL(linear_dw),
    .cuda_fast = SL_CUDA_KERNEL(linear_dw_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .map_out = 1 | 2,
};

static sl_value activated(sl_graph *graph, const char *layer, sl_value x, sl_value weight, sl_value bias,
                          sl_activation activation) {
  const sl_linear_attr attr = {activation == SL_ACTIVATION_RELU ? SL_ACTIVATION_RELU : SL_ACTIVATION_NONE};
  sl_value y =
      sl_graph_add1(graph, &sl_op_linear, layer, &attr, (sl_value[]){x, weight, bias}, bias == SL_NONE ? 2 : 3);
  /* The gradient of gelu needs the input of gelu. So a fused kernel would write both input and output, and save almost
   * nothing. */
  if (activation == SL_ACTIVATION_GELU_ERF) return sl_gelu(graph, layer, y, SL_GELU_ERF);
  if (activation == SL_ACTIVATION_GELU_TANH) return sl_gelu(graph, layer, y, SL_GELU_TANH);
  return y;
}

sl_value sl_linear_with(sl_graph *graph, const char *layer, sl_value x, sl_value weight, sl_value bias) {
  return activated(graph, layer, x, weight, bias, SL_ACTIVATION_NONE);
}

sl_value sl_linear_init(sl_graph *graph, const char *layer, sl_value x, int64_t features, sl_activation activation,
                        const sl_layer_init *init) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  const sl_shape shape = SL_SHAPE(features, last(&info->shape));
  sl_value w = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "weight", SL_F32, shape, init->weight);
  sl_value b = sl_graph_tensor(graph, SL_ROLE_PARAMETER, layer, "bias", SL_F32, SL_SHAPE(features), init->bias);
  return activated(graph, layer, x, w, b, activation);
}

sl_value sl_linear(sl_graph *graph, const char *layer, sl_value x, int64_t features, sl_activation activation) {
  const sl_value_info *info = sl_graph_value(graph, x);
  if (!info || info->shape.ndim < 1) return SL_NONE;
  const sl_init init = {SL_INIT_UNIFORM, 1 / sqrt((double)sl_max64(1, last(&info->shape)))};
  return sl_linear_init(graph, layer, x, features, activation, &(sl_layer_init){init, init});
}
#endif
