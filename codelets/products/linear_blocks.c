/* linear, linear_dx and linear_dw in bf16, with sums by blocks (product.h). One matrix is packed in panels of pairs. Of
 * the other matrix, strips of 32 rows are read in place or, if the distance of the rows suits the cache badly, copied.
 * An odd number at the end of a contraction is paired with zero.
 *
 * R rows (all dimensions but the last), K inputs, N features. */
#include "codelets/attributes.h"
#include "codelets/products/by_blocks.h"

#ifdef SL_STORE_BF16

enum { PANEL = SL_PRODUCT_COLUMNS, STRIP = SL_BLOCK_ROWS, DEPTH = SL_LINEAR_DEPTH, LINE = 64 };

typedef struct job {
  const sl_call *c;
  sl_walk walk;
  sl_blocks_layout l;
  int64_t R, K, N;
  int64_t row, rows; /* the row block */
  float *shared;
  int32_t at[DEPTH]; /* offsets of the pairs of a row */
} job;

static int64_t last(const sl_shape *s) { return s->dim[s->ndim - 1]; }

static job job_of(const sl_call *c, sl_blocks_layout l, int64_t K, int64_t N) {
  job j = {.c = c, .walk = sl_walk_of(&c->tiles), .l = l, .K = K, .N = N, .shared = c->team->scratch[0]};
  j.R = sl_linear_rows(c, last(&c->in[0].shape));
  for (int32_t i = 0; i < DEPTH; i++) j.at[i] = 2 * i;
  return j;
}
static float *own(const job *j, int thread) { return sl_own_scratch(j->c, thread, sl_float_bytes(j->l.shared)); }

/* A strip of a matrix: n numbers of each of `rows` rows, which lie `row` numbers apart. */
typedef struct strip {
  const sl_real *data;
  int64_t row, rows, n;
} strip;

/* Returns the strip in the form that products take, in place or copied. */
static strip strip_of(strip s, float *memory) {
  if (s.n % 2 == 0 && s.row * (int64_t)sizeof *s.data % 1024) return s;
  const int64_t to_row = 2 * sl_spread_stride(DEPTH);
  sl_real *to = (sl_real *)(void *)memory;
  for (int64_t i = 0; i < s.rows; i++) {
    memcpy(to + i * to_row, s.data + i * s.row, (size_t)s.n * sizeof *to);
    if (s.n % 2) to[i * to_row + s.n] = (sl_real){0};
  }
  return (strip){to, to_row, s.rows, s.n};
}

/* Prefetches part `part` of `parts` parts of the strip. */
static void fetch(strip s, int64_t part, int64_t parts) {
  const int64_t lines = sl_tiles_of(s.n * (int64_t)sizeof *s.data, LINE), all = s.rows * lines;
  for (int64_t i = all * part / parts; i < all * (part + 1) / parts; i++)
    __builtin_prefetch((const char *)(s.data + i / lines * s.row) + i % lines * LINE, 0, 2);
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static void pack_rows(void *arg, int64_t panel, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t from = panel * PANEL, n = sl_min64(PANEL, j->rows - from), pairs = sl_tiles_of(j->K, 2);
  float *to = j->shared + from * pairs;
  if (n < PANEL) memset(to, 0, (size_t)(PANEL * pairs) * sizeof *to);
  sl_pack_columns(j->walk, n, j->K, (const sl_real *)j->c->in[0].data + (j->row + from) * j->K, j->K, to, PANEL);
}

/* The bias of a feature. */
static float bias_of(const sl_call *c, int64_t feature) {
  for (int part = 0; c->n_in > 2 && part < c->in[2].parts; part++) {
    const sl_array *b = &c->in[2].part[part];
    if (feature >= b->row0 && feature < b->row0 + b->shape.dim[0]) return ((const float *)b->data)[feature - b->row0];
  }
  return 0;
}

static inline sl_vec_bits finished(const float *sum, float bias, int biased, int relu) {
  sl_bf16 line[SL_LANES];
  sl_vec y = sl_load(sum);
  if (biased) y += sl_splat(bias);
  if (relu) y = sl_select(y < 0, sl_splat(0), y);
  sl_store(line, y);
  return (sl_vec_bits)sl_load(line) >> 16;
}

/* pairs[n / 2][row] = the sums [n][row] of the features from `feature` on, with bias and activation, rounded. */
static void finish(const job *j, int64_t feature, int64_t n, const float *sums, float *pairs) {
  const int relu = ((const sl_linear_attr *)j->c->attr)->activation == SL_ACTIVATION_RELU, biased = j->c->n_in > 2;
  const int64_t row = j->l.row;
  for (int64_t f = 0; f < n; f += 2) {
    const float first = bias_of(j->c, feature + f), second = f + 1 < n ? bias_of(j->c, feature + f + 1) : 0;
    for (int64_t i = 0; i < j->rows; i += SL_LANES) {
      sl_vec_bits both = finished(sums + f * row + i, first, biased, relu);
      if (f + 1 < n) both |= finished(sums + (f + 1) * row + i, second, biased, relu) << 16;
      sl_store(pairs + f / 2 * row + i, (sl_vec)both);
    }
  }
}

/* Writes features [feature, feature + n) of y from their pairs. `line` has room for these features of 16 rows. */
static void turn_back(const job *j, int64_t feature, int64_t n, const float *pairs, float *line) {
  sl_real *y = (sl_real *)j->c->out[0].data + j->row * j->N + feature;
  const int64_t wide = sl_tiles_of(n, 2), in_place = j->N % 2 == 0 && n % 2 == 0;
  for (int64_t i = 0; i < j->rows; i += SL_BLOCK) {
    const int64_t rows = sl_min64(SL_BLOCK, j->rows - i);
    float *to = in_place ? (float *)(void *)(y + i * j->N) : line;
    SL_SHARED(transpose)(wide, rows, pairs + i, j->l.row, to, in_place ? j->N / 2 : wide);
    for (int64_t r = 0; !in_place && r < rows; r++) memcpy(y + (i + r) * j->N, line + r * wide, (size_t)n * sizeof *y);
  }
}

/* The strip of features [n, to) of a part of W, STRIP at most: pairs [k, k + DEPTH) of each. */
static strip weights_at(const job *j, const sl_array *w, int64_t n, int64_t to, int64_t k) {
  return (strip){(const sl_real *)w->data + (n - w->row0) * j->K + 2 * k, j->K, sl_min64(STRIP, to - n),
                 sl_min64(2 * DEPTH, j->K - 2 * k)};
}

static void forward(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const sl_range features = sl_tile_range(tile, j->l.width, j->N);
  const int64_t pairs = sl_tiles_of(j->K, 2), panels = sl_tiles_of(j->rows, PANEL);
  float *memory = own(j, thread), *sums = memory + j->l.b, *turned = memory + j->l.c;
  for (int part = 0; part < j->c->in[1].parts; part++) {
    const sl_array *w = &j->c->in[1].part[part];
    const int64_t from = sl_max64(features.from, w->row0), to = sl_min64(features.to, w->row0 + w->shape.dim[0]);
    for (int64_t n = from; n < to; n += STRIP) {
      for (int64_t k = 0; k < pairs; k += DEPTH) {
        const strip s = strip_of(weights_at(j, w, n, to, k), memory);
        const int more = k + DEPTH < pairs, next = more || n + STRIP < to;
        const strip ahead = weights_at(j, w, more || !next ? n : n + STRIP, to, more ? k + DEPTH : 0);
        for (int64_t p = 0; p < panels; p++) {
          if (next) fetch(ahead, p, panels);
          SL_SHARED(product_blocks)
          (s.rows, PANEL, sl_tiles_of(s.n, 2), s.data, s.row, j->at, j->shared + (p * pairs + k) * PANEL, PANEL,
           sums + p * PANEL, j->l.row, NULL, k > 0);
        }
      }
      finish(j, n, sl_min64(STRIP, to - n), sums, turned + (n - from) / 2 * j->l.row);
    }
    if (from < to) turn_back(j, from, to - from, turned, turned + sl_tiles_of(to - from, 2) * j->l.row);
  }
}

sl_status SL_KERNEL(linear_blocks)(const sl_call *c) {
  const int64_t K = last(&c->in[0].shape), N = last(&c->out[0].shape);
  job j = job_of(c, sl_linear_blocks_of(c, K, N), K, N);
  for (j.row = 0; j.row < j.R; j.row += j.rows) {
    j.rows = sl_min64(SL_LINEAR_ROWS, j.R - j.row);
    sl_team_for(c->team, sl_tiles_of(j.rows, PANEL), pack_rows, &j);
    sl_team_for(c->team, sl_tiles_of(N, j.l.width), forward, &j);
  }
  return SL_OK;
}

/* ---- linear_dx --------------------------------------------------------------------------------------------------- */

/* Packs rows of W, at most 2 DEPTH, columns [0, columns) of them, into panels [columns / PANEL][DEPTH][PANEL]. */
static void pack_weights(const job *j, const sl_real *from, int64_t rows, int64_t columns, float *to) {
  for (int64_t i = 0; i < rows; i += 2, from += 2 * j->K, to += PANEL) {
    for (int64_t k = 0; k < columns; k += LINE / 2)
      __builtin_prefetch(from + 16 * j->K + k), __builtin_prefetch(from + 17 * j->K + k);
    for (int64_t k = 0; k < columns; k += PANEL)
      sl_pack_group(j->walk, from + k, i + 1 < rows ? from + j->K + k : NULL, sl_min64(PANEL, columns - k), PANEL,
                    to + k * DEPTH, PANEL);
  }
}

static void backward(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const sl_range inputs = sl_tile_range(tile, j->l.width, j->K);
  const int64_t columns = inputs.to - inputs.from, row = j->l.row;
  float *memory = own(j, thread), *panels = memory + j->l.b, *sums = memory + j->l.c;
  int add = 0;
  for (int part = 0; part < j->c->in[1].parts; part++) {
    const sl_array *w = &j->c->in[1].part[part];
    for (int64_t n = 0; n < w->shape.dim[0]; n += 2 * DEPTH, add = 1) {
      const int64_t depth = sl_min64(2 * DEPTH, w->shape.dim[0] - n);
      pack_weights(j, (const sl_real *)w->data + n * j->K + inputs.from, depth, columns, panels);
      for (int64_t i = 0; i < j->rows; i += STRIP) {
        const sl_real *dy = (const sl_real *)j->c->in[0].data + (j->row + i) * j->N + w->row0 + n;
        const strip s = strip_of((strip){dy, j->N, sl_min64(STRIP, j->rows - i), depth}, memory);
        for (int64_t k = 0; k < columns; k += PANEL) SL_SHARED(product_blocks)
        (s.rows, sl_min64(PANEL, columns - k), sl_tiles_of(depth, 2), s.data, s.row, j->at, panels + k * DEPTH, PANEL,
         sums + i * row + k, row, NULL, add);
      }
    }
  }
  for (int64_t i = 0; i < j->rows; i++)
    sl_narrow(columns, sums + i * row, (sl_real *)j->c->out[0].data + (j->row + i) * j->K + inputs.from);
}

sl_status SL_KERNEL(linear_dx_blocks)(const sl_call *c) {
  const int64_t K = last(&c->out[0].shape), N = last(&c->in[0].shape);
  job j = job_of(c, sl_linear_dx_blocks_of(c, K, N), K, N);
  for (j.row = 0; j.row < j.R; j.row += j.rows) {
    j.rows = sl_min64(SL_LINEAR_ROWS, j.R - j.row);
    sl_team_for(c->team, sl_tiles_of(K, j.l.width), backward, &j);
  }
  return SL_OK;
}

/* ---- linear_dw --------------------------------------------------------------------------------------------------- */

static void pack_columns(void *arg, int64_t panel, int thread) {
  (void)thread;
  const job *j = arg;
  const int64_t k = panel * PANEL;
  sl_pack_rows(j->walk, j->rows, sl_min64(PANEL, j->K - k), (const sl_real *)j->c->in[1].data + j->row * j->K + k, j->K,
               PANEL, j->shared + k * sl_tiles_of(j->rows, 2), PANEL);
}

/* Transposes pairs of rows of dy into to[width][row]. Memory after the last pair is not read. */
static void turn_rows(const job *j, const sl_real *dy, int64_t width, float *lines, float *to) {
  const int64_t line = sl_round_up(width, SL_BLOCK);
  for (int64_t row = 0; row < j->rows; row += 2 * SL_BLOCK, to += SL_BLOCK) {
    const int64_t rows = sl_min64(2 * SL_BLOCK, j->rows - row);
    sl_pack_rows(j->walk, rows, width, dy + row * j->N, j->N, line, lines, line);
    SL_SHARED(transpose)(SL_BLOCK, line, lines, line, to, j->l.row);
  }
}

static void weight_gradient(void *arg, int64_t tile, int thread) {
  enum { GROUP = 8, PIECE = DEPTH }; /* GROUP panels of x for a strip of dy stay in the L2 cache; PIECE: pairs */
  const job *j = arg;
  const sl_call *c = j->c;
  const sl_range features = sl_tile_range(tile, j->l.width, c->out[0].shape.dim[0]);
  const int64_t width = features.to - features.from, pairs = sl_tiles_of(j->rows, 2), row = j->l.row;
  const sl_real *dy = (const sl_real *)c->in[0].data + j->row * j->N + c->out[0].row0 + features.from;
  const int add = j->row > 0 || (c->accumulate & 1);
  float *turned = own(j, thread), *dw = (float *)c->out[0].data + features.from * j->K;
  turn_rows(j, dy, width, turned + j->l.b, turned);
  for (int64_t group = 0; group < j->K; group += GROUP * PANEL)
    for (int64_t p = 0; p < pairs; p += PIECE)
      for (int64_t n = 0; n < width; n += STRIP)
        for (int64_t k = group; k < sl_min64(j->K, group + GROUP * PANEL); k += PANEL) SL_SHARED(product_blocks)
  (sl_min64(STRIP, width - n), sl_min64(PANEL, j->K - k), sl_min64(PIECE, pairs - p),
   (const sl_real *)(const void *)(turned + n * row + p), 2 * row, j->at, j->shared + k * pairs + p * PANEL, PANEL,
   dw + n * j->K + k, j->K, NULL, p > 0 || add);
  if (c->n_out < 2) return;
  float *db = (float *)c->out[1].data + features.from;
  if (j->row == 0 && !(c->accumulate & 2)) memset(db, 0, (size_t)width * sizeof *db);
  sl_add_columns(j->rows, width, dy, j->N, db);
}

sl_status SL_KERNEL(linear_dw_blocks)(const sl_call *c) {
  const int64_t K = last(&c->in[1].shape), N = last(&c->in[0].shape);
  job j = job_of(c, sl_linear_dw_blocks_of(c, K, N), K, N);
  for (j.row = 0; j.row < j.R; j.row += j.rows) {
    j.rows = sl_min64(SL_LINEAR_SUM, j.R - j.row);
    sl_team_for(c->team, sl_tiles_of(K, PANEL), pack_columns, &j);
    sl_team_for(c->team, sl_tiles_of(c->out[0].shape.dim[0], j.l.width), weight_gradient, &j);
  }
  return SL_OK;
}
#endif
