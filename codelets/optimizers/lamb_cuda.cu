/* lamb on a GPU; computes the same as lamb.c. The tree that splits n at the largest power of two below it equals adding
 * neighbours level by level, where an odd last element passes to the next level unchanged. One block adds them. */
#include "codelets/kernels/cuda.h"
#include "codelets/optimizers/formulas.h"

namespace {
__device__ inline bool may(const double *guard, const double *clip) { return sl_may_update(*guard, clip); }

/* One warp per row takes 32 elements at once. lamb.c adds squares in 16 lanes: threads 0 to 15 have the lanes of p,
 * threads 16 to 31 the lanes of u, and the two halves exchange elements. */
struct moments {
  const float *p, *g;
  float *m, *v;
  double *norms;
  const double *guard, *clip;
  int64_t n;
  sl_lamb_factors f;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    static_assert(T == 32, "a warp");
    constexpr int MANY = 4; /* elements of a thread that are read at once */
    double sum = 0;
    if (may(guard, clip)) { /* the same for all threads */
      sl_lamb_factors with = f;
      if (clip) with.clip = (float)*clip;
      const bool low = thread < 16;
      for (int64_t from = 0; from < n; from += 32 * MANY) {
        float of_p[MANY], of_g[MANY], of_m[MANY], of_v[MANY];
#pragma unroll
        for (int j = 0; j < MANY; j++) {
          const int64_t k = from + 32 * j + thread, at = i * n + k;
          const bool in = k < n;
          of_p[j] = in ? p[at] : 0, of_g[j] = in ? g[at] : 0, of_m[j] = in ? m[at] : 0, of_v[j] = in ? v[at] : 0;
        }
#pragma unroll
        for (int j = 0; j < MANY; j++) {
          const int64_t k = from + 32 * j + thread, at = i * n + k;
          float u = sl_lamb_moments_element(of_g[j], of_p[j], &of_m[j], &of_v[j], &with);
          if (k < n)
            m[at] = of_m[j], v[at] = of_v[j];
          else
            u = 0; /* it may be NaN, if eps is 0 */
          const float other = __shfl_xor_sync(0xffffffffu, low ? u : of_p[j], 16);
          const double first = (double)(low ? of_p[j] : other), second = (double)(low ? other : u);
          sum = sl_fmad(second, second, sl_fmad(first, first, sum));
        }
      }
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 8);
    const double square_p = sl_cuda_sum_lanes_d(sum),
                 square_u = sl_cuda_sum_lanes_d(__shfl_xor_sync(0xffffffffu, sum, 16));
    if (thread == 0) norms[2 * i] = square_p, norms[2 * i + 1] = square_u;
  }
};

/* The same for a vector, in which each element is a row. */
__global__ void vector_kernel(moments l) {
  const bool does = may(l.guard, l.clip);
  sl_lamb_factors f = l.f;
  if (l.clip) f.clip = (float)*l.clip;
  for (int64_t i = sl_cuda_index(); i < l.n; i += sl_cuda_stride()) {
    double p = 0, u = 0;
    if (does) {
      p = (double)l.p[i];
      u = (double)sl_lamb_moments_element(l.g[i], l.p[i], &l.m[i], &l.v[i], &f);
    }
    l.norms[2 * i] = p * p, l.norms[2 * i + 1] = u * u;
  }
}

/* a [n, 2] -> *rate. Overwrites a. */
__global__ void rate_kernel(double *a, int64_t n, double learning_rate, double *rate) {
  for (int64_t s = 1; s < n; s *= 2) {
    __syncthreads();
    for (int64_t i = 2 * s * threadIdx.x; i + s < n; i += 2 * s * SL_CUDA_THREADS) {
      a[2 * i] += a[2 * (i + s)];
      a[2 * i + 1] += a[2 * (i + s) + 1];
    }
  }
  if (threadIdx.x > 0) return; /* thread 0 made the last additions */
  const double p = sqrt(a[0]), u = sqrt(a[1]);
  *rate = learning_rate * (p > 0 && u > 0 ? p / u : 1);
}

__global__ void update_kernel(int64_t n, sl_lamb_factors f, const double *guard, const double *clip, const double *rate,
                              float *p, const float *m, const float *v) {
  if (!may(guard, clip)) return;
  const float by = (float)*rate;
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) p[i] = sl_lamb_element(p[i], m[i], v[i], by, &f);
}
}  // namespace

/* p, g, m, v, guard, maybe clip -> m, v in place, norms */
extern "C" sl_status sl__lamb_moments_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t rows = c->in[0].shape.dim[0], n = sl_shape_row(&c->in[0].shape);
  const moments all = {(const float *)c->in[0].data,
                       (const float *)c->in[1].data,
                       (float *)c->out[0].data,
                       (float *)c->out[1].data,
                       (double *)c->out[2].data,
                       (const double *)c->in[4].data,
                       c->n_in > 5 ? (const double *)c->in[5].data : NULL,
                       n == 1 ? rows : n,
                       sl_lamb_factors_of(c)};
  if (n != 1 || rows == 0) return sl_cuda_warps(cuda, "lamb_moments", rows, all);
  vector_kernel<<<sl_cuda_grid(rows), SL_CUDA_THREADS, 0, cuda->stream>>>(all);
  return sl_cuda_launched("lamb_moments");
}

/* p, m, v, norms, guard, maybe clip -> p in place. Scratch: the norms of all parts, and the rate. */
extern "C" sl_status sl__lamb_cuda(const sl_call *c, sl_cuda *cuda) {
  const sl_array *norms = &c->in[3];
  const int64_t rows = norms->shape.dim[0], n = sl_shape_count(&c->out[0].shape);
  double *all = (double *)cuda->scratch, *rate = all + 2 * rows;
  SL_TRY(sl_cuda_scratch(cuda, (size_t)(2 * rows + 1) * sizeof(double), "lamb"));
  for (int p = 0; p < norms->parts; p++)
    SL_TRY(sl_cuda_check(cudaMemcpyAsync(all + 2 * norms->part[p].row0, norms->part[p].data,
                                         (size_t)(2 * norms->part[p].shape.dim[0]) * sizeof *all,
                                         cudaMemcpyDeviceToDevice, cuda->stream),
                         "lamb"));
  rate_kernel<<<1, SL_CUDA_THREADS, 0, cuda->stream>>>(all, rows, c->step->learning_rate, rate);
  SL_TRY(sl_cuda_launched("lamb"));
  update_kernel<<<sl_cuda_grid(n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, sl_lamb_factors_of(c), (const double *)c->in[4].data, c->n_in > 5 ? (const double *)c->in[5].data : NULL, rate,
      (float *)c->out[0].data, (const float *)c->in[1].data, (const float *)c->in[2].data);
  return sl_cuda_launched("lamb");
}
