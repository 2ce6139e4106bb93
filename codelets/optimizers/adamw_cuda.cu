/* adamw on a GPU; computes the same as adamw.c. Guard and clip factor lie in the device's memory, so each thread reads
 * them. */
#include "codelets/kernels/cuda.h"
#include "codelets/optimizers/formulas.h"

static __global__ void adamw_kernel(int64_t n, int64_t n4, sl_adamw_factors f, const double *guard, const double *clip,
                                    float *p, const float *g, float *m, float *v) {
  if (!sl_may_update(*guard, clip)) return;
  if (clip) f.clip = (float)*clip;
  for (int64_t i = sl_cuda_index(); i < n4; i += sl_cuda_stride()) {
    float4 P = ((float4 *)p)[i], G = ((const float4 *)g)[i], M = ((float4 *)m)[i], V = ((float4 *)v)[i];
    sl_adamw_element(&P.x, G.x, &M.x, &V.x, &f), sl_adamw_element(&P.y, G.y, &M.y, &V.y, &f);
    sl_adamw_element(&P.z, G.z, &M.z, &V.z, &f), sl_adamw_element(&P.w, G.w, &M.w, &V.w, &f);
    ((float4 *)p)[i] = P;
    ((float4 *)m)[i] = M;
    ((float4 *)v)[i] = V;
  }
  for (int64_t i = 4 * n4 + sl_cuda_index(); i < n; i += sl_cuda_stride())
    sl_adamw_element(&p[i], g[i], &m[i], &v[i], &f);
}

/* p, g, m, v, guard, maybe clip -> p, m, v in place */
extern "C" sl_status sl__adamw_cuda(const sl_call *c, sl_cuda *cuda) {
  float *p = (float *)c->out[0].data, *m = (float *)c->out[1].data, *v = (float *)c->out[2].data;
  const float *g = (const float *)c->in[1].data;
  int64_t n = sl_shape_count(&c->out[0].shape);
  bool aligned = sl_cuda_aligned(p) && sl_cuda_aligned(m) && sl_cuda_aligned(v) && sl_cuda_aligned(g);
  int64_t n4 = aligned ? n / 4 : 0;
  adamw_kernel<<<sl_cuda_grid(n4 ? n4 : n), SL_CUDA_THREADS, 0, cuda->stream>>>(
      n, n4, sl_adamw_factors_of(c), (const double *)c->in[4].data, c->n_in > 5 ? (const double *)c->in[5].data : NULL,
      p, g, m, v);
  return sl_cuda_launched("adamw");
}
