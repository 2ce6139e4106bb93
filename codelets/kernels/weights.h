/* What linear layers and convolutions share: scratch memory in whole cache lines, the check of types, the bytes that a
 * task moves, and the gradient rule, which adds one node for x and one node for weights and bias together. */
#ifndef SL_WEIGHTS_KERNEL_H
#define SL_WEIGHTS_KERNEL_H

#include "codelets/kernels/math.h"
#include "codelets/kernels/product.h"

/* How a product takes the numbers of its contraction. It takes floats one by one. In bf16, numbers form pairs
 * (product.h). A product takes both numbers of a pair in one step, or it takes them one by one, widened and with the
 * second number first. A group (pair or single number) has `group` numbers and takes `steps` steps of `unit` numbers
 * each. blocks: pairs in one step, and sums by blocks. */
typedef struct sl_walk {
  int group, steps, unit, blocks;
} sl_walk;
static inline sl_walk sl_walk_of(const sl_tiles *tiles) {
#ifdef SL_STORE_BF16
  if (tiles->blocks) return (sl_walk){2, 1, 2, 1};
  return SL_SHARED(product_has_pairs)() ? (sl_walk){2, 1, 2, 0} : (sl_walk){2, 2, 1, 0};
#else
  (void)tiles;
  return (sl_walk){1, 1, 1, 0};
#endif
}
/* sl_walk_rows: the largest number of rows of a product, and so of a strip. sl_walk_strips: the least number of strips
 * for n rows. sl_walk_strip: the first row of strip i. Strips have about equal size; by blocks, all strips but the last
 * have the largest size. */
static inline int64_t sl_walk_rows(sl_walk w) { return w.blocks ? SL_BLOCK_ROWS : SL_PRODUCT_ROWS; }
static inline int64_t sl_walk_strips(sl_walk w, int64_t n) { return sl_tiles_of(n, sl_walk_rows(w)); }
static inline int64_t sl_walk_strip(sl_walk w, int64_t n, int64_t i) {
  return w.blocks ? sl_min64(n, i * SL_BLOCK_ROWS) : sl_piece(n, sl_walk_strips(w, n), i);
}
/* First group of piece i of a contraction over `groups` groups. If sums go by blocks, pieces consist of whole
 * blocks. */
static inline int64_t sl_walk_piece(sl_walk w, int64_t groups, int64_t pieces, int64_t i) {
  return w.blocks ? sl_min64(groups, SL_BLOCK * sl_piece(sl_tiles_of(groups, SL_BLOCK), pieces, i))
                  : sl_piece(groups, pieces, i);
}
static inline int64_t sl_walk_groups(sl_walk w, int64_t n) { return sl_tiles_of(n, w.group); }
static inline int64_t sl_walk_steps(sl_walk w, int64_t n) { return sl_walk_groups(w, n) * w.steps; }
/* Packs numbers in pairs, as they lie in memory. */
static inline int sl_walk_paired(sl_walk w) { return w.unit > 1; }
/* Widens numbers. */
static inline int sl_walk_widens(sl_walk w) { return w.steps > 1; }
/* Offset at which the broadcast factor's numbers of step i begin, if they lie in memory in their own order. */
static inline int32_t sl_walk_at(sl_walk w, int32_t i) { return sl_walk_widens(w) ? i ^ 1 : i * w.unit; }

/* The product of product.h over k steps. a_row and a_at count numbers of a, which is float or, in pairs, sl_bf16. By
 * blocks nothing is copied. */
static inline void sl_walk_product(sl_walk w, int64_t rows, int64_t columns, int64_t k, const void *a, int64_t a_row,
                                   const int32_t *a_at, const float *b, int64_t b_row, float *c, int64_t c_row,
                                   const float *start, int add, const sl_product_copy *copy) {
#ifdef SL_STORE_BF16
  if (w.blocks) {
    SL_SHARED(product_blocks)(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add);
    return;
  }
#ifdef SL_ISA_AVX512
  if (sl_walk_paired(w)) {
    SL_SHARED(product_pairs)(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add, copy);
    return;
  }
#endif
  (void)w;
  SL_SHARED(product_flushed)(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add, copy);
#else
  (void)w;
  SL_SHARED(product)(rows, columns, k, a, a_row, a_at, b, b_row, c, c_row, start, add, copy);
#endif
}

/* to[i] = from[i], rounded. */
static inline void sl_narrow(int64_t n, const float *from, sl_bf16 *to) {
  int64_t i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) sl_store(to + i, sl_load(from + i));
  for (; i < n; i++) sl_put(to + i, from[i]);
}

/* to[i] = from[i] for i < n, as floats. */
static inline void sl_widen(int64_t n, const sl_real *from, float *to) {
  int64_t i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) sl_store(to + i, sl_load(from + i));
  for (; i < n; i++) to[i] = sl_get(from + i);
}

/* to[n] = from[n] for n < columns, as floats, then zeros up to `width`. */
static inline void sl_pack_line(int64_t columns, int64_t width, const sl_real *from, float *to) {
  int64_t n = 0;
  for (; n + 2 * SL_LANES <= columns; n += 2 * SL_LANES) {
    const sl_vec a = sl_load(from + n), b = sl_load(from + n + SL_LANES);
    sl_store(to + n, a), sl_store(to + n + SL_LANES, b);
  }
  for (; n < columns; n++) to[n] = sl_get(from + n);
  for (; n < width; n++) to[n] = 0;
}

/* Packs the rows of one group into to[step][n], for `columns` columns. second: in bf16, the row that is paired with the
 * first row. A row that is NULL counts as zeros. Columns from `columns` to `width` become zeros. */
static inline void sl_pack_group(sl_walk w, const sl_real *first, const sl_real *second, int64_t columns, int64_t width,
                                 float *to, int64_t to_row) {
#ifdef SL_STORE_BF16
  if (sl_walk_paired(w)) {
    int64_t n = 0;
    for (; n + SL_LANES <= columns; n += SL_LANES) {
      const sl_vec_bits low = first ? (sl_vec_bits)sl_load(first + n) >> 16 : (sl_vec_bits){0};
      const sl_vec_bits high = second ? (sl_vec_bits)sl_load(second + n) : (sl_vec_bits){0};
      sl_store(to + n, (sl_vec)(low | high));
    }
    for (; n < columns; n++) {
      const uint32_t pair = (first ? first[n].bits : 0) | (second ? (uint32_t)second[n].bits << 16 : 0);
      memcpy(to + n, &pair, sizeof pair);
    }
    for (; n < width; n++) to[n] = 0;
    return;
  }
  sl_pack_line(second ? columns : 0, width, second, to);
  sl_pack_line(first ? columns : 0, width, first, to + to_row);
#else
  (void)w, (void)second, (void)to_row;
  sl_pack_line(first ? columns : 0, width, first, to);
#endif
}

/* Packs a factor whose rows are the contraction into to[step i][n], for `columns` columns and the steps of `rows` rows.
 * A missing row counts as zeros. Columns from `columns` to `width` become zeros. */
static inline void sl_pack_rows(sl_walk w, int64_t rows, int64_t columns, const sl_real *from, int64_t from_row,
                                int64_t width, float *to, int64_t to_row) {
#ifndef SL_STORE_BF16
  if (columns == SL_PRODUCT_COLUMNS && width == columns) { /* without a loop over columns */
    for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row) {
      __builtin_prefetch(from + 32 * from_row);
      __builtin_prefetch(from + 32 * from_row + SL_PRODUCT_COLUMNS - 1);
      const sl_vec a = sl_load(from), b = sl_load(from + SL_LANES);
      sl_store(to, a), sl_store(to + SL_LANES, b);
    }
    return;
  }
#endif
  for (int64_t i = 0; i < rows; i += w.group, from += w.group * from_row, to += w.steps * to_row) {
    const sl_real *second = i + 1 < rows ? from + from_row : NULL;
    for (int64_t ahead = 0; ahead < w.group; ahead++) {
      __builtin_prefetch(from + (32 + ahead) * from_row);
      __builtin_prefetch(from + (32 + ahead) * from_row + SL_PRODUCT_COLUMNS - 1);
    }
    sl_pack_group(w, from, second, columns, width, to, to_row);
  }
}

/* Packs a factor whose columns are the contraction into to[step of k][i], for `rows` rows, at most SL_PRODUCT_COLUMNS,
 * and the steps of `numbers` numbers. A missing number counts as zero. */
static inline void sl_pack_columns(sl_walk w, int64_t rows, int64_t numbers, const sl_real *from, int64_t from_row,
                                   float *to, int64_t to_row) {
  const int64_t steps = sl_walk_steps(w, numbers);
  if (!sl_walk_widens(w) && numbers % w.unit == 0 && from_row % w.unit == 0) {
    SL_SHARED(transpose)(rows, steps, (const float *)(const void *)from, from_row / w.unit, to, to_row);
    return;
  }
  enum { STEPS = 64 };
  float line[SL_PRODUCT_COLUMNS * STEPS] = {0};
  for (int64_t k = 0; k < steps; k += STEPS) {
    const int64_t here = sl_min64(STEPS, steps - k), left = sl_min64(here * w.unit, numbers - k * w.unit);
    for (int64_t i = 0; i < rows; i++) {
      const sl_real *row = from + i * from_row + k * w.unit;
      line[i * STEPS + here - 1] = 0;
      if (sl_walk_widens(w))
        sl_widen(left, row, line + i * STEPS);
      else
        memcpy(line + i * STEPS, row, (size_t)left * sizeof *row);
      for (int64_t g = 0; g < here && sl_walk_widens(w); g += 2) {
        const float first = line[i * STEPS + g];
        line[i * STEPS + g] = line[i * STEPS + g + 1], line[i * STEPS + g + 1] = first;
      }
    }
    SL_SHARED(transpose)(rows, here, line, STEPS, to + k * to_row, to_row);
  }
}

/* Sums the columns of from[rows][columns] in the order of rows and adds the sums to `to`. */
static inline void sl_add_columns(int64_t rows, int64_t columns, const sl_real *from, int64_t from_row, float *to) {
#ifdef SL_STORE_BF16
  for (int64_t n = 0; n < columns; n += SL_LANES) {
    sl_vec sum = {0};
    for (int64_t i = 0; i < rows; i++) sum += sl_load_left(from + i * from_row + n, columns - n, 0);
    if (columns - n >= SL_LANES)
      sl_store(to + n, sl_load(to + n) + sum);
    else
      sl_store_n(to + n, sl_load_n(to + n, columns - n, 0) + sum, columns - n);
  }
#else
  SL_SHARED(add_columns)(rows, columns, from, from_row, to);
#endif
}

/* Bytes of n floats, rounded up to whole cache lines. */
static inline size_t sl_float_bytes(int64_t n) { return (size_t)sl_round_up(n, 16) * sizeof(float); }
/* The scratch memory of one thread, which begins `offset` bytes after the part that all threads share. */
static inline float *sl_own_scratch(const sl_call *c, int thread, size_t offset) {
  return (float *)((char *)c->team->scratch[thread] + offset);
}

#ifdef SL_ISA_BASE
static inline sl_status weights_check(const sl_value_info *const *in, int n_in) {
  for (int i = 0; i < n_in; i++)
    if (in[i]->dtype != SL_F32) return sl_fail(SL_ESHAPE, "takes F32, not %s", sl_dtype_name(in[i]->dtype));
  return SL_OK;
}

static inline double array_bytes(const sl_array *a) {
  return (double)sl_shape_count(&a->shape) * (double)sl_dtype_bytes(a->dtype);
}
/* The task reads all parts of the inputs once. It also reads the outputs to which the call adds. */
static inline double weights_bytes(const sl_call *c) {
  double sum = 0;
  for (int i = 0; i < c->n_in; i++)
    for (int part = 0; part < c->in[i].parts; part++) sum += array_bytes(&c->in[i].part[part]);
  for (int i = 0; i < c->n_out; i++) sum += (1 + (c->accumulate >> i & 1)) * array_bytes(&c->out[i]);
  return sum;
}

/* CUDA: scratch memory for the sums of output 0, if output 0 is in bf16. */
static inline size_t weights_sums_cuda(const sl_call *c) {
  return c->out[0].dtype == SL_BF16 ? sl_cuda_narrow_bytes(sl_shape_count(&c->out[0].shape)) : 0;
}

/* The inputs of `node` are x, weights and, optionally, a bias. dx takes (dy, weights). dw takes (dy, x) and gives the
 * gradients of weights and bias. */
static inline void weights_gradient(sl_graph *graph, const sl_node *node, sl_value dy, const int *need, sl_value *din,
                                    const sl_operation *dx, const sl_operation *dw) {
  const void *attr = dx->attr_bytes ? node->attr : NULL;
  sl_value sums[2] = {SL_NONE, SL_NONE};
  if (need[0]) din[0] = sl_graph_add1(graph, dx, node->name, attr, (sl_value[]){dy, node->in[1]}, 2);
  const int bias = node->n_in > 2 && need[2];
  if (!need[1] && !bias) return;
  sl_graph_add(graph, dw, node->name, attr, (sl_value[]){dy, node->in[0]}, 2, sums, 1 + bias);
  if (need[1]) din[1] = sums[0];
  if (bias) din[2] = sums[1];
}
#endif
#endif
