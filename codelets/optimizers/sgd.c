/* sgd with momentum: v = momentum v + g + decay p; p = p - lr v, in one pass over memory. The result is that of
 * torch.optim.SGD without dampening: v begins at zero, so after the first step v is g (with decay). */
#include "codelets/kernels/math.h"
#include "codelets/optimizers/formulas.h"
#include "codelets/optimizers/optimizer.h"

SL_KERNEL_DECLARE(sgd);

static __attribute__((noinline)) void chunk(float *p, const float *g, float *v, const sl_sgd_factors *factor) {
  const sl_sgd_factors f = *factor;
  SL_IVDEP
  for (int i = 0; i < SL_CHUNK; i++) sl_sgd_element(&p[i], g[i], &v[i], &f);
}

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_sgd_factors f = sl_sgd_factors_of(c);
  sl_optimizer_may(c, 1, &f.clip);
  float *p = c->out[0].data, *v = c->out[1].data;
  const float *g = c->in[1].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  int64_t i = r.from;
  for (; i + SL_CHUNK <= r.to; i += SL_CHUNK) chunk(p + i, g + i, v + i, &f);
  if (i < r.to) {
    float end[3][SL_CHUNK] = {{0}};
    size_t bytes = (size_t)(r.to - i) * sizeof(float);
    memcpy(end[0], p + i, bytes);
    memcpy(end[1], g + i, bytes);
    memcpy(end[2], v + i, bytes);
    chunk(end[0], end[1], end[2], &f);
    memcpy(p + i, end[0], bytes);
    memcpy(v + i, end[2], bytes);
  }
}

sl_status SL_KERNEL(sgd)(const sl_call *c) {
  float clip;
  if (sl_optimizer_may(c, 1, &clip))
    sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(sgd);

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 7 * (double)sl_shape_count(&c->out[0].shape); }

const sl_operation sl_op_sgd = {
    .name = "sgd",
    .attr_bytes = sizeof(sl_sgd_options),
    .shape = optimizer_shape,
    .cost = cost,
    .cpu = SL_KERNELS(sgd),
    .cuda = SL_CUDA_KERNEL(sgd),
    .map_in = 7,
    .map_out = 3,
    .update = {1, 3},
};

void sl_sgd(sl_graph *graph, const sl_sgd_options *options, const sl_value *parameters, const sl_value *gradients,
            int n, sl_value guard, sl_value clip) {
  for (int i = 0; i < n; i++) {
    const sl_value_info *info = sl_graph_value(graph, parameters[i]);
    sl_sgd_options attr = *options;
    if (info && !info->decay) attr.decay = 0;
    optimizer_add(graph, &sl_optimizer_sgd, &sl_op_sgd, &attr, parameters[i], gradients[i], guard, clip);
  }
}

static void add(sl_graph *graph, const sl_training *t, const sl_value *parameters, const sl_value *gradients, int n,
                sl_value guard, sl_value clip) {
  sl_sgd(graph, &(sl_sgd_options){t->momentum, t->decay}, parameters, gradients, n, guard, clip);
}

const sl_optimizer_rule sl_optimizer_sgd = {.name = "sgd", .reads = {"momentum"}, .state = {"momentum"}, .add = add};
#endif
