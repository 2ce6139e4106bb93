/* Rows of logits: their log-sum-exp, their sum, the gradient of both, and the place of a target among them. */
#ifndef SL_LOSSES_ROWS_H
#define SL_LOSSES_ROWS_H

#include "codelets/kernels/math.h"

/* Number of classes, in a call whose first two inputs are logits [B, ..., V] and targets [B, ...]. */
static inline int64_t sl__classes(const sl_call *c) { return c->in[0].shape.dim[c->in[0].shape.ndim - 1]; }
/* Number of tiles (runs of rows) into which the work of such a call is cut. */
static inline int64_t sl__row_tiles(const sl_call *c) {
  return sl_tiles_of(sl_shape_count(&c->in[1].shape), sl_tile_rows(c, sl__classes(c)));
}

/* SL_EINVAL: a target is beyond the classes; the error names target and sample. */
static inline sl_status sl__targets_check(const sl_call *c, int64_t classes) {
  const int64_t rows = sl_shape_count(&c->in[1].shape), each = sl_shape_row(&c->in[1].shape);
  const int32_t *target = c->in[1].data;
  for (int64_t i = 0; i < rows; i++)
    if (target[i] >= classes)
      return sl_fail(SL_EINVAL, "target %d of sample %lld is beyond the %lld classes", (int)target[i],
                     (long long)(c->row0 + i / each), (long long)classes);
  return SL_OK;
}

/* Takes one pass, which also finds the maximum (Milakov and Gimelshein 2018). Returns NaN if an element is not
 * finite. */
static inline double sl__log_sum_exp(const sl_real *x, int64_t V) {
  enum { RUN = 256 }; /* elements summed in floats; the runs' sums are added in double */
  float max = -INFINITY;
  double sum = 0;
  sl_sum odd = {{{0}}}; /* stays 0 while all are finite */
  for (int64_t from = 0; from < V; from += RUN) {
    const int64_t n = sl_min64(RUN, V - from);
    const float here = sl_max_row(x + from, n);
    if (!(here <= max)) {
      sum *= sl_exp_d((double)max - (double)here);
      max = here;
    }
    sl_sum part = {{{0}}};
    int64_t i = from;
    for (; i + SL_SUM_LANES <= from + n; i += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++) {
        sl_vec v = sl_load(x + i + w * SL_LANES);
        odd.v[w] += v - v;
        part.v[w] += sl_exp(v - max);
      }
    for (int w = 0; i + w * SL_LANES < from + n; w++) {
      const int64_t at = i + w * SL_LANES, left = from + n - at;
      sl_vec v = sl_load_left(x + at, left, 0);
      odd.v[w] += v - v;
      part.v[w] += sl_exp(sl_load_left(x + at, left, -INFINITY) - max);
    }
    sum += (double)sl_sum_lanes(part);
  }
  return (double)max + sl_log_d(sum) + (double)sl_sum_lanes(odd);
}

static inline double sl__row_sum(const sl_real *x, int64_t V) {
  enum { RUN = 256 };
  double sum = 0;
  for (int64_t from = 0; from < V; from += RUN) {
    const int64_t to = sl_min64(V, from + RUN);
    sl_sum part = {{{0}}};
    for (int64_t i = from; i < to; i += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++)
        part.v[w] += sl_load_left(x + i + w * SL_LANES, to - i - w * SL_LANES, 0);
    sum += (double)sl_sum_lanes(part);
  }
  return sum;
}

/* dx[k] = scale exp(x[k] - lse) - even, minus `aim` at the target. The target may be outside of [0, V). dx may be x. */
static inline void sl__row_slopes(const sl_real *x, int64_t V, int64_t target, double lse, double scale, float even,
                                  float aim, sl_real *dx) {
  const float high = (float)lse; /* the rounding error of lse goes into the factor */
  const sl_vec factor = sl_splat((float)(sl_exp_d((double)high - lse) * scale)), less = sl_splat(-even);
  const int here = target >= 0 && target < V;
  const sl_vec at = sl_fma(sl_exp(sl_splat(here ? sl_get(x + target) : 0) - high), factor, less);
  int64_t i = 0;
  for (; i + SL_LANES <= V; i += SL_LANES) sl_store(dx + i, sl_fma(sl_exp(sl_load(x + i) - high), factor, less));
  if (i < V) sl_store_n(dx + i, sl_fma(sl_exp(sl_load_n(x + i, V - i, 0) - high), factor, less), V - i);
  if (here) sl_put(dx + target, at[0] - aim); /* of x, before dx was rounded */
}

/* The number of elements that come before the target: larger elements, and equal elements with a smaller index. mine:
 * the value of the target. -1: an element is NaN. The target may be outside of [0, V). */
static inline int64_t sl__row_before(const sl_real *x, int64_t V, float mine, int64_t target) {
  int64_t before = 0, nan = 0;
  for (int64_t from = 0; from < V; from += 1 << 20) { /* sums of 32 bits have as many lanes as floats */
    const int64_t to = sl_min64(V, from + (1 << 20)), equal = sl_max64(from, sl_min64(to, target));
    int32_t larger = 0, same = 0, broken = 0;
    for (int64_t j = from; j < to; j++) larger += sl_get(x + j) > mine, broken += sl_get(x + j) != sl_get(x + j);
    for (int64_t j = from; j < equal; j++) same += sl_get(x + j) == mine;
    before += larger + same, nan += broken;
  }
  return nan ? -1 : before;
}

#endif
