/* lamb on a GPU; computes the same as lamb.c. The tree that splits n at the largest power of two below it equals adding
 * neighbours level by level, where an odd last element passes to the next level unchanged; one block does it. */
#include <math.h>

#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
struct factors {
  float decay, beta1, rest1, beta2, rest2, scale, root, eps;
};
factors factors_of(const sl_call *c) {
  const sl_lamb_options *o = (const sl_lamb_options *)c->attr;
  const double t = (double)c->step->number;
  return {(float)o->decay,
          (float)o->beta1,
          (float)(1 - o->beta1),
          (float)o->beta2,
          (float)(1 - o->beta2),
          (float)(1 / (1 - pow(o->beta1, t))),
          (float)(1 / sqrt(1 - pow(o->beta2, t))),
          (float)o->eps};
}
__device__ inline float direction(float p, float m, float v, const factors &f) {
  return m * f.scale / (sqrtf(v) * f.root + f.eps) + p * f.decay;
}
__device__ inline bool may(const double *guard, const double *clip) {
  return isfinite(*guard) && (!clip || isfinite(*clip));
}

struct moments {
  const float *p, *g;
  float *m, *v;
  double *norms;
  const double *guard, *clip;
  int64_t n;
  factors f;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    double of_p = 0, of_u = 0;
    if (may(guard, clip)) { /* the same for all threads */
      const float factor = clip ? (float)*clip : 1;
      for (int64_t k = i * n + thread; k < (i + 1) * n; k += T) {
        const float d = g[k] * factor;
        m[k] = m[k] * f.beta1 + d * f.rest1;
        v[k] = v[k] * f.beta2 + d * d * f.rest2;
        const float u = direction(p[k], m[k], v[k], f);
        of_p += (double)p[k] * (double)p[k];
        of_u += (double)u * (double)u;
      }
    }
    of_p = sl_cuda_reduce<T>(of_p, sl_cuda_plus());
    of_u = sl_cuda_reduce<T>(of_u, sl_cuda_plus());
    if (thread == 0) norms[2 * i] = of_p, norms[2 * i + 1] = of_u;
  }
};

/* a [n, 2], which it overwrites -> *rate. */
__global__ void rate_kernel(double *a, int64_t n, double learning_rate, double *rate) {
  for (int64_t s = 1; s < n; s *= 2) {
    __syncthreads();
    for (int64_t i = 2 * s * threadIdx.x; i + s < n; i += 2 * s * SL_CUDA_THREADS) {
      a[2 * i] += a[2 * (i + s)];
      a[2 * i + 1] += a[2 * (i + s) + 1];
    }
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  const double p = sqrt(a[0]), u = sqrt(a[1]);
  *rate = learning_rate * (p > 0 && u > 0 ? p / u : 1);
}

__global__ void update_kernel(int64_t n, factors f, const double *guard, const double *clip, const double *rate,
                              float *p, const float *m, const float *v) {
  if (!may(guard, clip)) return;
  const float by = (float)*rate;
  for (int64_t i = sl_cuda_index(); i < n; i += sl_cuda_stride()) p[i] = p[i] - by * direction(p[i], m[i], v[i], f);
}
}  // namespace

/* p, g, m, v, guard, maybe clip -> m, v in place, norms */
extern "C" sl_status sl__lamb_moments_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t n = sl_shape_row(&c->in[0].shape);
  return sl_cuda_rows(cuda, "lamb_moments", c->in[0].shape.dim[0], n,
                      moments{(const float *)c->in[0].data, (const float *)c->in[1].data, (float *)c->out[0].data,
                              (float *)c->out[1].data, (double *)c->out[2].data, (const double *)c->in[4].data,
                              c->n_in > 5 ? (const double *)c->in[5].data : NULL, n, factors_of(c)});
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
      n, factors_of(c), (const double *)c->in[4].data, c->n_in > 5 ? (const double *)c->in[5].data : NULL, rate,
      (float *)c->out[0].data, (const float *)c->in[1].data, (const float *)c->in[2].data);
  return sl_cuda_launched("lamb");
}
