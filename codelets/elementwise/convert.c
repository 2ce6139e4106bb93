/* convert: out is in as another type: float to bf16 or fp16, or bf16 or fp16 to float. It rounds to nearest, ties to
 * even, keeps denormals, and a NaN stays a NaN. The precision pass copies weights with this operation. The engine
 * converts the arguments of kernels that take only floats with it. */
#include "codelets/attributes.h"
#include "codelets/kernels/math.h"

SL_KERNEL_DECLARE(convert);

static void narrow_bf16(int64_t n, const float *x, sl_bf16 *y) {
  int64_t i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) sl_store(y + i, sl_load(x + i));
  for (; i < n; i++) sl_put(y + i, x[i]);
}
static void widen_bf16(int64_t n, const sl_bf16 *x, float *y) {
  int64_t i = 0;
  for (; i + SL_LANES <= n; i += SL_LANES) sl_store(y + i, sl_load(x + i));
  for (; i < n; i++) y[i] = sl_get(x + i);
}

static void narrow_fp16(int64_t n, const float *x, uint16_t *y) {
  int64_t i = 0;
#if defined SL_ISA_AVX512
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i *)(void *)(y + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined SL_ISA_AVX2
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; i++) y[i] = sl_half_of(x[i]);
}
static void widen_fp16(int64_t n, const uint16_t *x, float *y) {
  int64_t i = 0;
#if defined SL_ISA_AVX512
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
#elif defined SL_ISA_AVX2
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
#endif
  for (; i < n; i++) y[i] = sl_half_wide(x[i]);
}

static void body(void *arg, int64_t tile, int thread) {
  (void)thread;
  const sl_call *c = arg;
  const sl_range r = sl_tile_range(tile, c->tiles.elements, sl_shape_count(&c->out[0].shape));
  const int64_t n = r.to - r.from;
  const void *x = c->in[0].data;
  void *y = c->out[0].data;
  if (c->out[0].dtype == SL_BF16)
    narrow_bf16(n, (const float *)x + r.from, (sl_bf16 *)y + r.from);
  else if (c->out[0].dtype == SL_F16)
    narrow_fp16(n, (const float *)x + r.from, (uint16_t *)y + r.from);
  else if (c->in[0].dtype == SL_BF16)
    widen_bf16(n, (const sl_bf16 *)x + r.from, (float *)y + r.from);
  else
    widen_fp16(n, (const uint16_t *)x + r.from, (float *)y + r.from);
}

static int is_narrow(sl_dtype dtype) { return dtype == SL_BF16 || dtype == SL_F16; }

sl_status SL_KERNEL(convert)(const sl_call *c) {
  const sl_dtype from = c->in[0].dtype, to = c->out[0].dtype;
  if (!(from == SL_F32 && is_narrow(to)) && !(is_narrow(from) && to == SL_F32))
    return sl_fail(SL_EUNSUPPORTED, "convert cannot make %s of %s", sl_dtype_name(to), sl_dtype_name(from));
  sl_team_for(c->team, sl_tiles_of(sl_shape_count(&c->out[0].shape), c->tiles.elements), body, (void *)c);
  return SL_OK;
}

#ifdef SL_ISA_BASE
SL_CUDA_DECLARE(convert);

static sl_status shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].dtype = *(const sl_dtype *)attr;
  return SL_OK;
}

const sl_operation sl_op_convert = {
    .name = "convert",
    .attr_bytes = sizeof(sl_dtype),
    .shape = shape,
    .cpu = SL_KERNELS(convert),
    .cuda = SL_CUDA_KERNEL(convert),
    .any_dtype = 1,
    .wide_out = 1,
    .map_in = 1,
    .map_out = 1,
};

sl_value sl_convert(sl_graph *graph, const char *layer, sl_value x, sl_dtype dtype) {
  return sl_graph_add1(graph, &sl_op_convert, layer, &dtype, &x, 1);
}
#endif
