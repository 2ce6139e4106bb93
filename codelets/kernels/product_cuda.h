/* Matrix products on a GPU with the CPU kernels' order of sums (product.h). For every element of the result, each piece
 * is one chain of fused multiply-adds over k, and the sums of the pieces are added in order. So the bits are the same
 * as on the CPU, and do not depend on tiles or on how many pieces run at once. For .cu files only.
 *
 * A block computes a tile of C. It reads DEEP values of k at a time from memory into registers. Meanwhile the threads
 * multiply the previous DEEP values, which lie in shared memory. Each thread owns a block of elements, in groups of
 * four neighbours, and reads shared memory by float4. If the tiles alone would leave multiprocessors idle, each piece
 * runs in blocks of its own (split-K), the sums of the pieces go to scratch memory, and another kernel adds them.
 *
 * Factors in bf16 are read as floats and multiplied by pairs in the order of product.h; denormals count as zero.
 *
 * The factors and the result are function objects:
 *   A: element (m, k) of C's rows, B: (n, k) of its columns.
 *     ALONG_K       whether neighbours in memory differ in k, else in m or n
 *     line(i)       what a thread keeps for the index i, which stays the same
 *     start(line, i, piece, k)   position of a thread at the k-th number of a piece
 *     get(line, i, position, k, end, to)   to[0 .. 4) = the elements (i, k ..) or (i .., k) of the piece; those beyond
 *                   the matrix or from k = end on may be anything; with PAIRS zeros from k = end on
 *     move(line, position)   moves it on by SL_CUDA_EIGHT numbers
 *     PLAIN         whether the factor is a matrix in memory. Then it also has, for tiles that lie within the matrix:
 *     even(i, side, piece)   whether a piece of `side` indices from i on can be read by walk() without checks
 *     begin(i, piece, k), step(n)   address of an element; distance to the element n later in k
 *     walk(address, to)   to[0 .. 4) = the elements from the address on
 *   P: PAIRS         whether numbers 2 i and 2 i + 1 of k are a pair
 *     count          number of pieces
 *     length(piece), numbers(piece)   values of k in a piece, with and without the zero that completes the last pair
 *   C: line(m): address of row m. */
#ifndef SL_PRODUCT_CUDA_H
#define SL_PRODUCT_CUDA_H

#include "codelets/kernels/cuda.h"
#include "codelets/kernels/product_sizes.h"

/* Calls launch(std::true_type()) if `wide`, else launch(std::false_type()): chooses at run time between kernels that
 * differ in a template argument. */
template <class LAUNCH>
static sl_status sl_cuda_either(bool wide, const LAUNCH &launch) {
  return wide ? launch(std::true_type()) : launch(std::false_type());
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

/* A thread reads four numbers of these eight, then of the next eight. */
constexpr int SL_CUDA_EIGHT = 8;

/* to[0 .. 4) = the numbers from p on. WIDE: p allows four at once. */
template <bool WIDE, class T>
static __device__ inline void sl_cuda_four(const T *p, float *to) {
  if constexpr (WIDE) {
    *(float4 *)to = sl_get4(p);
  } else {
#pragma unroll
    for (int v = 0; v < 4; v++) to[v] = sl_get(p + v);
  }
}

/* Element (i, k) = p[i ld + k], of floats or sl_bf16; pieces begin at first(piece). WIDE: address and ld allow four
 * elements at once. */
template <bool WIDE, class T, class P>
struct sl_cuda_rows_of {
  static constexpr bool ALONG_K = true, PLAIN = true;
  const T *p;
  int64_t ld, count;
  P pieces;
  typedef const T *line_type, *position_type;
  __device__ bool even(int64_t i, int side, int piece) const {
    return i + side <= count && (!WIDE || pieces.first(piece) % 4 == 0);
  }
  __device__ const T *begin(int64_t i, int piece, int k) const { return p + i * ld + pieces.first(piece) + k; }
  __device__ int64_t step(int n) const { return n; }
  static __device__ void walk(const T *at, float *to) { sl_cuda_four<WIDE>(at, to); }
  __device__ line_type line(int64_t i) const { return i < count ? p + i * ld : NULL; }
  __device__ position_type start(line_type line, int64_t, int piece, int64_t k) const {
    return line + pieces.first(piece) + k;
  }
  __device__ void move(line_type, position_type &at) const { at += SL_CUDA_EIGHT; }
  __device__ void get(line_type line, int64_t, position_type at, int64_t k, int64_t end, float *to) const {
    if (WIDE && line && k + 4 <= end && ((at - line) & 3) == 0) {
      *(float4 *)to = sl_get4(at);
      return;
    }
#pragma unroll
    for (int v = 0; v < 4; v++) to[v] = line && k + v < end ? sl_get(at + v) : 0;
  }
};

/* Element (i, k) = p[k ld + i]. */
template <bool WIDE, class T, class P>
struct sl_cuda_columns_of {
  static constexpr bool ALONG_K = false, PLAIN = true;
  const T *p;
  int64_t ld, count;
  P pieces;
  typedef const T *line_type, *position_type;
  __device__ bool even(int64_t i, int side, int) const { return i + side <= count; }
  __device__ const T *begin(int64_t i, int piece, int k) const { return p + (pieces.first(piece) + k) * ld + i; }
  __device__ int64_t step(int n) const { return n * ld; }
  static __device__ void walk(const T *at, float *to) { sl_cuda_four<WIDE>(at, to); }
  __device__ line_type line(int64_t i) const { return p + i; }
  __device__ position_type start(line_type line, int64_t, int piece, int64_t k) const {
    return line + (pieces.first(piece) + k) * ld;
  }
  __device__ void move(line_type, position_type &at) const { at += SL_CUDA_EIGHT * ld; }
  __device__ void get(line_type, int64_t i, position_type at, int64_t k, int64_t end, float *to) const {
    if (WIDE && k < end && i + 4 <= count) {
      *(float4 *)to = sl_get4(at);
      return;
    }
#pragma unroll
    for (int v = 0; v < 4; v++) to[v] = k < end && i + v < count ? sl_get(at + v) : 0;
  }
};

/* Pieces of a sum over n: of almost equal lengths, or of length `each` and a last piece with the rest. They consist of
 * single numbers or of pairs; if n is odd, a zero completes the last pair. */
template <bool IN_PAIRS>
struct sl_cuda_even_pieces {
  static constexpr bool PAIRS = IN_PAIRS;
  static constexpr int UNIT = IN_PAIRS ? 2 : 1;
  int64_t n;
  int count, longer; /* the first `longer` pieces have one unit more than `each` */
  int64_t each;
  sl_cuda_even_pieces(int64_t numbers, int number_of_pieces)
      : n(numbers),
        count(number_of_pieces),
        longer((int)((n + UNIT - 1) / UNIT % count)),
        each((n + UNIT - 1) / UNIT / count) {}
  __device__ int64_t first(int i) const { return UNIT * (each * i + (i < longer ? i : longer)); }
  __device__ int64_t length(int i) const { return first(i + 1) - first(i); }
  __device__ int64_t numbers(int i) const { return (first(i + 1) < n ? first(i + 1) : n) - first(i); }
};
template <bool IN_PAIRS>
struct sl_cuda_each_pieces { /* in pairs `each` is even */
  static constexpr bool PAIRS = IN_PAIRS;
  int64_t n, each;
  int count;
  __device__ int64_t first(int i) const { return each * i; }
  __device__ int64_t numbers(int i) const { return each * (i + 1) < n ? each : n - each * i; }
  __device__ int64_t length(int i) const { return PAIRS ? (numbers(i) + 1) / 2 * 2 : numbers(i); }
};

/* A result whose rows are ld elements apart. */
struct sl_cuda_matrix {
  float *c;
  int64_t ld;
  __device__ float *line(int64_t m) const { return c + m * ld; }
};

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* How the sums of the pieces go into the result: the first piece overwrites the result or adds to it; later pieces add
 * to it. start (or NULL): initial values [n] of the first piece's chains. parts (or NULL): the sums of piece from_piece
 * + blockIdx.z go to parts[blockIdx.z][M][N] instead of C. */
struct sl_cuda_product_how {
  const float *start;
  float *parts;
  int from_piece, pieces; /* of this launch */
  bool add;               /* the first piece adds, too */
  bool wide;              /* rows of the result may be written by float4 */
};

/* Reads the part of one factor that a tile needs, SIDE indices by DEEP values of k, into registers, then into shared
 * memory [DEEP][SIDE + 4]. A thread reads four elements for each EIGHT values of k, so that the threads of a warp write
 * to different banks. */
template <class F, int SIDE, int DEEP, int THREADS>
struct sl_cuda_loader {
  static constexpr int V = 4, EIGHT = SL_CUDA_EIGHT, GROUPS = DEEP / EIGHT, ROW = SIDE + 4;
  static_assert(EIGHT == V * THREADS / SIDE && DEEP % EIGHT == 0,
                "threads read groups of four elements of eight values of k");
  typename F::line_type line;
  typename F::position_type position;
  int64_t i;
  int k, at;
  __align__(16) float value[GROUPS][V];
  __device__ explicit sl_cuda_loader(int thread) {
    if (F::ALONG_K)
      at = thread / (EIGHT / V), k = thread % (EIGHT / V) * V;
    else
      k = thread / (SIDE / V), at = thread % (SIDE / V) * V;
  }
  __device__ void begin(const F &f, int64_t first, int piece, int64_t from) {
    i = first + at;
    line = f.line(i);
    position = f.start(line, i, piece, from + k);
  }
  /* Reads the numbers from `from` on, which lie DEEP after those of the last call. */
  __device__ void read(const F &f, int64_t from, int64_t end) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      f.get(line, i, position, from + k + g * EIGHT, end, value[g]);
      f.move(line, position);
    }
  }
  template <class T>
  __device__ void walk(const F &f, const T *p) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) f.walk(p + f.step(g * EIGHT), value[g]);
  }
  __device__ void write(float (*shared)[ROW]) const {
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int v = 0; v < V; v++)
        if (F::ALONG_K)
          shared[g * EIGHT + k + v][at] = value[g][v];
        else
          shared[g * EIGHT + k][at + v] = value[g][v];
  }
};

/* A block computes TILE x TILE elements, a thread DOWN x ACROSS of them, in groups of four neighbours. A warp is 4 rows
 * of 8 threads: for a group of each factor it reads 16 and 32 numbers of shared memory, so at most 128 bytes at once.
 * BLOCKS: number of blocks whose registers a multiprocessor must have room for. */
template <int TILE, int DOWN, int ACROSS, int DEEP, int BLOCKS, class A, class B, class P, class C>
__global__ void __launch_bounds__(TILE *TILE / (DOWN * ACROSS), A::PLAIN &&B::PLAIN ? BLOCKS : 1)
    sl_cuda_product_kernel(A a, B b, P pieces, C c, int64_t M, int64_t N, sl_cuda_product_how how) {
  constexpr int THREADS = TILE * TILE / (DOWN * ACROSS), WARPS_ACROSS = TILE / (8 * ACROSS);
  __shared__ float4 a_memory[2][DEEP][TILE / 4 + 1];
  __shared__ float4 b_memory[2][DEEP][TILE / 4 + 1];
  float(*as)[DEEP][TILE + 4] = (float(*)[DEEP][TILE + 4]) a_memory;
  float(*bs)[DEEP][TILE + 4] = (float(*)[DEEP][TILE + 4]) b_memory;
  const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
  /* Where the thread's first group lies in the tile; the next ones are 16 rows and 32 columns on. */
  const int down = warp / WARPS_ACROSS * (4 * DOWN) + lane / 8 * 4;
  const int across = warp % WARPS_ACROSS * (8 * ACROSS) + lane % 8 * 4;
  const int64_t m0 = (int64_t)blockIdx.x * TILE, n0 = (int64_t)blockIdx.y * TILE;
  sl_cuda_loader<A, TILE, DEEP, THREADS> load_a(thread);
  sl_cuda_loader<B, TILE, DEEP, THREADS> load_b(thread);
  const int first = how.from_piece + (how.parts ? (int)blockIdx.z : 0), last = how.parts ? first + 1 : how.pieces;
  for (int piece = first; piece < last; piece++) {
    const int64_t length = pieces.length(piece), numbers = pieces.numbers(piece);
    float sum[DOWN][ACROSS];
#pragma unroll
    for (int x = 0; x < ACROSS; x++) {
      const int64_t n = n0 + across + x / 4 * 32 + x % 4;
      const float begin = how.start && piece == 0 && n < N ? how.start[n] : 0;
#pragma unroll
      for (int y = 0; y < DOWN; y++) sum[y][x] = begin;
    }
    /* The terms [from, to) of every chain; `rest`: not a multiple of DEEP of them. read(k) reads DEEP values from k on
     * into registers. */
    auto terms = [&](int from, int to, auto rest, auto read) {
      auto step = [&](int now, int i) {
        __align__(16) float x[ACROSS], y[DOWN];
#pragma unroll
        for (int g = 0; g < DOWN / 4; g++) *(float4 *)&y[4 * g] = *(const float4 *)&as[now][i][down + g * 16];
#pragma unroll
        for (int g = 0; g < ACROSS / 4; g++) *(float4 *)&x[4 * g] = *(const float4 *)&bs[now][i][across + g * 32];
#pragma unroll
        for (int u = 0; u < DOWN; u++)
#pragma unroll
          for (int v = 0; v < ACROSS; v++) sum[u][v] = sl_cuda_multiply_add<P::PAIRS>(y[u], x[v], sum[u][v]);
      };
      /* The second number of a pair is added first. */
      constexpr int turned = P::PAIRS ? 1 : 0;
      read(from);
      load_a.write(as[0]);
      load_b.write(bs[0]);
      __syncthreads();
      int now = 0;
      for (int k = from; k < to; k += DEEP, now ^= 1) {
        const bool more = k + DEEP < to;
        if (more) read(k + DEEP);
        if (!decltype(rest)::value || more || to - k == DEEP) {
#pragma unroll
          for (int i = 0; i < DEEP; i++) step(now, i ^ turned);
        } else {
          /* A chain has exactly as many terms as its piece has numbers: one more term of zero could change the sign of
           * a zero. */
#pragma unroll 1
          for (int i = 0; i < to - k; i++) step(now, i ^ turned);
        }
        if (more) {
          load_a.write(as[now ^ 1]);
          load_b.write(bs[now ^ 1]);
        }
        __syncthreads();
      }
    };
    int from = 0;
    if constexpr (A::PLAIN && B::PLAIN) {
      if (a.even(m0, TILE, piece) && b.even(n0, TILE, piece) && numbers >= DEEP) {
        from = (int)numbers / DEEP * DEEP;
        auto *pa = a.begin(m0 + load_a.at, piece, load_a.k);
        auto *pb = b.begin(n0 + load_b.at, piece, load_b.k);
        terms(0, from, std::false_type(), [&](int) {
          load_a.walk(a, pa);
          load_b.walk(b, pb);
          pa += a.step(DEEP), pb += b.step(DEEP);
        });
      }
    }
    if (from < length) {
      load_a.begin(a, m0, piece, from);
      load_b.begin(b, n0, piece, from);
      terms(from, (int)length, std::true_type(), [&](int k) {
        load_a.read(a, k, numbers);
        load_b.read(b, k, numbers);
      });
    }
    const bool add = !how.parts && (piece > 0 || how.add);
#pragma unroll
    for (int u = 0; u < DOWN; u++) {
      const int64_t m = m0 + down + u / 4 * 16 + u % 4;
      if (m >= M) continue;
      float *row = how.parts ? how.parts + ((int64_t)blockIdx.z * M + m) * N : c.line(m);
#pragma unroll
      for (int g = 0; g < ACROSS / 4; g++) {
        const int64_t n = n0 + across + g * 32;
        if (how.wide && n + 4 <= N) {
          float4 s = make_float4(sum[u][4 * g], sum[u][4 * g + 1], sum[u][4 * g + 2], sum[u][4 * g + 3]);
          if (add) {
            const float4 had = *(const float4 *)(row + n);
            s = make_float4(sl_cuda_add<P::PAIRS>(had.x, s.x), sl_cuda_add<P::PAIRS>(had.y, s.y),
                            sl_cuda_add<P::PAIRS>(had.z, s.z), sl_cuda_add<P::PAIRS>(had.w, s.w));
          }
          *(float4 *)(row + n) = s;
          continue;
        }
#pragma unroll
        for (int v = 0; v < 4; v++)
          if (n + v < N) row[n + v] = add ? sl_cuda_add<P::PAIRS>(row[n + v], sum[u][4 * g + v]) : sum[u][4 * g + v];
      }
    }
  }
}

/* to = parts[0] + parts[1] + ..., each [M, N]; to + parts[0] + ... if `add`. */
template <bool PAIRS, class C>
__global__ void sl_cuda_add_parts_kernel(C to, int64_t M, int64_t N, int n, const float *parts, bool add) {
  for (int64_t e = sl_cuda_index(); e < M * N; e += sl_cuda_stride()) {
    float *at = to.line(e / N) + e % N;
    float sum = add ? sl_cuda_add<PAIRS>(*at, parts[e]) : parts[e];
    for (int i = 1; i < n; i++) sum = sl_cuda_add<PAIRS>(sum, parts[(int64_t)i * M * N + e]);
    *at = sum;
  }
}
template <class C>
__global__ void sl_cuda_add_matrix_kernel(C to, int64_t M, int64_t N, const float *from) {
  for (int64_t e = sl_cuda_index(); e < M * N; e += sl_cuda_stride()) {
    float *at = to.line(e / N) + e % N;
    *at = *at + from[e];
  }
}

/* Whether and when the result's previous contents are added. */
enum sl_cuda_adding { SL_CUDA_OVERWRITE, SL_CUDA_ADD_BEFORE, SL_CUDA_ADD_AFTER }; /* before or after the pieces */

template <class A, class B, class P, class C>
static sl_status sl_cuda_product_launch(sl_cuda *cuda, const char *operation, int64_t M, int64_t N, const A &a,
                                        const B &b, const P &pieces, const C &c, const sl_cuda_product_how &how) {
  const unsigned deep = how.parts ? (unsigned)how.pieces : 1;
  if (sl_cuda_product_large(M, N, deep)) {
    dim3 grid((unsigned)((M + 127) / 128), (unsigned)((N + 127) / 128), deep);
    sl_cuda_product_kernel<128, 8, 8, A::ALONG_K ? 16 : 8, 2>
        <<<grid, 256, 0, cuda->stream>>>(a, b, pieces, c, M, N, how);
  } else {
    dim3 grid((unsigned)((M + 63) / 64), (unsigned)((N + 63) / 64), deep);
    sl_cuda_product_kernel<64, 8, 4, 16, 4><<<grid, 128, 0, cuda->stream>>>(a, b, pieces, c, M, N, how);
  }
  return sl_cuda_launched(operation);
}

/* C [M, N] = or += the sums over the pieces. wide: C's rows begin at multiples of 16 bytes. Scratch memory from offset
 * `scratch` on: sl_cuda_product_bytes(M, N, pieces.count, adding == SL_CUDA_ADD_AFTER). */
template <class A, class B, class P, class C>
static sl_status sl_cuda_product(sl_cuda *cuda, const char *operation, size_t scratch, int64_t M, int64_t N, const A &a,
                                 const B &b, const P &pieces, const C &c, bool wide, const float *start,
                                 sl_cuda_adding adding) {
  if (M == 0 || N == 0) return SL_OK;
  if ((N + 63) / 64 > 65535)
    return sl_fail(SL_ETASK, "%s on a GPU: %lld columns are more than a grid has; CPU workers can compute it",
                   operation, (long long)N);
  const size_t bytes = sl_cuda_product_bytes(M, N, pieces.count, adding == SL_CUDA_ADD_AFTER);
  SL_TRY(sl_cuda_scratch(cuda, scratch + bytes, operation));
  float *memory = (float *)((char *)cuda->scratch + scratch);
  const int at_once = sl_cuda_product_at_once(M, N, pieces.count);
  sl_cuda_product_how how = {start, NULL, 0, pieces.count, adding == SL_CUDA_ADD_BEFORE, wide};
  const unsigned grid = sl_cuda_grid(M * N);
  if (at_once < 2 && adding != SL_CUDA_ADD_AFTER)
    return sl_cuda_product_launch(cuda, operation, M, N, a, b, pieces, c, how);
  sl_cuda_matrix total = {memory, N}; /* ADD_AFTER: the sum of the pieces */
  if (at_once < 2) {
    how.wide = N % 4 == 0;
    SL_TRY(sl_cuda_product_launch(cuda, operation, M, N, a, b, pieces, total, how));
  } else {
    float *parts = memory + (adding == SL_CUDA_ADD_AFTER ? M * N : 0);
    how.parts = parts, how.wide = N % 4 == 0 && sl_cuda_aligned(parts);
    for (int from = 0; from < pieces.count; from += at_once) {
      const int n = pieces.count - from < at_once ? pieces.count - from : at_once;
      how.from_piece = from, how.pieces = n;
      SL_TRY(sl_cuda_product_launch(cuda, operation, M, N, a, b, pieces, c, how));
      if (adding == SL_CUDA_ADD_AFTER)
        sl_cuda_add_parts_kernel<P::PAIRS><<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(total, M, N, n, parts, from > 0);
      else
        sl_cuda_add_parts_kernel<P::PAIRS>
            <<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(c, M, N, n, parts, from > 0 || adding == SL_CUDA_ADD_BEFORE);
      SL_TRY(sl_cuda_launched(operation));
    }
  }
  if (adding != SL_CUDA_ADD_AFTER) return SL_OK;
  sl_cuda_add_matrix_kernel<<<grid, SL_CUDA_THREADS, 0, cuda->stream>>>(c, M, N, total.c);
  return sl_cuda_launched(operation);
}

/* ---- sums down columns ------------------------------------------------------------------------------------------- */

/* The sums sum[n] over each piece's rows, in order, starting at 0. */
template <class P, class T>
__global__ void sl_cuda_column_chains_kernel(P pieces, int64_t N, int64_t ld, const T *y, float *parts) {
  const int piece = (int)blockIdx.x; /* a grid has 2^31 blocks in x, and only 65,535 in y */
  const int64_t n = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, from = pieces.first(piece),
                to = from + pieces.numbers(piece);
  if (n >= N) return;
  float sum = 0;
  for (int64_t m = from; m < to; m++) sum = sum + sl_get(y + m * ld + n);
  parts[piece * N + n] = sum;
}
static __global__ void sl_cuda_column_total_kernel(int pieces, int64_t N, const float *parts, bool before, bool after,
                                                   float *sum) {
  const int64_t n = sl_cuda_index();
  if (n >= N) return;
  float s = before ? sum[n] : 0;
  for (int i = 0; i < pieces; i++) s = s + parts[i * N + n];
  sum[n] = after ? sum[n] + s : s;
}

/* sum[n] = or += the sums of y[m ld + n] over the pieces' rows m, in the order of the CPU's add_columns. Scratch memory
 * from offset `scratch` on: sl_cuda_column_bytes(pieces.count, N). */
template <class P, class T>
static sl_status sl_cuda_column_sums(sl_cuda *cuda, const char *operation, size_t scratch, const P &pieces, int64_t N,
                                     int64_t ld, const T *y, sl_cuda_adding adding, float *sum) {
  if (N == 0) return SL_OK;
  SL_TRY(sl_cuda_scratch(cuda, scratch + sl_cuda_column_bytes(pieces.count, N), operation));
  if (N > (int64_t)64 * 65535)
    return sl_fail(SL_ETASK, "%s on a GPU: %lld columns are more than a grid has", operation, (long long)N);
  float *parts = (float *)((char *)cuda->scratch + scratch);
  const unsigned across = (unsigned)((N + 63) / 64);
  if (pieces.count > 0) {
    sl_cuda_column_chains_kernel<<<dim3((unsigned)pieces.count, across), 64, 0, cuda->stream>>>(pieces, N, ld, y,
                                                                                                parts);
    SL_TRY(sl_cuda_launched(operation));
  }
  sl_cuda_column_total_kernel<<<across, 64, 0, cuda->stream>>>(pieces.count, N, parts, adding == SL_CUDA_ADD_BEFORE,
                                                               adding == SL_CUDA_ADD_AFTER, sum);
  return sl_cuda_launched(operation);
}

#endif
