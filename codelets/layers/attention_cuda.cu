/* attention on a GPU; the meaning is attention.c's, with one difference: a kernel cannot fail the step at once, so a
 * length beyond T makes its sample's result NaN, and the check of the loss stops the run.
 *
 * Tiles of 32 queries by 32 keys in shared memory, eight threads a row. The backward pass runs twice, over the keys
 * for dq and over the queries for dk and dv, so that one thread forms each sum and nothing is atomic. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
constexpr int TILE = 32, EACH = SL_CUDA_THREADS / TILE, SCORES = TILE / EACH, ROW = TILE + 1;

struct job {
  const float *qkv, *dout, *out, *lse;
  const int32_t *length;
  float *y, *lse_out, *dqkv, *D;
  int64_t T, C;
  int heads, d, causal;
  float scale;
};

/* The work of a block: one head of one sample, and TILE of its rows, of which the first n of T count. */
struct place {
  int64_t b, h, n, first;
  int row, lane; /* eight threads, lanes 0 to 7, work on a row */
  bool bad;
  __device__ explicit place(const job &j) {
    b = blockIdx.y / j.heads, h = blockIdx.y % j.heads, n = j.length ? j.length[b] : j.T;
    bad = n < 0 || n > j.T;
    first = (int64_t)blockIdx.x * TILE;
    row = threadIdx.x / EACH, lane = threadIdx.x % EACH;
  }
  __device__ int64_t token(const job &j, int64_t i) const { return b * j.T + i; }
  __device__ int64_t in_qkv(const job &j, int part, int64_t i) const {
    return (token(j, i) * 3 + part) * j.C + h * j.d;
  }
  __device__ int64_t in_y(const job &j, int64_t i) const { return token(j, i) * j.C + h * j.d; }
  __device__ int64_t in_rows(const job &j, int64_t i) const { return (b * j.heads + h) * j.T + i; }
};

/* tile[TILE][d + 1] = rows [from, n) of an array, `step` elements apart; zeros after the last. */
__device__ void load(const job &j, float *tile, const float *rows, int64_t step, int64_t from, int64_t n) {
  for (int at = threadIdx.x; at < TILE * j.d; at += SL_CUDA_THREADS) {
    int r = at / j.d, x = at % j.d;
    tile[r * (j.d + 1) + x] = from + r < n ? rows[r * step + x] : 0;
  }
}
__device__ float dot(const job &j, const float *a, int a_row, const float *b, int b_row) {
  float sum = 0;
  for (int x = 0; x < j.d; x++) sum = fmaf(a[a_row * (j.d + 1) + x], b[b_row * (j.d + 1) + x], sum);
  return sum;
}
/* Reduces over the eight threads of a row; all get the result. */
template <class V, class F>
__device__ V over_row(V v, F f) {
  for (int offset = EACH / 2; offset; offset /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}

__global__ void forward(job j) {
  extern __shared__ float shared[];
  float *q = shared, *k = q + TILE * (j.d + 1), *v = k + TILE * (j.d + 1), *p = v + TILE * (j.d + 1);
  const place at(j);
  const int64_t i = at.first + at.row;
  if (at.bad || at.first >= at.n) { /* the same for the whole block */
    if (i < j.T) {
      const float fill = at.bad ? NAN : 0.0f;
      for (int x = at.lane; x < j.d; x += EACH) j.y[at.in_y(j, i) + x] = fill;
      if (at.lane == 0) j.lse_out[at.in_rows(j, i)] = fill;
    }
    return;
  }
  load(j, q, j.qkv + at.in_qkv(j, 0, at.first), 3 * j.C, at.first, at.n);
  if (i < j.T)
    for (int x = at.lane; x < j.d; x += EACH) j.y[at.in_y(j, i) + x] = 0;
  const int64_t end = j.causal && at.first + TILE < at.n ? at.first + TILE : at.n;
  float max = -INFINITY;
  double sum = 0;
  for (int64_t k0 = 0; k0 < end; k0 += TILE) {
    __syncthreads();
    load(j, k, j.qkv + at.in_qkv(j, 1, k0), 3 * j.C, k0, at.n);
    load(j, v, j.qkv + at.in_qkv(j, 2, k0), 3 * j.C, k0, at.n);
    __syncthreads();
    float s[SCORES], high = max, part = 0;
    for (int u = 0; u < SCORES; u++) {
      const int64_t key = k0 + at.lane + u * EACH;
      const bool seen = key < at.n && (!j.causal || key <= i);
      s[u] = seen ? dot(j, q, at.row, k, at.lane + u * EACH) * j.scale : -INFINITY;
      high = sl_cuda_greater()(high, s[u]);
    }
    high = over_row(high, sl_cuda_greater());
    const float factor = k0 > 0 ? expf(max - high) : 0;
    for (int u = 0; u < SCORES; u++) {
      s[u] = expf(s[u] - high);
      part += s[u];
      p[at.row * ROW + at.lane + u * EACH] = s[u];
    }
    sum = sum * (double)factor + (double)over_row(part, sl_cuda_plus());
    max = high;
    __syncwarp(); /* a row's eight threads are in one warp */
    if (i < at.n) {
      const int keys = end - k0 < TILE ? (int)(end - k0) : TILE;
      for (int x = at.lane; x < j.d; x += EACH) {
        float *y = j.y + at.in_y(j, i) + x, o = 0;
        for (int r = 0; r < keys; r++) o = fmaf(p[at.row * ROW + r], v[r * (j.d + 1) + x], o);
        *y = k0 > 0 ? fmaf(*y, factor, o) : o;
      }
    }
  }
  if (i < at.n) {
    const float scale = (float)(1 / sum);
    for (int x = at.lane; x < j.d; x += EACH) j.y[at.in_y(j, i) + x] *= scale;
  }
  if (i < j.T && at.lane == 0) j.lse_out[at.in_rows(j, i)] = i < at.n ? (float)((double)max + log(sum)) : 0;
}

/* p and ds of a query and a key of the tiles; zeros if the query does not see the key. */
struct pair_terms {
  float p, ds;
  __device__ pair_terms(const job &j, bool seen, const float *q, const float *dout, int q_row, const float *k,
                        const float *v, int k_row, float lse, float D)
      : p(0), ds(0) {
    if (!seen) return;
    p = expf(dot(j, q, q_row, k, k_row) * j.scale - lse);
    ds = p * (dot(j, dout, q_row, v, k_row) - D);
  }
};

/* D = rowsum(dout out) and dq, a block for TILE queries. */
__global__ void backward_queries(job j) {
  extern __shared__ float shared[];
  float *q = shared, *dout = q + TILE * (j.d + 1), *k = dout + TILE * (j.d + 1), *v = k + TILE * (j.d + 1),
        *ds = v + TILE * (j.d + 1);
  const place at(j);
  const int64_t i = at.first + at.row;
  const float fill = at.bad ? NAN : 0.0f;
  float *dq = j.dqkv + at.in_qkv(j, 0, i < j.T ? i : 0);
  if (i < j.T)
    for (int x = at.lane; x < j.d; x += EACH) dq[x] = fill;
  if (at.bad || at.first >= at.n) return; /* the same for the whole block */
  load(j, q, j.qkv + at.in_qkv(j, 0, at.first), 3 * j.C, at.first, at.n);
  load(j, dout, j.dout + at.in_y(j, at.first), j.C, at.first, at.n);
  float D = 0, lse = 0;
  if (i < at.n) {
    for (int x = at.lane; x < j.d; x += EACH) D = fmaf(j.dout[at.in_y(j, i) + x], j.out[at.in_y(j, i) + x], D);
    lse = j.lse[at.in_rows(j, i)];
  }
  D = over_row(D, sl_cuda_plus());
  if (i < at.n && at.lane == 0) j.D[at.in_rows(j, i)] = D;
  const int64_t end = j.causal && at.first + TILE < at.n ? at.first + TILE : at.n;
  for (int64_t k0 = 0; k0 < end; k0 += TILE) {
    __syncthreads();
    load(j, k, j.qkv + at.in_qkv(j, 1, k0), 3 * j.C, k0, at.n);
    load(j, v, j.qkv + at.in_qkv(j, 2, k0), 3 * j.C, k0, at.n);
    __syncthreads();
    for (int u = 0; u < SCORES; u++) {
      const int r = at.lane + u * EACH;
      const int64_t key = k0 + r;
      ds[at.row * ROW + r] =
          pair_terms(j, i < at.n && key < at.n && (!j.causal || key <= i), q, dout, at.row, k, v, r, lse, D).ds;
    }
    __syncwarp();
    if (i < at.n)
      for (int x = at.lane; x < j.d; x += EACH) {
        float sum = 0;
        for (int r = 0; r < TILE; r++) sum = fmaf(ds[at.row * ROW + r], k[r * (j.d + 1) + x], sum);
        dq[x] = fmaf(sum, j.scale, dq[x]);
      }
  }
}

/* dk and dv, a block for TILE keys; reads D, which backward_queries wrote. */
__global__ void backward_keys(job j) {
  extern __shared__ float shared[];
  float *k = shared, *v = k + TILE * (j.d + 1), *q = v + TILE * (j.d + 1), *dout = q + TILE * (j.d + 1),
        *p = dout + TILE * (j.d + 1), *ds = p + TILE * ROW;
  const place at(j);
  const int64_t key = at.first + at.row;
  const float fill = at.bad ? NAN : 0.0f;
  float *dk = j.dqkv + at.in_qkv(j, 1, key < j.T ? key : 0), *dv = j.dqkv + at.in_qkv(j, 2, key < j.T ? key : 0);
  if (key < j.T)
    for (int x = at.lane; x < j.d; x += EACH) dk[x] = fill, dv[x] = fill;
  if (at.bad || at.first >= at.n) return; /* the same for the whole block */
  load(j, k, j.qkv + at.in_qkv(j, 1, at.first), 3 * j.C, at.first, at.n);
  load(j, v, j.qkv + at.in_qkv(j, 2, at.first), 3 * j.C, at.first, at.n);
  for (int64_t q0 = j.causal ? at.first : 0; q0 < at.n; q0 += TILE) {
    __syncthreads();
    load(j, q, j.qkv + at.in_qkv(j, 0, q0), 3 * j.C, q0, at.n);
    load(j, dout, j.dout + at.in_y(j, q0), j.C, q0, at.n);
    __syncthreads();
    for (int u = 0; u < SCORES; u++) {
      const int r = at.lane + u * EACH;
      const int64_t i = q0 + r;
      const bool seen = i < at.n && key < at.n && (!j.causal || key <= i);
      const pair_terms t(j, seen, q, dout, r, k, v, at.row, seen ? j.lse[at.in_rows(j, i)] : 0,
                         seen ? j.D[at.in_rows(j, i)] : 0);
      p[at.row * ROW + r] = t.p;
      ds[at.row * ROW + r] = t.ds;
    }
    __syncwarp();
    if (key < at.n)
      for (int x = at.lane; x < j.d; x += EACH) {
        float to_k = 0, to_v = 0;
        for (int r = 0; r < TILE; r++) {
          to_k = fmaf(ds[at.row * ROW + r], q[r * (j.d + 1) + x], to_k);
          to_v = fmaf(p[at.row * ROW + r], dout[r * (j.d + 1) + x], to_v);
        }
        dk[x] = fmaf(to_k, j.scale, dk[x]);
        dv[x] += to_v;
      }
  }
}

job job_of(const sl_call *c, const sl_array *qkv, const sl_array *length) {
  const sl_attention_attr *a = (const sl_attention_attr *)c->attr;
  job j = {};
  j.qkv = (const float *)qkv->data, j.length = length ? (const int32_t *)length->data : NULL;
  j.T = qkv->shape.dim[1], j.C = qkv->shape.dim[2] / 3, j.heads = a->heads, j.causal = a->causal;
  j.d = (int)(j.C / a->heads), j.scale = (float)(1 / sqrt((double)j.d));
  return j;
}

/* `tiles` of d + 1 columns and `scores` of ROW. Wide heads need more shared memory than a kernel's default. */
sl_status launch(const char *operation, void (*kernel)(job), const job &j, int64_t B, int tiles, int scores,
                 sl_cuda *cuda) {
  const int64_t pairs = B * j.heads;
  if (pairs == 0 || j.T == 0) return SL_OK;
  if (pairs > 65535)
    return sl_fail(SL_EUNSUPPORTED, "%s on a GPU: %lld heads of samples in a shard, at most 65535; use more shards",
                   operation, (long long)pairs);
  const size_t bytes = ((size_t)tiles * (size_t)(j.d + 1) + (size_t)scores * ROW) * TILE * sizeof(float);
  if (bytes > 48 * 1024)
    SL_TRY(sl_cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                         operation));
  kernel<<<dim3((unsigned)((j.T + TILE - 1) / TILE), (unsigned)pairs), SL_CUDA_THREADS, bytes, cuda->stream>>>(j);
  return sl_cuda_launched(operation);
}
}  // namespace

extern "C" sl_status sl__attention_cuda(const sl_call *c, sl_cuda *cuda) {
  job j = job_of(c, &c->in[0], c->n_in > 1 ? &c->in[1] : NULL);
  j.y = (float *)c->out[0].data, j.lse_out = (float *)c->out[1].data;
  return launch("attention", forward, j, c->in[0].shape.dim[0], 3, 1, cuda);
}

extern "C" sl_status sl__attention_grad_cuda(const sl_call *c, sl_cuda *cuda) {
  job j = job_of(c, &c->in[1], c->n_in > 4 ? &c->in[4] : NULL);
  const int64_t B = c->in[1].shape.dim[0];
  SL_TRY(sl_cuda_scratch(cuda, (size_t)(B * j.heads * j.T) * sizeof(float), "attention_grad"));
  j.dout = (const float *)c->in[0].data, j.out = (const float *)c->in[2].data, j.lse = (const float *)c->in[3].data;
  j.dqkv = (float *)c->out[0].data, j.D = (float *)cuda->scratch;
  SL_TRY(launch("attention_grad", backward_queries, j, B, 4, 1, cuda));
  return launch("attention_grad", backward_keys, j, B, 4, 2, cuda);
}
