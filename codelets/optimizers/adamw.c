/* adamw (Loshchilov and Hutter 2019, algorithm 2, as torch.optim.AdamW has it):
 *   p = p - lr decay p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   p = p - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)
 * and Adam (Kingma and Ba 2015, algorithm 1, as torch.optim.Adam has it), where decay p is added to g instead. One
 * pass over memory. */
#include "codelets/kernels/math.h"
#include "codelets/optimizers/formulas.h"
#include "codelets/optimizers/optimizer.h"

SL_KERNEL_DECLARE(adamw);

static __attribute__((noinline)) void chunk(float *p, const float *gradient, float *m, float *v,
                                            const sl_adamw_factors *factor) {
  const sl_adamw_factors f = *factor;
  SL_IVDEP
  for (int i = 0; i < SL_CHUNK; i++) sl_adamw_element(&p[i], gradient[i], &m[i], &v[i], &f);
}

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  sl_adamw_factors f = sl_adamw_factors_of(c);
  sl_optimizer_may(c, 2, &f.clip);
  float *p = c->out[0].data, *m = c->out[1].data, *v = c->out[2].data;
  const float *g = c->in[1].data;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  int64_t i = r.from;
  for (; i + SL_CHUNK <= r.to; i += SL_CHUNK) chunk(p + i, g + i, m + i, v + i, &f);
  if (i < r.to) {
    float end[4][SL_CHUNK] = {{0}};
    size_t bytes = (size_t)(r.to - i) * sizeof(float);
    memcpy(end[0], p + i, bytes);
    memcpy(end[1], g + i, bytes);
    memcpy(end[2], m + i, bytes);
    memcpy(end[3], v + i, bytes);
    chunk(end[0], end[1], end[2], end[3], &f);
    memcpy(p + i, end[0], bytes);
    memcpy(m + i, end[2], bytes);
    memcpy(v + i, end[3], bytes);
  }
}

sl_status SL_KERNEL(adamw)(const sl_call *c) {
  float clip;
  if (sl_optimizer_may(c, 2, &clip))
    sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(adamw);

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 16 * (double)sl_shape_count(&c->out[0].shape); }

const sl_operation sl_op_adamw = {
    .name = "adamw",
    .attr_bytes = sizeof(sl_adamw_attr),
    .shape = optimizer_shape,
    .cost = cost,
    .cpu = SL_KERNELS(adamw),
    .cuda = SL_CUDA_KERNEL(adamw),
    .map_in = 15,
    .map_out = 7,
    .update = {1, 3, 4},
};

static void each(sl_graph *graph, const sl_optimizer_rule *rule, const sl_adamw_options *options, int l2,
                 const sl_value *parameters, const sl_value *gradients, int n, sl_value guard, sl_value clip) {
  for (int i = 0; i < n; i++) {
    const sl_value_info *info = sl_graph_value(graph, parameters[i]);
    sl_adamw_attr attr = {*options, l2};
    if (info && !info->decay) attr.options.decay = 0;
    optimizer_add(graph, rule, &sl_op_adamw, &attr, parameters[i], gradients[i], guard, clip);
  }
}

void sl_adamw(sl_graph *graph, const sl_adamw_options *options, const sl_value *parameters, const sl_value *gradients,
              int n, sl_value guard, sl_value clip) {
  each(graph, &sl_optimizer_adamw, options, 0, parameters, gradients, n, guard, clip);
}

void sl_adam(sl_graph *graph, const sl_adam_options *options, const sl_value *parameters, const sl_value *gradients,
             int n, sl_value guard, sl_value clip) {
  const sl_adamw_options same = {options->beta1, options->beta2, options->eps, options->decay};
  each(graph, &sl_optimizer_adam, &same, 1, parameters, gradients, n, guard, clip);
}

static void add_adamw(sl_graph *graph, const sl_training *t, const sl_value *parameters, const sl_value *gradients,
                      int n, sl_value guard, sl_value clip) {
  sl_adamw(graph, &(sl_adamw_options){t->beta1, t->beta2, t->eps, t->decay}, parameters, gradients, n, guard, clip);
}
static void add_adam(sl_graph *graph, const sl_training *t, const sl_value *parameters, const sl_value *gradients,
                     int n, sl_value guard, sl_value clip) {
  sl_adam(graph, &(sl_adam_options){t->beta1, t->beta2, t->eps, t->decay}, parameters, gradients, n, guard, clip);
}

const sl_optimizer_rule sl_optimizer_adam = {
    .name = "adam", .reads = {"beta1", "beta2", "eps"}, .state = {"m", "v"}, .add = add_adam};
const sl_optimizer_rule sl_optimizer_adamw = {
    .name = "adamw", .reads = {"beta1", "beta2", "eps"}, .state = {"m", "v"}, .add = add_adamw};
#endif
