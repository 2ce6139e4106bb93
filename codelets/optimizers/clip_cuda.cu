/* Gradient clipping on a GPU; computes the same as clip.c. The tree that splits n at the largest power of two below it
 * equals adding neighbours level by level, where an odd last element passes to the next level unchanged. So a block can
 * add one level after another. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
/* Rows of 32 elements or more: the 32 threads of a warp are the 4 x 8 lanes of clip.c. */
struct squares {
  const float *from;
  double *to;
  int64_t n;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    static_assert(T == 32, "a warp");
    const float *x = from + i * n;
    const int64_t whole = n - n % 32;
    double sum = 0;
#pragma unroll 8
    for (int64_t k = thread; k < whole; k += 32) sum = sl_fmad((double)x[k], (double)x[k], sum);
    sum += __shfl_xor_sync(0xffffffffu, sum, 8);
    sum += __shfl_xor_sync(0xffffffffu, sum, 16);
    double total = sl_cuda_sum_lanes_d(sum);
    const double last = whole + thread < n ? (double)x[whole + thread] : 0;
    for (int k = 0; k < (int)(n - whole); k++) {
      const double at = __shfl_sync(0xffffffffu, last, k);
      total += at * at;
    }
    if (thread == 0) to[i] = total;
  }
};
/* Rows of less than 32 elements: one thread per row adds the elements in order. */
__global__ void short_squares_kernel(const float *from, double *to, int64_t rows, int64_t n) {
  for (int64_t i = sl_cuda_index(); i < rows; i += sl_cuda_stride()) {
    double total = 0;
    for (int64_t k = i * n; k < (i + 1) * n; k++) total += (double)from[k] * (double)from[k];
    to[i] = total;
  }
}

/* Arrays per launch, passed as arguments: 3 KB of the 4 KB that every GPU allows. */
constexpr int LIST = 128;
struct list {
  const double *from[LIST];
  int64_t to[LIST], n[LIST]; /* offset in the scratch memory, elements */
};
__global__ void gather_kernel(list l, double *all) {
  for (int64_t i = threadIdx.x; i < l.n[blockIdx.x]; i += SL_CUDA_THREADS)
    all[l.to[blockIdx.x] + i] = l.from[blockIdx.x][i];
}

/* Returns the sum of a[0 .. n) on thread 0, which makes the last addition. The whole block calls it. Overwrites a. */
__device__ double tree(double *a, int64_t n) {
  for (int64_t s = 1; s < n; s *= 2) {
    __syncthreads();
    for (int64_t i = 2 * s * threadIdx.x; i + s < n; i += 2 * s * SL_CUDA_THREADS) a[i] += a[i + s];
  }
  return n ? a[0] : 0;
}
__global__ void tree_kernel(list l, double *all, double *total) {
  double sum = tree(all + l.to[blockIdx.x], l.n[blockIdx.x]);
  if (threadIdx.x == 0) total[blockIdx.x] = sum;
}
__global__ void factor_kernel(double *total, int64_t n, double bound, const double *loss_scale, double *out) {
  const double scale = loss_scale ? *loss_scale : 1, norm = sqrt(tree(total, n)) / scale;
  if (threadIdx.x == 0)
    *out = !isfinite(norm) ? (loss_scale ? 0 : (double)NAN) : (norm > bound ? bound / norm : 1) / scale;
}
}  // namespace

extern "C" sl_status sl__row_norms_cuda(const sl_call *c, sl_cuda *cuda) {
  int64_t rows = c->in[0].shape.ndim > 0 ? c->in[0].shape.dim[0] : 1,
          n = rows ? sl_shape_count(&c->in[0].shape) / rows : 0;
  const float *x = (const float *)c->in[0].data;
  double *norm = (double *)c->out[0].data;
  if (n >= 32 || rows == 0) return sl_cuda_warps(cuda, "row_norms", rows, squares{x, norm, n});
  short_squares_kernel<<<sl_cuda_grid(rows), SL_CUDA_THREADS, 0, cuda->stream>>>(x, norm, rows, n);
  return sl_cuda_launched("row_norms");
}

/* Scratch memory: one total for each input, then the sums of all rows of the inputs. */
extern "C" sl_status sl__clip_factor_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_clip_attr *attr = (const sl_clip_attr *)c->attr;
  const int n_in = c->n_in - (int)attr->scaled;
  double *total = (double *)cuda->scratch, *all = total + n_in;
  int64_t at = 0;
  list l;
  int n = 0;
  for (int i = 0; i < n_in; i++)
    for (int p = 0; p < c->in[i].parts; p++) at += c->in[i].part[p].shape.dim[0];
  SL_TRY(sl_cuda_scratch(cuda, (size_t)(n_in + at) * sizeof(double), "clip_factor"));
  at = 0;
  for (int i = 0; i < n_in; i++)
    for (int p = 0; p < c->in[i].parts; p++) {
      const sl_array *part = &c->in[i].part[p];
      l.from[n] = (const double *)part->data, l.to[n] = at, l.n[n] = part->shape.dim[0];
      at += part->shape.dim[0];
      if (++n < LIST && !(i == n_in - 1 && p == c->in[i].parts - 1)) continue;
      gather_kernel<<<n, SL_CUDA_THREADS, 0, cuda->stream>>>(l, all);
      SL_TRY(sl_cuda_launched("clip_factor"));
      n = 0;
    }
  at = 0;
  for (int i = 0; i < n_in; i++) {
    int64_t rows = 0;
    for (int p = 0; p < c->in[i].parts; p++) rows += c->in[i].part[p].shape.dim[0];
    l.to[n] = at, l.n[n] = rows;
    at += rows;
    if (++n < LIST && i < n_in - 1) continue;
    tree_kernel<<<n, SL_CUDA_THREADS, 0, cuda->stream>>>(l, all, total + i + 1 - n);
    SL_TRY(sl_cuda_launched("clip_factor"));
    n = 0;
  }
  factor_kernel<<<1, SL_CUDA_THREADS, 0, cuda->stream>>>(
      total, n_in, attr->bound, attr->scaled ? (const double *)c->in[n_in].data : NULL, (double *)c->out[0].data);
  return sl_cuda_launched("clip_factor");
}
