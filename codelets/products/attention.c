/* attention: softmax(q k^T / sqrt(d)) v for every head (Vaswani et al. 2017, eq. 1), and its gradient.
 *
 * No T x T matrix is stored. The forward pass goes over the keys in tiles with an online softmax (Milakov and
 * Gimelshein 2018) and keeps the log-sum-exp of each row. From the log-sum-exp the backward pass recomputes the
 * probabilities of a tile (Dao et al. 2022, algorithm 4). This costs 10 d operations per pair of query and key, instead
 * of 8 d with stored probabilities. Products use the register tile of product.h.
 *
 * Scores are stored transposed: each key has a row, and panels of queries are the columns. So a query is a lane of a
 * vector: its maximum and sum need no work across lanes, and its log-sum-exp is loaded, not broadcast.
 *
 * One (sample, head) is one tile of the team's work, in the backward pass too: one thread computes all of its dq, dk
 * and dv, so nothing is summed across threads. Causal work stops at the diagonal, to within a vector of queries.
 *
 * In bf16, a contraction takes its numbers by pairs (sl_walk in weights.h): pairs of elements for scores, pairs of keys
 * for the result and dq, pairs of queries for dk and dv. An odd last number is paired with zero. Probabilities and the
 * derivatives by scores are computed in float. They are rounded when they become factors of products.
 *
 * The first `length` tokens of a sample count, as keys and as queries. The other tokens are never read; their result
 * and gradient are zero. */
#include "codelets/attributes.h"
#include "codelets/kernels/attention_sizes.h"
#include "codelets/kernels/math.h"
#include "codelets/kernels/product_sizes.h"
#include "codelets/kernels/weights.h"

SL_KERNEL_DECLARE(attention);
SL_KERNEL_DECLARE(attention_grad);

enum {
  PANEL = SL_PRODUCT_COLUMNS, /* queries whose scores are computed at once */
  WIDEST = SL_PRODUCT_COLUMNS_MOST,
  LINE = 64 / sizeof(sl_real), /* elements of a cache line */
  /* These decide bits: */
  KEYS = 128,         /* keys of a tile of the forward pass */
  GRAD_KEYS = 128,    /* keys of a tile of the backward pass */
  GRAD_QUERIES = 128, /* queries of a tile of the backward pass: the length of a chain in dk and dv */
};

/* Layout of a thread's scratch memory, in floats. A row holds the d elements of a token, padded with zeros to dp; rows
 * are factors of scores. A line holds the numbers that one step of a sum over tokens reads: the elements of a token or,
 * in bf16, the elements of two tokens by pairs, padded in the same way. In fp32 the lines of k are the rows of k. */
typedef struct layout {
  int64_t d, dp;
  size_t qt, doutt; /* panels [steps of d][PANEL]: queries are columns, padded with zeros; backward: of a tile */
  size_t k, v;      /* rows [T][dp] */
  size_t kl, vl, ql, doutl; /* lines [steps of T][dp]; forward: vl, backward: the others */
  size_t o;                 /* forward: [PANEL][dp] */
  size_t lse, D;            /* backward: of a tile's queries, padded with zeros */
  size_t dq, dk, dv;        /* [GRAD_QUERIES][dp], [T][dp] */
  size_t p, ds;             /* panels [KEYS][PANEL] of a tile */
  size_t dst;               /* backward, in bf16: [steps of GRAD_KEYS][PANEL] of ds, keys by pairs */
  size_t along, down;       /* int32_t: offsets along a row and down the steps of a panel */
  size_t queries;           /* backward, int32_t: offset of each step of a tile's queries in p and ds */
  size_t end;
} layout;

typedef struct job {
  const sl_call *c;
  sl_walk walk;
  const sl_real *qkv;
  const int32_t *length; /* NULL: all T */
  int64_t T, C, d;
  int heads, causal;
  float scale;
} job;

static size_t take(layout *l, int64_t n) {
  size_t at = l->end;
  l->end += (size_t)sl_round_up(n, 16);
  return at;
}
static layout layout_of(int64_t T, int64_t d, int backward, sl_dtype dtype) {
  layout l = {.d = d, .dp = sl_round_up(d, 16)};
  const int narrow = dtype != SL_F32;
  const int64_t rows = sl_round_up(T, 1 + narrow) * l.dp, columns = sl_round_up(d, 1 + narrow),
                queries = backward ? GRAD_QUERIES : WIDEST, keys = backward ? GRAD_KEYS : KEYS;
  l.qt = take(&l, queries * columns);
  l.k = take(&l, rows), l.v = take(&l, rows);
  l.kl = l.k, l.vl = l.v;
  if (narrow && backward) l.kl = take(&l, rows);
  l.p = take(&l, queries * keys);
  l.along = take(&l, columns), l.down = take(&l, keys);
  if (!backward) {
    l.o = take(&l, WIDEST * l.dp);
    return l;
  }
  l.doutt = take(&l, queries * columns), l.ds = take(&l, queries * keys), l.queries = take(&l, queries);
  l.dst = narrow ? take(&l, WIDEST * keys) : l.ds;
  l.lse = take(&l, queries), l.D = take(&l, queries), l.dq = take(&l, queries * l.dp);
  l.ql = take(&l, rows), l.doutl = take(&l, rows), l.dk = take(&l, rows), l.dv = take(&l, rows);
  return l;
}

/* qkv is [B, T, 3C]. */
static job job_of(const sl_call *c, const sl_array *qkv, const sl_array *length) {
  const sl_attention_attr *a = c->attr;
  job j = {.c = c,
           .walk = sl_walk_of(&c->tiles),
           .qkv = qkv->data,
           .length = length ? length->data : NULL,
           .heads = a->heads,
           .causal = a->causal};
  j.T = qkv->shape.dim[1], j.C = qkv->shape.dim[2] / 3, j.d = j.C / a->heads;
  j.scale = (float)(1 / sqrt((double)j.d));
  return j;
}

static sl_status check_lengths(const job *j, int64_t B) {
  for (int64_t b = 0; j->length && b < B; b++)
    if (j->length[b] < 0 || j->length[b] > j->T)
      return sl_fail(SL_EINVAL, "length %d of sample %lld is not within its %lld tokens", (int)j->length[b],
                     (long long)(j->c->row0 + b), (long long)j->T);
  return SL_OK;
}

static void offsets(const job *j, const layout *l, float *base, int64_t keys) {
  int32_t *along = (int32_t *)(base + l->along), *down = (int32_t *)(base + l->down);
  const int32_t unit = j->walk.unit;
  for (int32_t i = 0; i < sl_walk_steps(j->walk, l->d); i++) along[i] = sl_walk_at(j->walk, i);
  for (int32_t i = 0; i < keys; i++) down[i] = i * PANEL * unit; /* panels lie in the order of steps */
}

/* to[rows][dp] = from[rows][d], padded with zeros: as floats or, in pairs, unchanged. */
static void pack_rows(const job *j, int64_t rows, const layout *l, const sl_real *from, int64_t from_row, float *to) {
  for (int64_t i = 0; i < rows; i++, from += from_row, to += l->dp) {
    for (int64_t n = 0; n < l->d; n += LINE) __builtin_prefetch(from + 8 * from_row + n);
    if (sl_walk_paired(j->walk)) {
      memset(to, 0, (size_t)l->dp * sizeof *from);
      memcpy(to, from, (size_t)l->d * sizeof *from);
    } else {
      sl_pack_line(l->d, l->dp, from, to);
    }
  }
}

/* to[steps of rows][dp]: lines, padded with zeros. */
static void pack_lines(const job *j, int64_t rows, const layout *l, const sl_real *from, int64_t from_row, float *to) {
  sl_pack_rows(j->walk, rows, l->d, from, from_row, l->dp, to, l->dp);
}

/* Transposes into panels: to[panel][steps of d][PANEL], from[rows][d]. */
static void pack_columns(const job *j, int64_t rows, const layout *l, const sl_real *from, int64_t from_row,
                         float *to) {
  const int64_t steps = sl_walk_steps(j->walk, l->d);
  for (int64_t i = 0; i < rows; i += PANEL, to += PANEL * steps) {
    int64_t n = sl_min64(PANEL, rows - i);
    if (n < PANEL) memset(to, 0, (size_t)(PANEL * steps) * sizeof *to);
    sl_pack_columns(j->walk, n, l->d, from + i * from_row, from_row, to, PANEL);
  }
}

#ifdef SL_STORE_BF16
static inline sl_vec upper_half(sl_vec v) { return (sl_vec)(sl_round_bf16(v) & 0xffff0000); }
#endif

/* Writes the numbers of a vector of queries for key r, which is even, and the next key to the panel `to` as a factor of
 * sums over keys: each key has a line or, in bf16, each step. */
static inline void put_keys(sl_walk w, int64_t r, sl_vec first, sl_vec second, float *to) {
#ifdef SL_STORE_BF16
  to += r / 2 * w.steps * PANEL;
  if (sl_walk_paired(w))
    sl_store(to, (sl_vec)(sl_round_bf16(first) >> 16 | (sl_round_bf16(second) & 0xffff0000)));
  else
    sl_store(to, upper_half(second)), sl_store(to + PANEL, upper_half(first));
#else
  (void)w;
  sl_store(to + r * PANEL, first), sl_store(to + (r + 1) * PANEL, second);
#endif
}
/* The same without a next key, which counts as zero. */
static inline void put_last_key(sl_walk w, int64_t r, sl_vec first, float *to) {
#ifdef SL_STORE_BF16
  put_keys(w, r, first, sl_splat(0), to);
#else
  (void)w;
  sl_store(to + r * PANEL, first);
#endif
}

/* Writes the numbers of queries x to x + SL_LANES - 1 to a key's line as a factor of sums over queries. In bf16 the
 * queries lie side by side by pairs, so the numbers may take the place of floats of queries before x. */
static inline void put_queries(sl_walk w, int64_t x, sl_vec v, float *line) {
#ifdef SL_STORE_BF16
  if (sl_walk_paired(w))
    sl_store((sl_bf16 *)(void *)line + x, v);
  else
    sl_store(line + x, upper_half(v));
#else
  (void)w;
  sl_store(line + x, v);
#endif
}

/* Prefetches the memory that the next head will read and write. */
static void fetch_rows(int64_t rows, int64_t d, const sl_real *from, int64_t from_row) {
  for (int64_t i = 0; i < rows; i++, from += from_row)
    for (int64_t n = 0; n < d; n += LINE) __builtin_prefetch(from + n, 0, 2);
}
static void expect_rows(int64_t rows, int64_t d, sl_real *to, int64_t to_row) {
  for (int64_t i = 0; i < rows; i++, to += to_row)
    for (int64_t n = 0; n < d; n += LINE) __builtin_prefetch(to + n, 1);
}

static void unpack_rows(int64_t rows, const layout *l, float factor, const float *from, sl_real *to, int64_t to_row) {
  for (int64_t i = 0; i < rows; i++, from += l->dp, to += to_row)
    for (int64_t n = 0; n < l->d; n++) sl_put(to + n, factor * from[n]);
}

static void clear_rows(int64_t rows, int64_t d, sl_real *to, int64_t to_row) {
  for (int64_t i = 0; i < rows; i++) memset(to + i * to_row, 0, (size_t)d * sizeof *to);
}

/* s[keys][PANEL] = rows k[keys][dp] times a panel, for its first `queries` columns (whole vectors). Causal: queries
 * from r - first on see key r; vectors without a lane that sees the key are skipped. */
static void scores(const job *j, const layout *l, const int32_t *along, int64_t keys, int64_t queries, int64_t first,
                   const float *k, const float *panel, float *s) {
  const int64_t columns = sl_round_up(queries, SL_LANES),
                both = j->causal ? sl_max64(0, sl_min64(keys, first + SL_LANES)) : keys;
  for (int later = 0; later < 2; later++) {
    const int64_t from = later ? both : 0, rows = later ? keys - both : both, x = later ? SL_LANES : 0,
                  strips = sl_walk_strips(j->walk, rows);
    for (int64_t g = 0; g < strips; g++) {
      const int64_t r = from + sl_walk_strip(j->walk, rows, g), m = from + sl_walk_strip(j->walk, rows, g + 1) - r;
      sl_walk_product(j->walk, m, columns - x, sl_walk_steps(j->walk, l->d), k + r * l->dp, l->dp * j->walk.unit, along,
                      panel + x, PANEL, s + r * PANEL + x, PANEL, NULL, 0, NULL);
    }
  }
}

/* c[rows][dp] = or += a[rows][steps] times the lines b[steps][dp]. */
static void combine(const job *j, int64_t rows, int64_t steps, const layout *l, const float *a, int64_t a_row,
                    const int32_t *a_at, const float *b, float *c, int add) {
  for (int64_t x = 0; x < l->dp; x += PANEL)
    sl_walk_product(j->walk, rows, sl_min64(PANEL, l->dp - x), steps, a, a_row * j->walk.unit, a_at, b + x, l->dp,
                    c + x, l->dp, NULL, add, NULL);
}

/* Mask for a vector of queries that begins with `query`: all ones in the lanes of the queries that see the key. */
static inline sl_veci sees(int64_t query, int64_t key) {
  sl_veci lane;
  for (int i = 0; i < SL_LANES; i++) lane[i] = i;
  return lane >= (int32_t)(key - query);
}

/* ---- attention ------------------------------------------------------------------------------------------------- */

/* Turns the scores s[keys][PANEL] of a vector of queries into probabilities up to one factor per query, written by
 * put_keys, and updates the maximum and the sum of each query. Returns the factor by which earlier results must be
 * multiplied. A NaN never becomes the maximum, but makes the sum NaN. */
static sl_vec soften(sl_walk w, int64_t keys, float scale, int first, float *s, sl_vec *max, sl_vec *sum) {
  sl_vec high[4], part[4];
  for (int u = 0; u < 4; u++) high[u] = first ? sl_splat(-INFINITY) : *max, part[u] = sl_splat(0);
  int64_t r = 0;
  for (; r + 4 <= keys; r += 4)
    for (int u = 0; u < 4; u++) high[u] = sl_larger(sl_load(s + (r + u) * PANEL), high[u]);
  for (; r < keys; r++) high[0] = sl_larger(sl_load(s + r * PANEL), high[0]);
  for (int u = 1; u < 4; u++) high[0] = sl_larger(high[u], high[0]);
  const sl_vec shift = high[0] * scale;
  for (r = 0; r + 4 <= keys; r += 4) {
    sl_vec e[4];
    for (int u = 0; u < 4; u++) {
      e[u] = sl_exp_low(sl_fma(sl_load(s + (r + u) * PANEL), sl_splat(scale), -shift));
      part[u] += e[u];
    }
    put_keys(w, r, e[0], e[1], s), put_keys(w, r + 2, e[2], e[3], s);
  }
  for (; r < keys; r += 2) {
    const int both = r + 1 < keys;
    const sl_vec e = sl_exp_low(sl_fma(sl_load(s + r * PANEL), sl_splat(scale), -shift));
    part[0] += e;
    if (both) {
      const sl_vec next = sl_exp_low(sl_fma(sl_load(s + (r + 1) * PANEL), sl_splat(scale), -shift));
      part[0] += next;
      put_keys(w, r, e, next, s);
    } else {
      put_last_key(w, r, e, s);
    }
  }
  sl_vec factor = first ? sl_splat(0) : sl_exp_low(sl_fma(*max, sl_splat(scale), -shift));
  sl_vec all = (part[0] + part[1]) + (part[2] + part[3]);
  *sum = first ? all : sl_fma(*sum, factor, all);
  *max = high[0];
  return factor;
}

static void forward(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const layout l = layout_of(j->T, j->d, 0, j->c->in[0].dtype);
  const int64_t b = tile / j->heads, h = tile % j->heads, row = 3 * j->C, n = j->length ? j->length[b] : j->T;
  const sl_real *q = j->qkv + b * j->T * row + h * j->d;
  sl_real *out = (sl_real *)j->c->out[0].data + b * j->T * j->C + h * j->d;
  float *lse = (float *)j->c->out[1].data + tile * j->T;
  float *base = j->c->team->scratch[thread], *panel = base + l.qt, *s = base + l.p, *o = base + l.o;
  const int32_t *along = (int32_t *)(base + l.along), *down = (int32_t *)(base + l.down);
  offsets(j, &l, base, KEYS);
  pack_rows(j, n, &l, q + j->C, row, base + l.k);
  pack_lines(j, n, &l, q + 2 * j->C, row, base + l.vl);
  for (int64_t i = 0; i < n; i += PANEL) {
    const int64_t m = sl_min64(PANEL, n - i), end = j->causal ? i + m : n, strips = sl_walk_strips(j->walk, m);
    sl_vec max[2], sum[2];
    float factor[PANEL], high[PANEL];
    pack_columns(j, m, &l, q + i * row, row, panel);
    expect_rows(m, j->d, out + i * j->C, j->C);
    if (h + 1 < j->heads)
      for (int part = 0; part < 3; part++) fetch_rows(m, j->d, q + i * row + part * j->C + j->d, row);
    for (int64_t k = 0; k < end; k += KEYS) {
      const int64_t keys = sl_min64(KEYS, end - k);
      scores(j, &l, along, keys, m, i - k, base + l.k + k * l.dp, panel, s);
      for (int v = 0; v < 2 && v * SL_LANES < m; v++) {
        for (int64_t r = sl_max64(0, i - k); j->causal && r < keys; r++) {
          float *at = s + r * PANEL + v * SL_LANES;
          sl_store(at, sl_select(sees(i + v * SL_LANES, k + r), sl_load(at), sl_splat(-INFINITY)));
        }
        sl_store(factor + v * SL_LANES, soften(j->walk, keys, j->scale, k == 0, s + v * SL_LANES, &max[v], &sum[v]));
      }
      for (int64_t r = 0; k > 0 && r < m; r++)
        for (int64_t x = 0; x < l.dp; x++) o[r * l.dp + x] *= factor[r];
      for (int64_t g = 0; g < strips; g++) {
        const int64_t r = sl_walk_strip(j->walk, m, g), rows = sl_walk_strip(j->walk, m, g + 1) - r;
        const int64_t depth = j->causal ? sl_min64(keys, i + r + rows - k) : keys;
        if (depth > 0)
          combine(j, rows, sl_walk_steps(j->walk, depth), &l, s + r, 1, down,
                  base + l.vl + sl_walk_steps(j->walk, k) * l.dp, o + r * l.dp, k > 0);
      }
    }
    for (int v = 0; v < 2 && v * SL_LANES < m; v++)
      sl_store(factor + v * SL_LANES, sum[v]), sl_store(high + v * SL_LANES, max[v] * j->scale);
    for (int64_t r = 0; r < m; r++) unpack_rows(1, &l, 1 / factor[r], o + r * l.dp, out + (i + r) * j->C, 0);
    for (int64_t r = 0; r < m; r++) lse[i + r] = (float)((double)high[r] + sl_log_d((double)factor[r]));
  }
  clear_rows(j->T - n, j->d, out + n * j->C, j->C);
  for (int64_t i = n; i < j->T; i++) lse[i] = 0;
}

sl_status SL_KERNEL(attention)(const sl_call *c) {
  job j = job_of(c, &c->in[0], c->n_in > 1 ? &c->in[1] : NULL);
  SL_TRY(check_lengths(&j, c->in[0].shape.dim[0]));
  sl_team_for(c->team, c->in[0].shape.dim[0] * j.heads, forward, &j);
  return SL_OK;
}

/* ---- attention_grad -------------------------------------------------------------------------------------------- */

/* Number of keys whose lines of p and ds are written. It includes the further keys that a strip of keys across the
 * diagonal reads. */
static int64_t written(const job *j, int64_t keys) {
  return j->causal ? sl_min64(GRAD_KEYS, keys + sl_walk_rows(j->walk)) : keys;
}

/* Turns the scores p[keys][PANEL] of queries x to x + SL_LANES - 1 into probabilities, and ds from derivatives by the
 * probabilities into derivatives by the scores, without their scale: p = exp(scale p - lse), ds = p (ds - D). Both are
 * written by put_queries; in bf16, ds also by put_keys to dst. Causal: zeros where key r > query - first, and in as
 * many further rows as a strip of keys across the diagonal reads. */
static void differentiate(const job *j, int64_t keys, int64_t first, int64_t x, sl_vec lse, sl_vec D, float *p,
                          float *ds, float *dst) {
  const float scale = j->scale;
  const int64_t whole = j->causal ? sl_max64(0, sl_min64(keys, first + 1)) : keys,
                part = j->causal ? sl_max64(0, sl_min64(keys, first + SL_LANES)) : keys, zeros = written(j, keys);
  for (int64_t r = 0; r < zeros; r += 2) {
    sl_vec e[2] = {{0}, {0}}, d[2] = {{0}, {0}};
    if (r + 2 <= whole) {
      for (int i = 0; i < 2; i++) {
        e[i] = sl_exp_low(sl_fma(sl_load(p + (r + i) * PANEL + x), sl_splat(scale), -lse));
        d[i] = e[i] * (sl_load(ds + (r + i) * PANEL + x) - D);
      }
      for (int i = 0; i < 2; i++) {
        put_queries(j->walk, x, e[i], p + (r + i) * PANEL);
        put_queries(j->walk, x, d[i], ds + (r + i) * PANEL);
      }
    } else {
      for (int i = 0; i < 2 && r + i < zeros; i++) {
        if (r + i < part) {
          const sl_veci seen = j->causal ? sees(first, r + i) : sees(0, 0);
          e[i] = sl_exp_low(sl_fma(sl_load(p + (r + i) * PANEL + x), sl_splat(scale), -lse));
          d[i] = sl_select(seen, e[i] * (sl_load(ds + (r + i) * PANEL + x) - D), sl_splat(0));
          e[i] = sl_select(seen, e[i], sl_splat(0));
        }
        put_queries(j->walk, x, e[i], p + (r + i) * PANEL);
        put_queries(j->walk, x, d[i], ds + (r + i) * PANEL);
      }
    }
#ifdef SL_STORE_BF16
    put_keys(j->walk, r, d[0], d[1], dst + x);
#else
    (void)dst;
#endif
  }
}

/* Loads lse and computes D = rowsum(dout out) of a tile's queries, whose rows lie `row` elements apart. */
static void row_terms(int64_t queries, const layout *l, const sl_real *dout, const sl_real *out, int64_t row,
                      const float *lse_in, float *lse, float *D) {
  memset(lse, 0, GRAD_QUERIES * sizeof *lse);
  memset(D, 0, GRAD_QUERIES * sizeof *D);
  for (int64_t i = 0; i < queries; i++, dout += row, out += row) {
    sl_sum sum = {{{0}}};
    for (int64_t x = 0; x < l->d; x += SL_SUM_LANES)
      for (int w = 0; w < SL_SUM_VECTORS; w++) {
        const int64_t at = x + w * SL_LANES;
        sum.v[w] = sl_fma(sl_load_left(dout + at, l->d - at, 0), sl_load_left(out + at, l->d - at, 0), sum.v[w]);
      }
    lse[i] = lse_in[i];
    D[i] = sl_sum_lanes(sum);
  }
}

static void backward(void *arg, int64_t tile, int thread) {
  const job *j = arg;
  const layout l = layout_of(j->T, j->d, 1, j->c->in[1].dtype);
  const int64_t b = tile / j->heads, h = tile % j->heads, row = 3 * j->C, n = j->length ? j->length[b] : j->T;
  const int64_t in_row = b * j->T, dp = l.dp;
  const sl_real *qkv = j->qkv + in_row * row + h * j->d;
  const float *lse_in = (const float *)j->c->in[3].data + tile * j->T;
  const sl_real *dout_in = (const sl_real *)j->c->in[0].data + in_row * j->C + h * j->d,
                *out = (const sl_real *)j->c->in[2].data + in_row * j->C + h * j->d;
  sl_real *dqkv = (sl_real *)j->c->out[0].data + in_row * row + h * j->d;
  float *base = j->c->team->scratch[thread], *k = base + l.k, *v = base + l.v, *kl = base + l.kl, *ql = base + l.ql,
        *doutl = base + l.doutl, *lse = base + l.lse, *D = base + l.D, *p = base + l.p, *ds = base + l.ds,
        *dq = base + l.dq, *dk = base + l.dk, *dv = base + l.dv;
  float *dst = l.dst == l.ds ? NULL : base + l.dst;
  const int64_t steps_of_d = sl_walk_steps(j->walk, j->d), unit = j->walk.unit;
  const int32_t *along = (int32_t *)(base + l.along), *down = (int32_t *)(base + l.down);
  int32_t *at = (int32_t *)(base + l.queries);
  offsets(j, &l, base, GRAD_KEYS);
  for (int32_t i = 0; i < sl_walk_steps(j->walk, GRAD_QUERIES); i++) {
    const int32_t query = sl_walk_at(j->walk, i);
    at[i] = query / PANEL * (PANEL * GRAD_KEYS * (int32_t)unit) + query % PANEL;
  }

  pack_lines(j, n, &l, qkv, row, ql);
  pack_rows(j, n, &l, qkv + j->C, row, k);
  if (l.kl != l.k) pack_lines(j, n, &l, qkv + j->C, row, kl);
  pack_rows(j, n, &l, qkv + 2 * j->C, row, v);
  pack_lines(j, n, &l, dout_in, j->C, doutl);
  memset(dk, 0, (size_t)(n * dp) * sizeof *dk);
  memset(dv, 0, (size_t)(n * dp) * sizeof *dv);

  for (int64_t q0 = 0; q0 < n; q0 += GRAD_QUERIES) {
    const int64_t queries = sl_min64(GRAD_QUERIES, n - q0);
    pack_columns(j, queries, &l, qkv + q0 * row, row, base + l.qt);
    pack_columns(j, queries, &l, dout_in + q0 * j->C, j->C, base + l.doutt);
    row_terms(queries, &l, dout_in + q0 * j->C, out + q0 * j->C, j->C, lse_in + q0, lse, D);
    for (int64_t k0 = 0; k0 < (j->causal ? q0 + queries : n); k0 += GRAD_KEYS) {
      const int64_t keys = sl_min64(GRAD_KEYS, n - k0), key_strips = sl_walk_strips(j->walk, keys);
      for (int64_t x = 0; x < queries; x += PANEL) {
        const int64_t i = q0 + x, m = sl_min64(PANEL, queries - x), strips = sl_walk_strips(j->walk, m),
                      seen = j->causal ? sl_min64(keys, i + m - k0) : keys;
        if (seen <= 0) continue;
        if (k0 == 0)
          for (int part = 0; part < 3; part++) {
            expect_rows(m, j->d, dqkv + i * row + part * j->C, row);
            if (h + 1 < j->heads) fetch_rows(m, j->d, qkv + i * row + part * j->C + j->d, row);
          }
        if (k0 == 0 && h + 1 < j->heads) {
          fetch_rows(m, j->d, dout_in + i * j->C + j->d, j->C);
          fetch_rows(m, j->d, out + i * j->C + j->d, j->C);
        }
        float *p_at = p + x * GRAD_KEYS, *ds_at = ds + x * GRAD_KEYS;
        scores(j, &l, along, seen, m, i - k0, k + k0 * dp, base + l.qt + x * steps_of_d, p_at);
        scores(j, &l, along, seen, m, i - k0, v + k0 * dp, base + l.doutt + x * steps_of_d, ds_at);
        for (int64_t w = 0; w < m; w += SL_LANES)
          differentiate(j, seen, i + w - k0, w, sl_load(lse + x + w), sl_load(D + x + w), p_at, ds_at, dst);
        for (int64_t g = 0; g < strips; g++) {
          const int64_t r = sl_walk_strip(j->walk, m, g), rows = sl_walk_strip(j->walk, m, g + 1) - r,
                        depth = j->causal ? sl_min64(seen, i + r + rows - k0) : seen;
          if (depth > 0)
            combine(j, rows, sl_walk_steps(j->walk, depth), &l, (dst ? dst : ds_at) + r, 1, down,
                    kl + sl_walk_steps(j->walk, k0) * dp, dq + (x + r) * dp, k0 > 0);
        }
      }
      for (int64_t g = 0; g < key_strips; g++) {
        const int64_t r = sl_walk_strip(j->walk, keys, g), rows = sl_walk_strip(j->walk, keys, g + 1) - r;
        const int64_t sees = j->causal ? sl_max64(0, k0 + r - q0) : 0, /* first query that sees one of these keys */
            whole = j->walk.blocks ? SL_BLOCK : 1, /* the sum begins at a multiple of so many groups */
            first = sees / (whole * j->walk.group) * whole * j->walk.steps,
                      steps = sl_walk_steps(j->walk, queries) - first, line = (sl_walk_steps(j->walk, q0) + first) * dp;
        if (sees >= queries) continue;
        combine(j, rows, steps, &l, p + r * PANEL, PANEL, at + first, doutl + line, dv + (k0 + r) * dp, 1);
        combine(j, rows, steps, &l, ds + r * PANEL, PANEL, at + first, ql + line, dk + (k0 + r) * dp, 1);
      }
    }
    unpack_rows(queries, &l, j->scale, dq, dqkv + q0 * row, row);
  }
  unpack_rows(n, &l, j->scale, dk, dqkv + j->C, row);
  unpack_rows(n, &l, 1, dv, dqkv + 2 * j->C, row);
  for (int part = 0; part < 3; part++) clear_rows(j->T - n, j->d, dqkv + n * row + part * j->C, row);
}

sl_status SL_KERNEL(attention_grad)(const sl_call *c) {
  job j = job_of(c, &c->in[1], c->n_in > 4 ? &c->in[4] : NULL);
  SL_TRY(check_lengths(&j, c->in[1].shape.dim[0]));
  sl_team_for(c->team, c->in[1].shape.dim[0] * j.heads, backward, &j);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(attention);
SL_CUDA_DECLARE(attention_grad);
SL_CUDA_DECLARE(attention_fast);
SL_CUDA_DECLARE(attention_grad_fast);

static size_t scratch(const sl_call *c) {
  job j = job_of(c, &c->in[0], NULL);
  return layout_of(j.T, j.d, 0, c->in[0].dtype).end * sizeof(float);
}
static size_t scratch_grad(const sl_call *c) {
  job j = job_of(c, &c->in[1], NULL);
  return layout_of(j.T, j.d, 1, c->in[1].dtype).end * sizeof(float);
}
/* CUDA: the sums of a result in bf16, and D. */
static size_t scratch_cuda_grad(const sl_call *c) {
  return weights_sums_cuda(c) + (size_t)sl_shape_count(&c->in[3].shape) * sizeof(float);
}
static size_t fast_bytes(const sl_call *c, const sl_array *qkv, int backward) {
  const job j = job_of(c, qkv, NULL);
  const int64_t heads = qkv->shape.dim[0] * j.heads;
  return sl_attention_scratch_of(backward, j.causal, heads, j.T, j.d, (int64_t)sl_dtype_bytes(qkv->dtype)).all;
}
static size_t scratch_fast(const sl_call *c) { return fast_bytes(c, &c->in[0], 0); }
static size_t scratch_grad_fast(const sl_call *c) { return fast_bytes(c, &c->in[1], 1); }

static sl_status check(const sl_attention_attr *a, const sl_value_info *qkv, const sl_value_info *length) {
  char x[SL_SHAPE_TEXT], y[SL_SHAPE_TEXT];
  if (a->heads < 1) return sl_fail(SL_EINVAL, "%d heads; expects at least one", a->heads);
  if (qkv->dtype != SL_F32 || qkv->shape.ndim != 3)
    return sl_fail(SL_ESHAPE, "takes q, k and v as F32 [B, T, 3C], not %s %s", sl_dtype_name(qkv->dtype),
                   sl_shape_text(&qkv->shape, x, sizeof x));
  if (qkv->shape.dim[2] < 1 || qkv->shape.dim[2] % (3 * (int64_t)a->heads))
    return sl_fail(SL_ESHAPE,
                   "%s does not hold q, k and v of %d heads side by side: expects a multiple of %lld in the "
                   "last dimension",
                   sl_shape_text(&qkv->shape, x, sizeof x), a->heads, 3 * (long long)a->heads);
  if (length && (length->dtype != SL_I32 || length->shape.ndim != 1 || length->shape.dim[0] != qkv->shape.dim[0]))
    return sl_fail(SL_ESHAPE, "lengths are I32, one for each sample of %s, not %s %s",
                   sl_shape_text(&qkv->shape, x, sizeof x), sl_dtype_name(length->dtype),
                   sl_shape_text(&length->shape, y, sizeof y));
  return SL_OK;
}

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_out;
  SL_TRY(check(attr, in[0], n_in > 1 ? in[1] : NULL));
  const int64_t *dim = in[0]->shape.dim;
  out[0].shape = SL_SHAPE(dim[0], dim[1], dim[2] / 3);
  out[1].shape = SL_SHAPE(dim[0], ((const sl_attention_attr *)attr)->heads, dim[1]);
  return SL_OK;
}

static sl_status shape_grad(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_out;
  SL_TRY(check(attr, in[1], n_in > 4 ? in[4] : NULL));
  const int64_t *dim = in[1]->shape.dim;
  const sl_shape y = SL_SHAPE(dim[0], dim[1], dim[2] / 3),
                 lse = SL_SHAPE(dim[0], ((const sl_attention_attr *)attr)->heads, dim[1]);
  char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
  for (int i = 0; i < 4; i++) {
    const sl_shape *want = i == 1 ? &in[1]->shape : i == 3 ? &lse : &y;
    if (!sl_shape_equal(&in[i]->shape, want))
      return sl_fail(SL_ESHAPE, "input %d is %s instead of %s", i, sl_shape_text(&in[i]->shape, a, sizeof a),
                     sl_shape_text(want, b, sizeof b));
  }
  out[0].shape = in[1]->shape;
  return SL_OK;
}

/* FLOPs count products only, at full lengths, since lengths are unknown here. */
static double pairs(const job *j, int64_t B) {
  double T = (double)j->T;
  return (double)B * j->heads * (j->causal ? T * (T + 1) / 2 : T * T);
}
static void cost(const sl_call *c, sl_cost *cost) {
  job j = job_of(c, &c->in[0], NULL);
  cost->flops = pairs(&j, c->in[0].shape.dim[0]) * 4 * (double)j.d;
}
static void cost_grad(const sl_call *c, sl_cost *cost) {
  job j = job_of(c, &c->in[1], NULL);
  cost->flops = pairs(&j, c->in[1].shape.dim[0]) * 10 * (double)j.d;
}

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  sl_value in[5] = {dout[0], node->in[0], node->out[0], node->out[1], node->n_in > 1 ? node->in[1] : SL_NONE};
  if (need[0] && dout[0] != SL_NONE)
    din[0] = sl_graph_add1(graph, &sl_op_attention_grad, node->name, node->attr, in, 3 + node->n_in);
}

/* Queries, keys and values of whole heads. */
static void units(const void *attr, int64_t *outer, int64_t *heads) {
  *outer = 3;
  *heads = ((const sl_attention_attr *)attr)->heads;
}
static void cut(void *attr, int64_t from, int64_t to, int64_t all) {
  (void)all;
  ((sl_attention_attr *)attr)->heads = (int)(to - from);
}
static const sl_folding folding = {.follows = 1, .units = units, .cut = cut};

const sl_operation sl_op_attention = {
    .name = "attention",
    .folding = &folding,
    .attr_bytes = sizeof(sl_attention_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .scratch = scratch,
    .scratch_cuda = weights_sums_cuda,
    .scratch_fast = scratch_fast,
    .cpu = SL_KERNELS(attention),
    .cpu_bf16 = SL_KERNELS_BF16(attention),
    .pairs = 1,
    .cuda = SL_CUDA_KERNEL(attention),
    .cuda_fast = SL_CUDA_KERNEL(attention_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .wide_out = 2, /* log-sum-exp */
};
const sl_operation sl_op_attention_grad = {
    .name = "attention_grad",
    .attr_bytes = sizeof(sl_attention_attr),
    .shape = shape_grad,
    .cost = cost_grad,
    .scratch = scratch_grad,
    .scratch_cuda = scratch_cuda_grad,
    .scratch_fast = scratch_grad_fast,
    .cpu = SL_KERNELS(attention_grad),
    .cpu_bf16 = SL_KERNELS_BF16(attention_grad),
    .pairs = 1,
    .cuda = SL_CUDA_KERNEL(attention_grad),
    .cuda_fast = SL_CUDA_KERNEL(attention_grad_fast),
    .cuda_bf16 = 1,
    .fast = 1,
    .wide_in = 8, /* log-sum-exp */
};

sl_value sl_attention(sl_graph *graph, const char *layer, sl_value qkv, int heads, int causal, sl_value lengths) {
  sl_value out[2], in[2] = {qkv, lengths};
  sl_attention_attr attr = {.heads = heads, .causal = causal != 0};
  sl_graph_add(graph, &sl_op_attention, layer, &attr, in, lengths == SL_NONE ? 1 : 2, out, 2);
  return out[0];
}
#endif
