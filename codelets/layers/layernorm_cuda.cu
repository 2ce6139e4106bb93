/* layernorm on a GPU; computes the same as layernorm.c. Sums are in double, which costs nothing beside the memory
 * traffic, and two passes avoid cancellation. */
#include "codelets/attributes.h"
#include "codelets/kernels/cuda.h"

namespace {
__device__ inline float normal(float x, const double *stats) {
  const float mean = (float)stats[0], rest = (float)(stats[0] - (double)mean);
  return ((x - mean) - rest) * (float)stats[1];
}

struct forward {
  const float *from, *gamma, *beta;
  float *to;
  double *stats;
  int64_t C;
  double eps;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *x = from + i * C;
    double sum = 0, squares = 0;
    for (int64_t k = thread; k < C; k += T) sum += (double)x[k];
    const double mean = sl_cuda_reduce<T>(sum, sl_cuda_plus()) / (double)C;
    for (int64_t k = thread; k < C; k += T) squares += ((double)x[k] - mean) * ((double)x[k] - mean);
    const double row[2] = {mean, 1 / sqrt(sl_cuda_reduce<T>(squares, sl_cuda_plus()) / (double)C + eps)};
    if (thread == 0) stats[2 * i] = row[0], stats[2 * i + 1] = row[1];
    for (int64_t k = thread; k < C; k += T) to[i * C + k] = normal(x[k], row) * gamma[k] + beta[k];
  }
};

struct backward {
  const float *gradient, *from, *gamma;
  const double *stats;
  float *to;
  int64_t C;
  template <int T>
  __device__ void row(int64_t i, int thread) const {
    const float *dy = gradient + i * C, *x = from + i * C;
    const double *row = stats + 2 * i;
    double plain = 0, product = 0;
    for (int64_t k = thread; k < C; k += T) {
      const float g = dy[k] * gamma[k];
      plain += (double)g;
      product += (double)(g * normal(x[k], row));
    }
    const float a = (float)(sl_cuda_reduce<T>(plain, sl_cuda_plus()) / (double)C),
                b = (float)(sl_cuda_reduce<T>(product, sl_cuda_plus()) / (double)C);
    for (int64_t k = thread; k < C; k += T)
      to[i * C + k] = (dy[k] * gamma[k] - a - normal(x[k], row) * b) * (float)row[1];
  }
};

struct terms {
  const float *dy, *x;
  const double *stats;
  int64_t C;
  __device__ sl_cuda_vector<2> operator()(int64_t m, int64_t n) const {
    const float d = dy[m * C + n];
    return {{(double)(d * normal(x[m * C + n], stats + 2 * m)), (double)d}};
  }
};
struct store {
  float *dgamma, *dbeta;
  bool add_gamma, add_beta;
  __device__ void operator()(int64_t n, const sl_cuda_vector<2> &sum) const {
    dgamma[n] = (add_gamma ? dgamma[n] : 0) + (float)sum.v[0];
    dbeta[n] = (add_beta ? dbeta[n] : 0) + (float)sum.v[1];
  }
};

int64_t features(const sl_array *a) { return a->shape.dim[a->shape.ndim - 1]; }
int64_t rows_of(const sl_array *a) { return sl_shape_count(&a->shape) / features(a); }
}  // namespace

extern "C" sl_status sl__layernorm_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = features(&c->in[0]);
  return sl_cuda_rows(
      cuda, "layernorm", rows_of(&c->in[0]), C,
      forward{(const float *)c->in[0].data, (const float *)c->in[1].data, (const float *)c->in[2].data,
              (float *)c->out[0].data, (double *)c->out[1].data, C, ((const sl_layernorm_attr *)c->attr)->eps});
}

extern "C" sl_status sl__layernorm_dx_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = features(&c->in[0]);
  return sl_cuda_rows(cuda, "layernorm_dx", rows_of(&c->in[0]), C,
                      backward{(const float *)c->in[0].data, (const float *)c->in[1].data, (const float *)c->in[3].data,
                               (const double *)c->in[2].data, (float *)c->out[0].data, C});
}

extern "C" sl_status sl__layernorm_dparam_cuda(const sl_call *c, sl_cuda *cuda) {
  const int64_t C = features(&c->in[0]);
  return sl_cuda_columns<2>(
      cuda, "layernorm_dparam", 0, rows_of(&c->in[0]), C,
      terms{(const float *)c->in[0].data, (const float *)c->in[1].data, (const double *)c->in[2].data, C},
      store{(float *)c->out[0].data, (float *)c->out[1].data, (c->accumulate & 1) != 0, (c->accumulate & 2) != 0});
}
