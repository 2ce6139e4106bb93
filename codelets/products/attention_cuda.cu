/* attention on a GPU; computes the same as attention.c, with the same order of sums. One difference: a kernel cannot
 * make the step fail at once, so a length beyond T makes the result of its sample NaN, and the check of the loss stops
 * the run.
 *
 * A block works on OWN rows of one head: on queries or, for dk and dv, on keys. It goes over the rows of the other side
 * (keys or, for dk and dv, queries) by tiles of OTHER rows, the same tiles as in attention.c. Every score is one chain
 * of multiply-adds of one thread, and so is every sum over a tile. The backward pass runs twice, over the keys for dq
 * and over the queries for dk and dv, so that one thread forms each sum and nothing is atomic.
 *
 * T is the type of activations, float or sl_bf16. In bf16, products take numbers by pairs, as in attention.c, and
 * results are summed in scratch memory before they are rounded.
 *
 * The fast kernels, at the end, store scores and use cuBLAS for the products. */
#include "codelets/attributes.h"
#include "codelets/kernels/attention_sizes.h"
#include "codelets/kernels/blas_cuda.h"

namespace {
constexpr int OWN = 64, OTHER = 128;
constexpr int DEPTH = 16;              /* elements of each row in shared memory at once, for scores */
constexpr int ROWS = 32, COLUMNS = 64; /* rows and columns in shared memory at once, for sums of rows */
constexpr int ACROSS = 16;             /* threads are ACROSS x ACROSS, each with 4 x 4 elements or twice that */
constexpr int OWN_ROW = OWN + 4, OTHER_ROW = OTHER + 4, COLUMNS_ROW = COLUMNS + 4;
static_assert(ACROSS * ACROSS == SL_CUDA_THREADS && 4 * ACROSS == OWN && 8 * ACROSS == OTHER && OWN == COLUMNS, "");

template <class REAL>
struct job {
  const REAL *qkv, *dout, *out;
  const float *lse;
  const int32_t *length;
  float *y, *lse_out, *dqkv, *D; /* y, dqkv: sums */
  int64_t T, C;
  int heads, d, causal;
  unsigned tiles; /* of OWN rows */
  float scale;
};

/* A block's shared memory, within the 48 KiB that every GPU has. */
struct alignas(16) memory {
  float tile[OTHER * OWN_ROW]; /* scores, probabilities, derivatives by scores: [other][own] */
  float stage[DEPTH * (OWN_ROW + OTHER_ROW)];
  float a[OTHER], b[OTHER]; /* one number for each row of a side */
};
static_assert(ROWS * COLUMNS_ROW <= DEPTH * (OWN_ROW + OTHER_ROW), "");

/* The work of a block: rows [first, end) of T, of one head of one sample. n rows of the sample are valid, `owns` of
 * them in this block. */
struct place {
  int64_t b, h, n, first, end;
  int owns;
  bool bad;
  template <class T>
  __device__ explicit place(const job<T> &j) {
    const int64_t pair = blockIdx.x / j.tiles;
    b = pair / j.heads, h = pair % j.heads, n = j.length ? j.length[b] : j.T;
    bad = n < 0 || n > j.T;
    first = (int64_t)(blockIdx.x % j.tiles) * OWN;
    end = first + OWN < j.T ? first + OWN : j.T;
    const int64_t left = bad ? 0 : n - first;
    owns = left < 0 ? 0 : left > OWN ? OWN : (int)left;
  }
  template <class T>
  __device__ int64_t token(const job<T> &j, int64_t i) const {
    return b * j.T + i;
  }
  template <class T>
  __device__ int64_t in_qkv(const job<T> &j, int part, int64_t i) const {
    return (token(j, i) * 3 + part) * j.C + h * j.d;
  }
  template <class T>
  __device__ int64_t in_y(const job<T> &j, int64_t i) const {
    return token(j, i) * j.C + h * j.d;
  }
  template <class T>
  __device__ int64_t in_rows(const job<T> &j, int64_t i) const {
    return (b * j.heads + h) * j.T + i;
  }
  /* Fills the block's invalid rows, `step` elements apart; rows: the block's first row. */
  template <class T>
  __device__ void fill(const job<T> &j, float *rows, int64_t step) const {
    const int from = owns * j.d, to = (int)(end - first) * j.d;
    for (int at = from + (int)threadIdx.x; at < to; at += SL_CUDA_THREADS)
      rows[at / j.d * step + at % j.d] = bad ? NAN : 0.0f;
  }
};

__device__ inline float4 load4(const float *p) { return *(const float4 *)p; }
__device__ inline void store4(float *p, const float *v) { *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]); }
template <bool PAIRS>
__device__ inline void add_products(float (&sum)[4], float a, const float4 &b) {
  sum[0] = sl_cuda_multiply_add<PAIRS>(a, b.x, sum[0]), sum[1] = sl_cuda_multiply_add<PAIRS>(a, b.y, sum[1]);
  sum[2] = sl_cuda_multiply_add<PAIRS>(a, b.z, sum[2]), sum[3] = sl_cuda_multiply_add<PAIRS>(a, b.w, sum[3]);
}
/* Returns the number as a factor of a product. */
template <class T>
__device__ inline float rounded(float x) {
  T y;
  sl_put(&y, x);
  return sl_get(&y);
}
template <class T>
__device__ inline void store_rounded(float *p, const float *v) {
  *(float4 *)p = make_float4(rounded<T>(v[0]), rounded<T>(v[1]), rounded<T>(v[2]), rounded<T>(v[3]));
}
/* Numbers 2 i and 2 i + 1 are a pair; the second number of a pair is added first. */
template <class T>
constexpr int turned = sl_cuda_narrow<T> ? 1 : 0;
template <class T>
__device__ inline int completed(int n) {
  return sl_cuda_narrow<T> ? (n + 1) / 2 * 2 : n;
}

/* This thread's part of a tile. Element [v][u] belongs to row other_of(v) of the other side and to own row own_of() +
 * u. All loops over it are unrolled: an array indexed at run time would lie in local memory. */
__device__ inline int own_of() { return 4 * (int)(threadIdx.x % ACROSS); }
__device__ inline int other_of(int v) { return 4 * (int)(threadIdx.x / ACROSS) + v % 4 + v / 4 * (OTHER / 2); }

/* Computes the next `depth` steps of the chains. HALVES = 1 leaves out the rows of the other side that lie in the
 * second half of the tile. */
template <int HALVES, class T>
__device__ inline void dots_of(int depth, const float *own, const float *other, float (&s)[8][4]) {
  own += own_of(), other += other_of(0);
  for (int x = 0; x < depth; x++) {
    const int at = x ^ turned<T>;
    const float4 a = load4(own + at * OWN_ROW);
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
      const float4 b = load4(other + at * OTHER_ROW + half * (OTHER / 2));
      add_products<sl_cuda_narrow<T>>(s[4 * half], b.x, a), add_products<sl_cuda_narrow<T>>(s[4 * half + 1], b.y, a);
      add_products<sl_cuda_narrow<T>>(s[4 * half + 2], b.z, a),
          add_products<sl_cuda_narrow<T>>(s[4 * half + 3], b.w, a);
    }
  }
}

/* to[x][r] = rows[r step + x] for r < n and x < depth; zeros up to the next multiple of 4 and the last pair. */
template <class T>
__device__ inline void load_columns(float *to, int to_row, const T *rows, int64_t step, int n, int depth) {
  const int x = threadIdx.x % DEPTH;
  for (int r = threadIdx.x / DEPTH; x < completed<T>(depth) && r < (n + 3) / 4 * 4; r += SL_CUDA_THREADS / DEPTH)
    to[x * to_row + r] = r < n && x < depth ? sl_get(rows + r * step + x) : 0.0f;
}

/* s = the products of own rows and other rows. */
template <class T>
__device__ inline void dots(memory &m, int d, const T *own, int64_t own_step, int owns, const T *other,
                            int64_t other_step, int others, float (&s)[8][4]) {
  float *a = m.stage, *b = a + DEPTH * OWN_ROW;
#pragma unroll
  for (int v = 0; v < 8; v++)
#pragma unroll
    for (int u = 0; u < 4; u++) s[v][u] = 0;
  for (int x0 = 0; x0 < d; x0 += DEPTH) {
    const int depth = d - x0 < DEPTH ? d - x0 : DEPTH;
    __syncthreads(); /* wait until all threads have used the old contents */
    load_columns(a, OWN_ROW, own + x0, own_step, owns, depth);
    load_columns(b, OTHER_ROW, other + x0, other_step, others, depth);
    __syncthreads();
    if (own_of() >= owns || other_of(0) >= others) continue;
    if (other_of(4) < others)
      dots_of<2, T>(completed<T>(depth), a, b, s);
    else
      dots_of<1, T>(completed<T>(depth), a, b, s);
  }
}

/* put(i, x, sum over other rows r, in order, of tile[r][i] rows[r step + x]) for own rows i and columns x < d. */
template <class T, class F>
__device__ inline void combine(memory &m, int d, const T *rows, int64_t step, int others, int owns, F put) {
  const int i = 4 * (int)(threadIdx.x / ACROSS), column = 4 * (int)(threadIdx.x % ACROSS);
  for (int x0 = 0; x0 < d; x0 += COLUMNS) {
    float sum[4][4] = {};
    for (int r0 = 0; r0 < others; r0 += ROWS) {
      const int n = others - r0 < ROWS ? others - r0 : ROWS;
      __syncthreads(); /* wait for the tile, and until all threads have used the old contents */
      const int x = threadIdx.x % COLUMNS;
      for (int r = threadIdx.x / COLUMNS; x < (d - x0 + 3) / 4 * 4 && r < n; r += SL_CUDA_THREADS / COLUMNS)
        m.stage[r * COLUMNS_ROW + x] = x0 + x < d ? sl_get(rows + (r0 + r) * step + x0 + x) : 0.0f;
      __syncthreads();
      if (i >= owns || x0 + column >= d) continue;
      const float *a = m.tile + r0 * OWN_ROW + i, *b = m.stage + column;
      for (int r = 0; r < completed<T>(n); r++) {
        const int at = r ^ turned<T>;
        const float4 none = make_float4(0, 0, 0, 0), p = at < n ? load4(a + at * OWN_ROW) : none,
                     v = at < n ? load4(b + at * COLUMNS_ROW) : none;
        add_products<sl_cuda_narrow<T>>(sum[0], p.x, v), add_products<sl_cuda_narrow<T>>(sum[1], p.y, v);
        add_products<sl_cuda_narrow<T>>(sum[2], p.z, v), add_products<sl_cuda_narrow<T>>(sum[3], p.w, v);
      }
    }
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
      for (int w = 0; w < 4; w++)
        if (i + u < owns && x0 + column + w < d) put(i + u, x0 + column + w, sum[u][w]);
  }
}

template <class T>
__global__ void __launch_bounds__(SL_CUDA_THREADS, 2) forward(job<T> j) {
  __shared__ memory shared[1];
  memory &m = shared[0];
  const place at(j);
  const int64_t row = 3 * j.C, end = j.causal ? at.first + at.owns : at.n;
  float *y = j.y + at.in_y(j, at.first), *lse = j.lse_out + at.in_rows(j, at.first);
  at.fill(j, y, j.C);
  for (int i = at.owns + (int)threadIdx.x; i < at.end - at.first; i += SL_CUDA_THREADS) lse[i] = at.bad ? NAN : 0.0f;
  if (at.owns == 0) return; /* the same for the whole block */
  const T *q = j.qkv + at.in_qkv(j, 0, at.first), *k = j.qkv + at.in_qkv(j, 1, 0), *v = j.qkv + at.in_qkv(j, 2, 0);
  /* Four threads work on a query. Each computes one of the four sums that attention.c computes. */
  const int query = threadIdx.x / 4, part = threadIdx.x % 4;
  float max = -INFINITY, sum = 0;
  for (int64_t k0 = 0; k0 < end; k0 += OTHER) {
    const int keys = end - k0 < OTHER ? (int)(end - k0) : OTHER, whole = keys - keys % 4;
    float s[8][4];
    dots(m, j.d, q, row, at.owns, k + k0 * row, row, keys, s);
#pragma unroll
    for (int w = 0; w < 8; w++) {
      const int64_t key = k0 + other_of(w);
#pragma unroll
      for (int u = 0; u < 4; u++)
        if (j.causal && at.first + own_of() + u < key) s[w][u] = -INFINITY;
      if (other_of(w) < keys) store4(m.tile + other_of(w) * OWN_ROW + own_of(), s[w]);
    }
    __syncthreads();
    float high = max, share = 0;
    const auto each = [&](auto f) { /* keys beyond the last four go to the first sum */
                                    float *x = m.tile + query;
                                    for (int r = part; r < whole; r += 4) f(x[r * OWN_ROW]);
                                    if (part == 0)
                                      for (int r = whole; r < keys; r++) f(x[r * OWN_ROW]);
    };
    each([&](float x) { high = x > high ? x : high; });
    for (int offset = 1; offset < 4; offset *= 2) {
      const float x = __shfl_xor_sync(0xffffffffu, high, offset);
      high = x > high ? x : high;
    }
    const float shift = high * j.scale;
    each([&](float &x) {
      x = sl_exp_low(sl_fma(x, j.scale, -shift));
      share += x;
      x = rounded<T>(x);
    });
    share += __shfl_xor_sync(0xffffffffu, share, 1);
    share += __shfl_xor_sync(0xffffffffu, share, 2);
    const float factor = k0 > 0 ? sl_exp_low(sl_fma(max, j.scale, -shift)) : 0;
    sum = k0 > 0 ? sl_fma(sum, factor, share) : share;
    max = high;
    if (part == 0) m.a[query] = factor, m.b[query] = 1 / sum;
    const bool last = k0 + OTHER >= end;
    combine(m, j.d, v + k0 * row, row, keys, at.owns, [&](int i, int x, float o) {
      float *to = y + i * j.C + x;
      if (k0 > 0) o = sl_cuda_add<sl_cuda_narrow<T>>(*to * m.a[i], o);
      *to = last ? m.b[i] * o : o;
    });
  }
  if (part == 0 && query < at.owns) lse[query] = (float)((double)(max * j.scale) + sl_log_d((double)sum));
}

/* Turns a score into a probability, and the derivative by the probability into the derivative by the score, still
 * without scale. */
__device__ inline void differentiate(bool seen, float scale, float lse, float D, float &p, float &ds) {
  p = seen ? sl_exp_low(sl_fma(p, scale, -lse)) : 0;
  ds = seen ? p * (ds - D) : 0;
}

/* Computes D = rowsum(dout out) and dq; a block computes OWN queries. */
template <class T>
__global__ void __launch_bounds__(SL_CUDA_THREADS, 2) backward_queries(job<T> j) {
  __shared__ memory shared[1];
  memory &m = shared[0];
  const place at(j);
  const int64_t row = 3 * j.C, end = j.causal ? at.first + at.owns : at.n;
  float *dq = j.dqkv + at.in_qkv(j, 0, at.first);
  at.fill(j, dq, row);
  if (at.owns == 0) return; /* the same for the whole block */
  const T *q = j.qkv + at.in_qkv(j, 0, at.first), *k = j.qkv + at.in_qkv(j, 1, 0), *v = j.qkv + at.in_qkv(j, 2, 0);
  const T *dout = j.dout + at.in_y(j, at.first), *out = j.out + at.in_y(j, at.first);
  const int64_t rows = at.in_rows(j, at.first);
  /* Sixteen threads add up a row, like attention.c's lanes. */
  for (int i = threadIdx.x / 16; i < OWN; i += SL_CUDA_THREADS / 16) {
    float D = 0;
    for (int x = threadIdx.x % 16; i < at.owns && x < j.d; x += 16)
      D = sl_fma(sl_get(dout + i * j.C + x), sl_get(out + i * j.C + x), D);
    for (int offset = 8; offset; offset /= 2) D += __shfl_xor_sync(0xffffffffu, D, offset);
    if (threadIdx.x % 16 == 0) {
      m.a[i] = i < at.owns ? j.lse[rows + i] : 0;
      m.b[i] = D;
      if (i < at.owns) j.D[rows + i] = D;
    }
  }
  for (int64_t k0 = 0; k0 < end; k0 += OTHER) {
    const int keys = end - k0 < OTHER ? (int)(end - k0) : OTHER;
    float p[8][4], ds[8][4];
    dots(m, j.d, q, row, at.owns, k + k0 * row, row, keys, p);
    dots(m, j.d, dout, j.C, at.owns, v + k0 * row, row, keys, ds);
#pragma unroll
    for (int w = 0; w < 8; w++) {
#pragma unroll
      for (int u = 0; u < 4; u++)
        differentiate(!j.causal || k0 + other_of(w) <= at.first + own_of() + u, j.scale, m.a[own_of() + u],
                      m.b[own_of() + u], p[w][u], ds[w][u]);
      if (other_of(w) < keys) store_rounded<T>(m.tile + other_of(w) * OWN_ROW + own_of(), ds[w]);
    }
    const bool last = k0 + OTHER >= end;
    combine(m, j.d, k + k0 * row, row, keys, at.owns, [&](int i, int x, float sum) {
      float *to = dq + i * row + x;
      if (k0 > 0) sum = sl_cuda_add<sl_cuda_narrow<T>>(*to, sum);
      *to = last ? j.scale * sum : sum;
    });
  }
}

/* Computes dk and dv; a block computes OWN keys. It reads D, which backward_queries has written. */
template <class T>
__global__ void __launch_bounds__(SL_CUDA_THREADS, 2) backward_keys(job<T> j) {
  __shared__ memory shared[1];
  memory &m = shared[0];
  const place at(j);
  const int64_t row = 3 * j.C;
  float *dk = j.dqkv + at.in_qkv(j, 1, at.first), *dv = j.dqkv + at.in_qkv(j, 2, at.first);
  at.fill(j, dk, row);
  at.fill(j, dv, row);
  if (at.owns == 0) return; /* the same for the whole block */
  const T *k = j.qkv + at.in_qkv(j, 1, at.first), *v = j.qkv + at.in_qkv(j, 2, at.first);
  const int64_t begin = j.causal ? at.first / OTHER * OTHER : 0;
  for (int64_t q0 = begin; q0 < at.n; q0 += OTHER) {
    const int64_t from = j.causal && q0 < at.first ? at.first : q0; /* earlier queries see none of these keys */
    const int queries = (int)((at.n - q0 < OTHER ? at.n : q0 + OTHER) - from);
    const T *q = j.qkv + at.in_qkv(j, 0, from), *dout = j.dout + at.in_y(j, from);
    float p[8][4], ds[8][4];
    /* No barrier is needed here: all threads passed a barrier in the previous combine() after their last use of m.a and
     * m.b. */
    for (int i = threadIdx.x; i < OTHER; i += SL_CUDA_THREADS) {
      m.a[i] = i < queries ? j.lse[at.in_rows(j, from + i)] : 0;
      m.b[i] = i < queries ? j.D[at.in_rows(j, from + i)] : 0;
    }
    dots(m, j.d, k, row, at.owns, q, row, queries, p);
    dots(m, j.d, v, row, at.owns, dout, j.C, queries, ds);
#pragma unroll
    for (int w = 0; w < 8; w++) {
#pragma unroll
      for (int u = 0; u < 4; u++)
        differentiate(!j.causal || at.first + own_of() + u <= from + other_of(w), j.scale, m.a[other_of(w)],
                      m.b[other_of(w)], p[w][u], ds[w][u]);
      if (other_of(w) < queries) store_rounded<T>(m.tile + other_of(w) * OWN_ROW + own_of(), p[w]);
    }
    combine(m, j.d, dout, j.C, queries, at.owns, [&](int i, int x, float sum) {
      float *to = dv + i * row + x;
      *to = sl_cuda_add<sl_cuda_narrow<T>>(q0 > begin ? *to : 0, sum);
    });
    __syncthreads(); /* wait until all have used the tile */
#pragma unroll
    for (int w = 0; w < 8; w++)
      if (other_of(w) < queries) store_rounded<T>(m.tile + other_of(w) * OWN_ROW + own_of(), ds[w]);
    const bool last = q0 + OTHER >= at.n;
    combine(m, j.d, q, row, queries, at.owns, [&](int i, int x, float sum) {
      float *to = dk + i * row + x;
      sum = sl_cuda_add<sl_cuda_narrow<T>>(q0 > begin ? *to : 0, sum);
      *to = last ? j.scale * sum : sum;
    });
  }
}

template <class T>
job<T> job_of(const sl_call *c, const sl_array *qkv, const sl_array *length) {
  const sl_attention_attr *a = (const sl_attention_attr *)c->attr;
  job<T> j = {};
  j.qkv = (const T *)qkv->data, j.length = length ? (const int32_t *)length->data : NULL;
  j.T = qkv->shape.dim[1], j.C = qkv->shape.dim[2] / 3, j.heads = a->heads, j.causal = a->causal;
  j.d = (int)(j.C / a->heads), j.scale = (float)(1 / sqrt((double)j.d));
  j.tiles = (unsigned)((j.T + OWN - 1) / OWN);
  return j;
}

template <class T>
sl_status launch(const char *operation, void (*kernel)(job<T>), const job<T> &j, int64_t B, sl_cuda *cuda) {
  const int64_t blocks = B * j.heads * j.tiles;
  if (blocks == 0) return SL_OK;
  if (blocks > INT32_MAX)
    return sl_fail(SL_EUNSUPPORTED, "%s on a GPU: %lld tiles of heads in a shard, at most 2147483647; use more shards",
                   operation, (long long)blocks);
  kernel<<<(unsigned)blocks, SL_CUDA_THREADS, 0, cuda->stream>>>(j);
  return sl_cuda_launched(operation);
}

template <class T>
sl_status attention(const sl_call *c, sl_cuda *cuda) {
  job<T> j = job_of<T>(c, &c->in[0], c->n_in > 1 ? &c->in[1] : NULL);
  SL_TRY(sl_cuda_scratch(cuda, sl_cuda_sums_bytes<T>(c), "attention"));
  j.y = sl_cuda_sums_at<T>(c, cuda), j.lse_out = (float *)c->out[1].data;
  SL_TRY(launch("attention", forward<T>, j, c->in[0].shape.dim[0], cuda));
  return sl_cuda_round_sums<T>(c, cuda, "attention");
}

/* Scratch memory: the sums, then D. */
template <class T>
sl_status attention_grad(const sl_call *c, sl_cuda *cuda) {
  job<T> j = job_of<T>(c, &c->in[1], c->n_in > 4 ? &c->in[4] : NULL);
  const int64_t B = c->in[1].shape.dim[0];
  SL_TRY(
      sl_cuda_scratch(cuda, sl_cuda_sums_bytes<T>(c) + (size_t)(B * j.heads * j.T) * sizeof(float), "attention_grad"));
  j.dout = (const T *)c->in[0].data, j.out = (const T *)c->in[2].data, j.lse = (const float *)c->in[3].data;
  j.dqkv = sl_cuda_sums_at<T>(c, cuda), j.D = (float *)((char *)cuda->scratch + sl_cuda_sums_bytes<T>(c));
  SL_TRY(launch("attention_grad", backward_queries<T>, j, B, cuda));
  SL_TRY(launch("attention_grad", backward_keys<T>, j, B, cuda));
  return sl_cuda_round_sums<T>(c, cuda, "attention_grad");
}

/* ---- by cuBLAS --------------------------------------------------------------------------------------------------- */

/* The fast kernels store the scores of some queries of some heads (attention_sizes.h) and multiply by cuBLAS, one batch
 * of matrices for a product. Tokens are first copied to rows [head][T][dp] that begin at aligned addresses, with zeros
 * for invalid tokens. */

/* Rows of heads in the activations: element (token, x) of head h of sample b is at base + (b T + token) step + h d + x.
 * The heads are [first, first + count) of all samples' heads. */
template <class T>
struct head_rows {
  T *base;
  int64_t step, tokens, first, count, dp;
  int heads, d;
  const int32_t *length; /* NULL: all tokens are valid */
  __device__ int64_t valid(int64_t head) const { return length ? length[(first + head) / heads] : tokens; }
  __device__ T *at(int64_t head, int64_t token) const {
    const int64_t b = (first + head) / heads;
    return base + (b * tokens + token) * step + (first + head - b * heads) * d;
  }
};
template <class T>
__global__ void pack_kernel(head_rows<const T> from, T *to) {
  for (int64_t e = sl_cuda_index(); e < from.count * from.tokens * from.dp; e += sl_cuda_stride()) {
    const int64_t row = e / from.dp, head = row / from.tokens, token = row - head * from.tokens;
    const int x = (int)(e - row * from.dp);
    to[e] = x < from.d && token < from.valid(head) ? from.at(head, token)[x] : T();
  }
}
template <class T>
__global__ void unpack_kernel(head_rows<T> to, const float *from) {
  for (int64_t e = sl_cuda_index(); e < to.count * to.tokens * to.d; e += sl_cuda_stride()) {
    const int64_t row = e / to.d, head = row / to.tokens, token = row - head * to.tokens, n = to.valid(head);
    const int x = (int)(e - row * to.d);
    const bool bad = n < 0 || n > to.tokens;
    sl_put(to.at(head, token) + x, bad ? NAN : token < n ? from[row * to.dp + x] : 0);
  }
}

/* Scores [head][queries][Tp] of the queries from q0 on. */
struct score_rows {
  int64_t first, tokens, q0, queries, end, Tp; /* first: head; end: number of keys that any of the queries may see */
  int heads, causal;
  float scale;
  const int32_t *length;
  /* The number of keys that the row's query sees; 0: the query is not valid. */
  __device__ int64_t keys(int64_t row, int64_t *query) const {
    const int64_t head = first + row / queries, n = length ? length[head / heads] : tokens;
    *query = head * tokens + q0 + row % queries;
    if (n > tokens || q0 + row % queries >= n) return 0;
    return causal ? q0 + row % queries + 1 : n;
  }
};
/* p = softmax(scale s), and the log-sum-exp of each row. */
template <class T>
struct softmax_rows : score_rows {
  const float *s;
  T *p;
  float *lse;
  template <int THREADS>
  __device__ void row(int64_t row, int thread) const {
    int64_t query;
    const int64_t n = keys(row, &query);
    const float *from = s + row * Tp;
    float max = -INFINITY, sum = 0;
    for (int64_t k = thread; k < n; k += THREADS) max = sl_cuda_greater()(max, from[k]);
    max = sl_cuda_reduce<THREADS>(max, sl_cuda_greater()) * scale;
    for (int64_t k = thread; k < n; k += THREADS) sum += sl_exp_low(sl_fma(from[k], scale, -max));
    sum = sl_cuda_reduce<THREADS>(sum, sl_cuda_plus());
    for (int64_t k = thread; k < end; k += THREADS)
      sl_put(p + row * Tp + k, k < n ? sl_exp_low(sl_fma(from[k], scale, -max)) / sum : 0);
    if (thread == 0) {
      const int32_t valid = length ? length[(first + row / queries) / heads] : 0;
      lse[query] = valid < 0 || valid > tokens ? NAN : n ? (float)((double)max + sl_log_d((double)sum)) : 0;
    }
  }
};
/* p = softmax(scale s) from the log-sum-exp; ds, the derivative by scale s, from dscores, the derivative by p. */
template <class T>
struct derivative_rows : score_rows {
  const float *s, *dscores, *lse, *D; /* D: of the rows [head - first][T] */
  T *p, *ds;
  template <int THREADS>
  __device__ void row(int64_t row, int thread) const {
    int64_t query;
    const int64_t n = keys(row, &query), at = row * Tp;
    const float of_lse = lse[query], of_D = D[query - first * tokens];
    for (int64_t k = thread; k < end; k += THREADS) {
      float prob = s[at + k], by_score = dscores[at + k];
      differentiate(k < n, scale, of_lse, of_D, prob, by_score);
      sl_put(p + at + k, prob);
      sl_put(ds + at + k, by_score);
    }
  }
};
/* D = rowsum(dout out), 0 for tokens that are not valid. */
template <class T>
struct D_rows {
  head_rows<const T> out, dout;
  float *D;
  template <int THREADS>
  __device__ void row(int64_t row, int thread) const {
    const int64_t head = row / out.tokens, token = row - head * out.tokens;
    float sum = 0;
    if (token < out.valid(head))
      for (int x = thread; x < out.d; x += THREADS)
        sum = sl_fma(sl_get(dout.at(head, token) + x), sl_get(out.at(head, token) + x), sum);
    sum = sl_cuda_reduce<THREADS>(sum, sl_cuda_plus());
    if (thread == 0) D[row] = sum;
  }
};

template <class T>
struct fast {
  sl_cuda *cuda;
  const char *operation;
  const job<T> &j;
  sl_attention_scratch at;
  int64_t first = 0, count = 0; /* heads at work */

  template <class X>
  X *memory(size_t offset) const {
    return (X *)((char *)cuda->scratch + offset);
  }
  template <class X>
  head_rows<X> rows(X *base, int64_t step) const {
    return {base, step, j.T, first, count, at.dp, j.heads, j.d, j.length};
  }
  /* Number of keys that queries [q0, q0 + queries) may see. */
  int64_t keys(int64_t q0, int64_t queries) const { return j.causal ? q0 + queries : j.T; }
  score_rows scores(int64_t q0, int64_t queries) const {
    return {first, j.T, q0, queries, keys(q0, queries), at.Tp, j.heads, j.causal, j.scale, j.length};
  }
  sl_status pack(const T *base, int64_t step, size_t to) const {
    pack_kernel<T>
        <<<sl_cuda_grid(count * j.T * at.dp), SL_CUDA_THREADS, 0, cuda->stream>>>(rows(base, step), memory<T>(to));
    return sl_cuda_launched(operation);
  }
  sl_status unpack(T *base, int64_t step, size_t from) const {
    unpack_kernel<T><<<sl_cuda_grid(count * j.T * j.d), SL_CUDA_THREADS, 0, cuda->stream>>>(rows(base, step),
                                                                                            memory<const float>(from));
    return sl_cuda_launched(operation);
  }
  /* Rows of tokens from `token` on, of all heads at work; scores. */
  template <class X>
  sl_cuda_batch<X> tokens(size_t offset, int64_t token) const {
    return {memory<X>(offset) + token * at.dp, at.dp, j.T * at.dp};
  }
  template <class X>
  sl_cuda_batch<X> square(size_t offset, int64_t queries) const {
    return {memory<X>(offset), at.Tp, queries * at.Tp};
  }
  /* to [query][key] = rows of queries times rows of keys */
  sl_status dots(size_t queries_at, int64_t q0, int64_t queries, size_t keys_at, size_t to) const {
    return sl_cuda_blas_batch<T>(cuda, operation, true, false, keys(q0, queries), queries, at.dp, 1,
                                 tokens<const T>(keys_at, 0), tokens<const T>(queries_at, q0), false,
                                 square<float>(to, queries), count);
  }
  /* to [query] = scale times the sums over keys of factor [query][key] times the keys' rows */
  sl_status over_keys(float scale, size_t factor, int64_t q0, int64_t queries, size_t keys_at, size_t to) const {
    return sl_cuda_blas_batch<T>(cuda, operation, false, false, at.dp, queries, keys(q0, queries), scale,
                                 tokens<const T>(keys_at, 0), square<const T>(factor, queries), false,
                                 tokens<float>(to, q0), count);
  }
  /* to [key] = or += scale times the sums over queries of factor [query][key] times the queries' rows. The last queries
   * come first, as they may see all keys: they overwrite, the others add. */
  sl_status over_queries(float scale, size_t factor, int64_t q0, int64_t queries, size_t queries_at, size_t to) const {
    return sl_cuda_blas_batch<T>(cuda, operation, false, true, at.dp, keys(q0, queries), queries, scale,
                                 tokens<const T>(queries_at, q0), square<const T>(factor, queries), q0 + queries < j.T,
                                 tokens<float>(to, 0), count);
  }

  /* y, lse: of all samples */
  sl_status forward(T *y, float *lse) const {
    for (int part = 0; part < 3; part++)
      SL_TRY(pack(j.qkv + part * j.C, 3 * j.C, part == 0 ? at.q : part == 1 ? at.k : at.v));
    for (int64_t q0 = (j.T - 1) / at.queries * at.queries; q0 >= 0; q0 -= at.queries) {
      const int64_t queries = at.queries < j.T - q0 ? at.queries : j.T - q0;
      SL_TRY(dots(at.q, q0, queries, at.k, at.s));
      SL_TRY(sl_cuda_rows(cuda, operation, count * queries, keys(q0, queries),
                          softmax_rows<T>{scores(q0, queries), memory<const float>(at.s), memory<T>(at.p), lse}));
      SL_TRY(over_keys(1, at.p, q0, queries, at.v, at.y));
    }
    return unpack(y, j.C, at.y);
  }
  sl_status backward(T *dqkv) const {
    for (int part = 0; part < 3; part++)
      SL_TRY(pack(j.qkv + part * j.C, 3 * j.C, part == 0 ? at.q : part == 1 ? at.k : at.v));
    SL_TRY(pack(j.dout, j.C, at.dout));
    SL_TRY(sl_cuda_warps(cuda, operation, count * j.T,
                         D_rows<T>{rows(j.out, j.C), rows(j.dout, j.C), memory<float>(at.D)}));
    for (int64_t q0 = (j.T - 1) / at.queries * at.queries; q0 >= 0; q0 -= at.queries) {
      const int64_t queries = at.queries < j.T - q0 ? at.queries : j.T - q0;
      SL_TRY(dots(at.q, q0, queries, at.k, at.s));
      SL_TRY(dots(at.dout, q0, queries, at.v, at.dscores));
      SL_TRY(sl_cuda_rows(
          cuda, operation, count * queries, keys(q0, queries),
          derivative_rows<T>{scores(q0, queries), memory<const float>(at.s), memory<const float>(at.dscores), j.lse,
                             memory<const float>(at.D), memory<T>(at.p), memory<T>(at.ds)}));
      SL_TRY(over_keys(j.scale, at.ds, q0, queries, at.k, at.dq));
      SL_TRY(over_queries(j.scale, at.ds, q0, queries, at.q, at.dk));
      SL_TRY(over_queries(1, at.p, q0, queries, at.dout, at.dv));
    }
    for (int part = 0; part < 3; part++)
      SL_TRY(unpack(dqkv + part * j.C, 3 * j.C, part == 0 ? at.dq : part == 1 ? at.dk : at.dv));
    return SL_OK;
  }
};
/* Calls work(heads) for all heads of B samples, some at a time. */
template <class T, class F>
sl_status by_heads(sl_cuda *cuda, const char *operation, const job<T> &j, int64_t B, int backward, const F &work) {
  const int64_t heads = B * j.heads;
  if (heads == 0 || j.T == 0) return SL_OK;
  fast<T> f = {cuda, operation, j, sl_attention_scratch_of(backward, j.causal, heads, j.T, j.d, sizeof(T))};
  SL_TRY(sl_cuda_scratch(cuda, f.at.all, operation));
  for (; f.first < heads; f.first += f.at.heads) {
    f.count = heads - f.first < f.at.heads ? heads - f.first : f.at.heads;
    SL_TRY(work(f));
  }
  return SL_OK;
}
template <class T>
sl_status attention_fast(const sl_call *c, sl_cuda *cuda) {
  const job<T> j = job_of<T>(c, &c->in[0], c->n_in > 1 ? &c->in[1] : NULL);
  return by_heads(cuda, "attention", j, c->in[0].shape.dim[0], 0,
                  [&](const fast<T> &f) { return f.forward((T *)c->out[0].data, (float *)c->out[1].data); });
}
template <class T>
sl_status attention_grad_fast(const sl_call *c, sl_cuda *cuda) {
  job<T> j = job_of<T>(c, &c->in[1], c->n_in > 4 ? &c->in[4] : NULL);
  j.dout = (const T *)c->in[0].data, j.out = (const T *)c->in[2].data, j.lse = (const float *)c->in[3].data;
  return by_heads(cuda, "attention_grad", j, c->in[1].shape.dim[0], 1,
                  [&](const fast<T> &f) { return f.backward((T *)c->out[0].data); });
}
}  // namespace

extern "C" sl_status sl__attention_cuda(const sl_call *c, sl_cuda *cuda) {
  return (c->in[0].dtype == SL_BF16 ? attention<sl_bf16> : attention<float>)(c, cuda);
}
extern "C" sl_status sl__attention_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  return (c->in[0].dtype == SL_BF16 ? attention_grad<sl_bf16> : attention_grad<float>)(c, cuda);
}
extern "C" sl_status sl__attention_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (c->in[0].dtype == SL_BF16 ? attention_fast<sl_bf16> : attention_fast<float>)(c, cuda);
}
extern "C" sl_status sl__attention_grad_fast_cuda(const sl_call *c, sl_cuda *cuda) {
  return (c->in[0].dtype == SL_BF16 ? attention_grad_fast<sl_bf16> : attention_grad_fast<float>)(c, cuda);
}
