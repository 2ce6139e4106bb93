/* sgd on a GPU; computes the same as sgd.c. Guard and clip factor lie in the device's memory, so each thread reads
 * them. */
#include "codelets/kernels/cuda.h"
#include "codelets/optimizers/formulas.h"

static __global__ void sgd_kernel(int64_t n, int64_t n4, sl_sgd_factors f, const double *guard, const double *clip,
                                  float *p, const float *g, float *v) {
  if (!sl_may_update(*guard, clip)) return;
  if (clip) f.clip = (float)*clip;
  for (int64_t i = sl_cuda_index(); i < n4; i += sl_cuda_stride()) {
    float4 P = ((float4 *)p)[i], G = ((const float4 *)g)[i], V = ((float4 *)v)[i];
    sl_sgd_element(&P.x, G.x, &V.x, &f), sl_sgd_element(&P.y, G.y, &V.y, &f);
    sl_sgd_element(&P.z, G.z, &V.z, &f), sl_sgd_element(&P.w, G.w, &V.w, &f);
    ((float4 *)p)[i] = P;
    ((float4 *)v)[i] = V;
  }
  for (int64_t i = 4 * n4 + sl_cuda_index(); i < n; i += sl_cuda_stride()) sl_sgd_element(&p[i], g[i], &v[i], &f);
}

/* p, g, v, guard, maybe clip -> p, v in place */
extern "C" sl_status sl__sgd_cuda(const sl_call *c, sl_cuda *cuda) {
  float *p = (float *)c->out[0].data, *v = (float *)c->out[1].data;
  const float *g = (const float *)c->in[1].data;
  int64_t n = sl_shape_count(&c->out[0].shape);
  int64_t n4 = sl_cuda_aligned(p) && sl_cuda_aligned(v) && sl_cuda_aligned(g) ? n / 4 : 0;
  sgd_kernel<<<sl_cuda_grid(n4 ? n4 : n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, n4, sl_sgd_factors_of(c), (const double *)c->in[3].data, c->n_in > 4 ? (const double *)c->in[4].data : NULL, p,
      g, v);
  return sl_cuda_launched("sgd");
}
