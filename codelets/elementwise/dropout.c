/* dropout: y = 0 where the element's random word is below p 2^32, y = x / (1 - p) elsewhere. The gradient is the same
 * operation on dy with the same random stream, so no mask is kept. */
#include "codelets/attributes.h"
#include "codelets/kernels/kernel.h"

SL_KERNEL_DECLARE(dropout);

enum { WORDS = 1024 }; /* random words made at once */

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_dropout_attr *attr = c->attr;
  const uint32_t key = attr->fixed ? attr->key : c->key, below = (uint32_t)((double)attr->p * 4294967296.0);
  const uint64_t first = (uint64_t)(c->row0 * sl_shape_row(&c->out[0].shape)); /* index in the global batch */
  const float scale = 1.0f / (1.0f - attr->p);
  uint32_t word[WORDS];
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  for (int64_t at = r.from; at < r.to; at += WORDS) {
    int64_t n = sl_min64(WORDS, r.to - at);
    sl_random_fill(c->step->seed, (uint64_t)c->step->number, key, first + (uint64_t)at, n, word);
    const sl_real *x = (const sl_real *)c->in[0].data + at;
    sl_real *y = (sl_real *)c->out[0].data + at;
    SL_IVDEP
    for (int64_t i = 0; i < n; i++) sl_put(y + i, word[i] < below ? 0.0f : sl_get(x + i) * scale);
  }
}

sl_status SL_KERNEL(dropout)(const sl_call *c) {
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(dropout);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  const sl_dropout_attr *a = attr;
  if (!(a->p >= 0 && a->p < 1)) return sl_fail(SL_EINVAL, "p = %g: it must be in [0, 1)", (double)a->p);
  if (in[0]->scope != SL_SCOPE_SAMPLE) return sl_fail(SL_ESHAPE, "the input has no samples");
  out[0].shape = in[0]->shape;
  return SL_OK;
}

static void cost(const sl_call *c, sl_cost *cost) { cost->flops = (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_dropout_attr *a = node->attr;
  sl_dropout_attr same = {.p = a->p, .fixed = 1, .key = a->fixed ? a->key : node->key};
  if (need[0]) din[0] = sl_graph_add1(graph, &sl_op_dropout, node->name, &same, dout, 1);
}

static void stream(void *attr, uint32_t key) {
  sl_dropout_attr *a = attr;
  a->fixed = 1;
  a->key = key;
}

const sl_operation sl_op_dropout = {
    .name = "dropout",
    .attr_bytes = sizeof(sl_dropout_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(dropout),
    .cpu_bf16 = SL_KERNELS_BF16(dropout),
    .cuda = SL_CUDA_KERNEL(dropout),
    .cuda_bf16 = 1,
    .along = 1,
    .stream = stream,
    .inplace = {1},
};

sl_value sl_dropout(sl_graph *graph, const char *layer, sl_value x, float p) {
  return sl_graph_add1(graph, &sl_op_dropout, layer, &(sl_dropout_attr){.p = p}, &x, 1);
}
#endif
