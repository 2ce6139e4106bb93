/* Sizes and scratch memory of linear layers and of conv2d_dw if products of bf16 are summed by blocks. linear_blocks.c
 * and conv2d_dw_blocks.c use them, and so do the scratch rules of linear.c and conv2d_dw.c. */
#ifndef SL_BY_BLOCKS_H
#define SL_BY_BLOCKS_H

#include "codelets/kernels/weights.h"

/* With AMX's tiles a product takes a twentieth of the time that it takes in fp32. So weights are read once for more
 * rows, and the strips of rows that a product takes lie in the L1 cache. None of these sizes decides bits, since all
 * are whole blocks. */
enum {
  SL_LINEAR_ROWS = 512,  /* of x or dy at once: their panels or sums stay in the L2 cache */
  SL_LINEAR_SUM = 1024,  /* rows that linear_dw takes at once, which reads and writes all of dW for them */
  SL_LINEAR_DEPTH = 128, /* pairs of a contraction at once */
};

/* Layout of the scratch memory, in floats: a part that all threads share, then the own part of each thread. In a
 * thread's own part the first array begins at 0; the other arrays, if there are more, begin at a, b and c. width:
 * columns of a tile of the team's work. row: distance between the rows of the last array. */
typedef struct sl_blocks_layout {
  int64_t width, row;
  int64_t shared, a, b, c;
  size_t bytes;
} sl_blocks_layout;

static inline int sl_by_blocks(const sl_call *c) { return c->tiles.blocks && c->in[0].dtype == SL_BF16; }
static inline int64_t sl_linear_rows(const sl_call *c, int64_t last) {
  return last ? sl_shape_count(&c->in[0].shape) / last : 0;
}
/* Columns of a tile: about the plan's number, with tiles of equal size. */
static inline int64_t sl_linear_width(const sl_call *c, int64_t n) {
  const int64_t tiles = sl_max64(1, sl_tiles_of(n, c->tiles.columns));
  return sl_min64(c->tiles.columns, sl_round_up(sl_tiles_of(n, tiles), 16));
}
static inline int64_t sl_linear_strip(void) { return SL_BLOCK_ROWS * sl_spread_stride(SL_LINEAR_DEPTH); }
static inline sl_blocks_layout sl_blocks_layout_end(sl_blocks_layout l, int64_t end) {
  l.bytes = sl_float_bytes(l.shared) + sl_float_bytes(end);
  return l;
}

/* linear. Shared: panels of x [rows / PANEL][pairs of K][PANEL]. Own: a strip of W; sums [32][row]; y transposed, by
 * pairs [width / 2][row], and a line of y for 16 rows. */
static inline sl_blocks_layout sl_linear_blocks_of(const sl_call *c, int64_t K, int64_t N) {
  const int64_t rows = sl_round_up(sl_min64(sl_linear_rows(c, K), SL_LINEAR_ROWS), SL_PRODUCT_COLUMNS_MOST);
  sl_blocks_layout l = {.width = sl_linear_width(c, N), .row = rows + 16};
  l.shared = sl_round_up(rows * sl_tiles_of(K, 2), 16);
  l.b = sl_linear_strip();
  l.c = l.b + SL_BLOCK_ROWS * l.row;
  return sl_blocks_layout_end(l, l.c + sl_round_up(l.width, 32) / 2 * (l.row + SL_BLOCK));
}

/* linear_dx. Own: a strip of dy; panels of W [width / PANEL][DEPTH][PANEL]; sums [rows][row]. */
static inline sl_blocks_layout sl_linear_dx_blocks_of(const sl_call *c, int64_t K, int64_t N) {
  sl_blocks_layout l = {.width = sl_linear_width(c, K)};
  l.row = sl_spread_stride(sl_round_up(l.width, SL_PRODUCT_COLUMNS_MOST));
  l.b = sl_linear_strip();
  l.c = l.b + sl_round_up(l.width, SL_PRODUCT_COLUMNS_MOST) * SL_LINEAR_DEPTH;
  return sl_blocks_layout_end(l, l.c + sl_min64(sl_linear_rows(c, N), SL_LINEAR_ROWS) * l.row);
}

/* linear_dw. Shared: panels of x [K / PANEL][pairs of rows][PANEL]. Own: dy transposed [width][row]; lines
 * [16][width]. */
static inline sl_blocks_layout sl_linear_dw_blocks_of(const sl_call *c, int64_t K, int64_t features) {
  const int64_t pairs = sl_tiles_of(sl_min64(sl_linear_rows(c, features), SL_LINEAR_SUM), 2);
  sl_blocks_layout l = {.width = sl_linear_width(c, c->out[0].shape.dim[0]),
                        .row = sl_spread_stride(sl_round_up(pairs, SL_BLOCK))};
  l.shared = sl_round_up(pairs * sl_round_up(K, SL_PRODUCT_COLUMNS_MOST), 16);
  l.b = sl_round_up(l.width, SL_BLOCK) * l.row;
  return sl_blocks_layout_end(l, l.b + SL_BLOCK * sl_round_up(l.width, SL_BLOCK));
}

/* conv2d_dw. Number of pairs in a chunk of lines, and number of lines in a chunk. A line is a row of outputs; an odd
 * last output is paired with zero. These two numbers decide bits. */
enum { SL_CONV2D_CHUNK = 512 };
static inline int64_t sl_conv2d_chunk_lines(int64_t line_pairs) {
  return sl_max64(1, SL_CONV2D_CHUNK / sl_max64(1, line_pairs));
}
/* Own: dy transposed [width][row]; lines of dy [16][width]; a panel of x [pairs][PANEL]; sums of the bias [width]. */
static inline sl_blocks_layout sl_conv2d_dw_blocks_of(const sl_call *c, int threads) {
  const int64_t filters = c->out[0].shape.dim[0], each = threads > 1 ? sl_tiles_of(filters, 2 * threads) : filters;
  sl_blocks_layout l = {.width = sl_min64(256, sl_round_up(each, SL_BLOCK_ROWS)),
                        .row = sl_spread_stride(SL_CONV2D_CHUNK)};
  l.a = l.width * l.row;
  l.b = l.a + SL_BLOCK * l.width;
  l.c = l.b + SL_CONV2D_CHUNK * SL_PRODUCT_COLUMNS_MOST;
  return sl_blocks_layout_end(l, l.c + l.width);
}

SL_KERNEL_DECLARE(linear_blocks);
SL_KERNEL_DECLARE(linear_dx_blocks);
SL_KERNEL_DECLARE(linear_dw_blocks);
SL_KERNEL_DECLARE(conv2d_dw_blocks);

#endif
