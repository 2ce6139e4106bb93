/* gelu: y = x Phi(x), by erf or by the tanh approximation, which transformers of 2018 to 2020 use. The gradient
 * recomputes Phi from x, which costs less than keeping Phi.
 *
 * In bf16, x is one of 65,536 numbers. So both kernels look up their results in tables, which the first call fills.
 * This is three to five times as fast and gives the same bits. */
#include <pthread.h>

#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(gelu);
SL_KERNEL_DECLARE(gelu_grad);

#ifdef SL_STORE_BF16
enum { NUMBERS = 1 << 16, FORMS = 2 };
/* One element more: a 32-bit gather of the last number also reads the element after it. */
static sl_bf16 result[FORMS][NUMBERS + 1];
static float slope[FORMS][NUMBERS];

static void fill(int form) {
  for (int32_t i = 0; i < NUMBERS; i += SL_LANES) {
    sl_bf16 x[SL_LANES];
    for (int l = 0; l < SL_LANES; l++) x[l].bits = (uint16_t)(i + l);
    const sl_vec v = sl_load(x);
    sl_store(result[form] + i, form == SL_GELU_ERF ? sl_gelu_erf(v) : sl_gelu_tanh(v));
    sl_store(slope[form] + i, form == SL_GELU_ERF ? sl_gelu_erf_slope(v) : sl_gelu_tanh_slope(v));
  }
}
static void fill_erf(void) { fill(SL_GELU_ERF); }
static void fill_tanh(void) { fill(SL_GELU_TANH); }
static void prepare(const sl_call *c) {
  static pthread_once_t erf_once = PTHREAD_ONCE_INIT, tanh_once = PTHREAD_ONCE_INIT;
  if (((const sl_gelu_attr *)c->attr)->form == SL_GELU_ERF)
    pthread_once(&erf_once, fill_erf);
  else
    pthread_once(&tanh_once, fill_tanh);
}

/* The derivatives of gelu at SL_LANES numbers. */
static inline sl_vec slopes(const float *table, const sl_bf16 *x) {
#ifdef SL_ISA_AVX512
  const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
  return (sl_vec)_mm512_i32gather_ps(at, table, 4);
#else
  sl_vec v;
  for (int l = 0; l < SL_LANES; l++) v[l] = table[x[l].bits];
  return v;
#endif
}
static inline void results(const sl_bf16 *table, const sl_bf16 *x, sl_bf16 *y) {
#ifdef SL_ISA_AVX512
  const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
  _mm256_storeu_si256((__m256i *)(void *)y, _mm512_cvtepi32_epi16(_mm512_i32gather_epi32(at, table, 2)));
#else
  for (int l = 0; l < SL_LANES; l++) y[l] = table[x[l].bits];
#endif
}

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const sl_bf16 *x = (const sl_bf16 *)c->in[0].data + r.from,
                *table = result[((const sl_gelu_attr *)c->attr)->form == SL_GELU_ERF ? SL_GELU_ERF : SL_GELU_TANH];
  sl_bf16 *y = (sl_bf16 *)c->out[0].data + r.from;
  int64_t n = r.to - r.from, i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) results(table, x + i, y + i);
  for (; i < n; i++) y[i] = table[x[i].bits];
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const sl_bf16 *dy = (const sl_bf16 *)c->in[0].data + r.from, *x = (const sl_bf16 *)c->in[1].data + r.from;
  const float *table = slope[((const sl_gelu_attr *)c->attr)->form == SL_GELU_ERF ? SL_GELU_ERF : SL_GELU_TANH];
  sl_bf16 *dx = (sl_bf16 *)c->out[0].data + r.from;
  int64_t n = r.to - r.from, i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) sl_store(dx + i, sl_load(dy + i) * slopes(table, x + i));
  for (; i < n; i++) sl_put(dx + i, sl_get(dy + i) * table[x[i].bits]);
}
#else
static void prepare(const sl_call *c) { (void)c; }

static void forward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_gelu_attr *attr = c->attr;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const sl_real *x = (const sl_real *)c->in[0].data + r.from;
  sl_real *y = (sl_real *)c->out[0].data + r.from;
  int64_t n = r.to - r.from, i = 0;
  if (attr->form == SL_GELU_ERF) {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(y + i, sl_gelu_erf(sl_load(x + i)));
    if (i < n) sl_store_n(y + i, sl_gelu_erf(sl_load_n(x + i, n - i, 0)), n - i);
  } else {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(y + i, sl_gelu_tanh(sl_load(x + i)));
    if (i < n) sl_store_n(y + i, sl_gelu_tanh(sl_load_n(x + i, n - i, 0)), n - i);
  }
}

static void backward(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_gelu_attr *attr = c->attr;
  sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const sl_real *dy = (const sl_real *)c->in[0].data + r.from, *x = (const sl_real *)c->in[1].data + r.from;
  sl_real *dx = (sl_real *)c->out[0].data + r.from;
  int64_t n = r.to - r.from, i = 0;
  if (attr->form == SL_GELU_ERF) {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(dx + i, sl_load(dy + i) * sl_gelu_erf_slope(sl_load(x + i)));
    if (i < n) sl_store_n(dx + i, sl_load_n(dy + i, n - i, 0) * sl_gelu_erf_slope(sl_load_n(x + i, n - i, 0)), n - i);
  } else {
    for (; i + SL_LANES <= n; i += SL_LANES) sl_store(dx + i, sl_load(dy + i) * sl_gelu_tanh_slope(sl_load(x + i)));
    if (i < n) sl_store_n(dx + i, sl_load_n(dy + i, n - i, 0) * sl_gelu_tanh_slope(sl_load_n(x + i, n - i, 0)), n - i);
  }
}
#endif

sl_status SL_KERNEL(gelu)(const sl_call *c) {
  prepare(c);
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), forward, (void *)c);
  return SL_OK;
}

sl_status SL_KERNEL(gelu_grad)(const sl_call *c) {
  prepare(c);
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), backward, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(gelu);
SL_CUDA_DECLARE(gelu_grad);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}

/* A rough count: matrix products make up most of a model's FLOPs. */
static void cost(const sl_call *c, sl_cost *cost) { cost->flops = 30 * (double)sl_shape_count(&c->out[0].shape); }

static void gradient(sl_graph *graph, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0])
    din[0] = sl_graph_add1(graph, &sl_op_gelu_grad, node->name, node->attr, (sl_value[]){dout[0], node->in[0]}, 2);
}

static const sl_folding folding = {.follows = 1};

const sl_operation sl_op_gelu = {
    .name = "gelu",
    .folding = &folding,
    .attr_bytes = sizeof(sl_gelu_attr),
    .shape = shape,
    .gradient = gradient,
    .cost = cost,
    .cpu = SL_KERNELS(gelu),
    .cpu_bf16 = SL_KERNELS_BF16(gelu),
    .cuda = SL_CUDA_KERNEL(gelu),
    .cuda_bf16 = 1,
    .inplace = {1},
};
const sl_operation sl_op_gelu_grad = {
    .name = "gelu_grad",
    .attr_bytes = sizeof(sl_gelu_attr),
    .shape = shape,
    .cost = cost,
    .cpu = SL_KERNELS(gelu_grad),
    .cpu_bf16 = SL_KERNELS_BF16(gelu_grad),
    .cuda = SL_CUDA_KERNEL(gelu_grad),
    .cuda_bf16 = 1,
    .inplace = {1},
};

sl_value sl_gelu(sl_graph *graph, const char *layer, sl_value x, sl_gelu_form form) {
  return sl_graph_add1(graph, &sl_op_gelu, layer, &(sl_gelu_attr){form}, &x, 1);
}
#endif
