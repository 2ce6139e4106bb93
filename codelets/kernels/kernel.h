/* Everything that the files of operations share: kernel names per instruction set, vectors, and the loop over tiles.
 *
 * Every operation file is compiled once per instruction set (with SL_ISA_BASE, SL_ISA_AVX2 or SL_ISA_AVX512
 * defined), so one source gives all kernels and one binary holds them. A kernel is a function SL_KERNEL(name); the
 * descriptor and the shape, gradient and cost rules stand under #ifdef SL_ISA_BASE, where SL_KERNELS(name) lists the
 * kernels.
 *
 * The files in CODELETS_BF16 (Makefile.am) are compiled three times more, with SL_STORE_BF16 defined, for activations
 * and their gradients in 16 bits. Such a file declares those arrays as sl_real, which is float or sl_bf16. It reads and
 * writes them by sl_load, sl_store, sl_get and sl_put, which take both types, and computes in float.
 * SL_KERNELS_BF16(name) lists the bf16 kernels of the file. An operation without bf16 kernels works on copies in float
 * (tasks/graph/storage.h). */
#ifndef SL_KERNEL_H
#define SL_KERNEL_H

#ifdef HAVE_CONFIG_H
#include "config.h" /* SL_HAVE_X86_KERNELS, SL_HAVE_CUDA */
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined SL_ISA_AVX2 || defined SL_ISA_AVX512
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#include "codelets/codelets.h"
#include "runtime/numbers/half.h"
#include "runtime/numbers/philox.h"
#include "tasks/graph/graph.h"

#define SL_JOIN_(a, b) a##b
#define SL_JOIN(a, b) SL_JOIN_(a, b)
#if defined SL_ISA_AVX512
#define SL_ISA_SUFFIX _avx512
#define SL_LANES 16
#elif defined SL_ISA_AVX2
#define SL_ISA_SUFFIX _avx2
#define SL_LANES 8
#else
#define SL_ISA_SUFFIX _base
#define SL_LANES 4
#endif
#ifdef SL_STORE_BF16
#define SL_STORAGE_SUFFIX _bf16
#else
#define SL_STORAGE_SUFFIX
#endif

/* For non-static names of this file: one per instruction set and storage. */
#define SL_KERNEL(name) SL_JOIN(SL_JOIN(sl__##name, SL_STORAGE_SUFFIX), SL_ISA_SUFFIX)
/* For names that kernels of both storages share (codelets/kernels): one per instruction set. */
#define SL_SHARED(name) SL_JOIN(sl__##name, SL_ISA_SUFFIX)
/* Declares a kernel for all instruction sets and storages; at file level, before its definition. */
#define SL_KERNEL_DECLARE(name)                          \
  sl_status sl__##name##_base(const sl_call *call);      \
  sl_status sl__##name##_avx2(const sl_call *call);      \
  sl_status sl__##name##_avx512(const sl_call *call);    \
  sl_status sl__##name##_bf16_base(const sl_call *call); \
  sl_status sl__##name##_bf16_avx2(const sl_call *call); \
  sl_status sl__##name##_bf16_avx512(const sl_call *call)
#ifdef SL_HAVE_X86_KERNELS
#define SL_KERNELS(name) \
  { sl__##name##_base, sl__##name##_avx2, sl__##name##_avx512 }
#else
#define SL_KERNELS(name) \
  { sl__##name##_base }
#endif
#define SL_KERNELS_BF16(name) SL_KERNELS(name##_bf16)
#ifdef SL_HAVE_CUDA
#define SL_CUDA_KERNEL(name) sl__##name##_cuda
#else
#define SL_CUDA_KERNEL(name) NULL
#endif
/* Declares the CUDA kernel of name_cuda.cu; in the C file under SL_ISA_BASE, before the descriptor. */
#define SL_CUDA_DECLARE(name) sl_status sl__##name##_cuda(const sl_call *call, sl_cuda *cuda)

/* A vector as wide as the widest registers, and the same vector at an unaligned address. GCC and clang compile
 * operators on vectors to instructions. */
typedef float sl_vec __attribute__((vector_size(SL_LANES * 4)));
typedef float sl_vecu __attribute__((vector_size(SL_LANES * 4), aligned(4)));
static inline sl_vec sl_splat(float x) { return x - (sl_vec){0}; }

/* A number in bf16: the upper 16 bits of a float. Rounded to nearest, ties to even; a NaN stays a NaN, denormals are
 * kept. */
typedef struct sl_bf16 {
  uint16_t bits;
} sl_bf16;
#ifdef SL_STORE_BF16
typedef sl_bf16 sl_real;
#else
typedef float sl_real;
#endif
typedef uint32_t sl_vec_bits __attribute__((vector_size(SL_LANES * 4)));
typedef uint16_t sl_vec_half __attribute__((vector_size(SL_LANES * 2)));
typedef uint16_t sl_vec_halfu __attribute__((vector_size(SL_LANES * 2), aligned(2)));
static inline sl_vec sl_load_f32(const float *p) { return *(const sl_vecu *)p; }
static inline sl_vec sl_load_bf16(const sl_bf16 *p) {
#if defined SL_ISA_AVX512 /* of the plain expression GCC 12 makes conversions by halves */
  return (sl_vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16);
#elif defined SL_ISA_AVX2
  return (sl_vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16);
#else
  return (sl_vec)(__builtin_convertvector(*(const sl_vec_halfu *)(const void *)p, sl_vec_bits) << 16);
#endif
}
static inline void sl_store_f32(float *p, sl_vec v) { *(sl_vecu *)p = v; }
/* v rounded to bf16, in the upper half of each lane; the lower halves are undefined. */
static inline sl_vec_bits sl_round_bf16(sl_vec v) {
  const sl_vec_bits u = (sl_vec_bits)v, rounded = u + 0x7fff + (u >> 16 & 1);
#if defined SL_ISA_AVX512
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
  return (sl_vec_bits)_mm512_mask_or_epi32((__m512i)rounded, nan, (__m512i)u, _mm512_set1_epi32(0x400000));
#else
  const sl_vec_bits nan = (sl_vec_bits)(v != v);
  return (rounded & ~nan) | ((u | 0x400000) & nan);
#endif
}
static inline void sl_store_bf16(sl_bf16 *p, sl_vec v) {
  const sl_vec_bits upper = sl_round_bf16(v) >> 16;
#if defined SL_ISA_AVX512
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16((__m512i)upper));
#elif defined SL_ISA_AVX2
  _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(_mm256_castsi256_si128((__m256i)upper),
                                                          _mm256_extracti128_si256((__m256i)upper, 1)));
#else
  *(sl_vec_halfu *)(void *)p = __builtin_convertvector(upper, sl_vec_half);
#endif
}
static inline float sl_get_f32(const float *p) { return *p; }
static inline float sl_get_bf16(const sl_bf16 *p) {
  const uint32_t u = (uint32_t)p->bits << 16;
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline void sl_put_f32(float *p, float x) { *p = x; }
static inline void sl_put_bf16(sl_bf16 *p, float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  p->bits = (uint16_t)((x != x ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* These macros choose a function by the pointer's type: float or sl_bf16. */
#define SL_BY_TYPE(p, name) _Generic((p), const sl_bf16 * : name##_bf16, sl_bf16 * : name##_bf16, default : name##_f32)
#define sl_load(p) SL_BY_TYPE(p, sl_load)(p)
#define sl_store(p, v) SL_BY_TYPE(p, sl_store)(p, v)
#define sl_get(p) SL_BY_TYPE(p, sl_get)(p)
#define sl_put(p, x) SL_BY_TYPE(p, sl_put)(p, x)

/* a b + c, rounded once on every processor that has fused multiply-adds. Only x86's baseline has none: its kernels
 * round twice and so have bits of their own. Compilers must not fuse operations by themselves (-ffp-contract=off),
 * because each compiler would fuse other ones. */
#if defined __FMA__ || defined __aarch64__ || defined __powerpc64__ || defined FP_FAST_FMAF
#define SL_FUSES 1
#else
#define SL_FUSES 0
#endif
#if SL_FUSES
static inline float sl_fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double sl_fmad(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
static inline float sl_fmaf(float a, float b, float c) { return a * b + c; }
static inline double sl_fmad(double a, double b, double c) { return a * b + c; }
#endif
static inline sl_vec sl_fma(sl_vec a, sl_vec b, sl_vec c) {
#if defined SL_ISA_AVX512
  return (sl_vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined SL_ISA_AVX2
  return (sl_vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined __aarch64__
  return (sl_vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif SL_FUSES
  for (int i = 0; i < SL_LANES; i++) c[i] = sl_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

static inline int64_t sl_tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }
static inline int64_t sl_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t sl_max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* Write this before a loop with independent iterations in which an output may be the same array as an input
 * (inplace). */
#ifdef __clang__
#define SL_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define SL_IVDEP _Pragma("GCC ivdep")
#endif

/* The range [from, to) of n that tile `tile` covers. */
typedef struct sl_range {
  int64_t from, to;
} sl_range;
static inline sl_range sl_tile_range(int64_t tile, int64_t size, int64_t n) {
  return (sl_range){tile * size, sl_min64(tile * size + size, n)};
}
/* Number of rows of a tile when a row has `row` elements. */
static inline int64_t sl_tile_rows(const sl_call *c, int64_t row) {
  return sl_max64(1, c->tiles.elements / sl_max64(1, row));
}

/* Adds the tiles' partial sums (doubles in the leader's scratch memory), in order, into output i, F64 [1]. */
static inline void sl_sum_partials(const sl_call *c, int64_t tiles, int i) {
  const double *partial = c->team->scratch[0];
  double sum = 0, *out = c->out[i].data;
  for (int64_t tile = 0; tile < tiles; tile++) sum += partial[tile];
  *out = c->accumulate >> i & 1 ? *out + sum : sum;
}

#endif
