/* Shared by the files of operations: kernel names per instruction set, vectors, and the loop over tiles.
 *
 * Every operation file is compiled once per instruction set (with SL_ISA_BASE, SL_ISA_AVX2 or SL_ISA_AVX512
 * defined), so one source gives all kernels and one binary holds them. A kernel is a function SL_KERNEL(name); the
 * descriptor and the shape, gradient and cost rules stand under #ifdef SL_ISA_BASE, where SL_KERNELS(name) lists the
 * kernels. */
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

/* For non-static names of this file: one per instruction set. */
#define SL_KERNEL(name) SL_JOIN(sl__##name, SL_ISA_SUFFIX)
/* Declares a kernel for all instruction sets; at file level, before its definition. */
#define SL_KERNEL_DECLARE(name)                     \
  sl_status sl__##name##_base(const sl_call *call); \
  sl_status sl__##name##_avx2(const sl_call *call); \
  sl_status sl__##name##_avx512(const sl_call *call)
#ifdef SL_HAVE_X86_KERNELS
#define SL_KERNELS(name) \
  { sl__##name##_base, sl__##name##_avx2, sl__##name##_avx512 }
#else
#define SL_KERNELS(name) \
  { sl__##name##_base }
#endif
#ifdef SL_HAVE_CUDA
#define SL_CUDA_KERNEL(name) sl__##name##_cuda
#else
#define SL_CUDA_KERNEL(name) NULL
#endif
/* Declares the CUDA kernel of name_cuda.cu; in the C file under SL_ISA_BASE, before the descriptor. */
#define SL_CUDA_DECLARE(name) sl_status sl__##name##_cuda(const sl_call *call, sl_cuda *cuda)

/* A vector of the widest registers, and an unaligned one. GCC and clang compile its operators to instructions. */
typedef float sl_vec __attribute__((vector_size(SL_LANES * 4)));
typedef float sl_vecu __attribute__((vector_size(SL_LANES * 4), aligned(4)));
static inline sl_vec sl_load(const float *p) { return *(const sl_vecu *)p; }
static inline void sl_store(float *p, sl_vec v) { *(sl_vecu *)p = v; }
static inline sl_vec sl_splat(float x) { return x - (sl_vec){0}; }

/* a b + c, rounded once on every processor that can: all but x86's baseline, whose kernels round twice and so have bits
 * of their own. Compilers must not fuse by themselves (-ffp-contract=off): each would choose differently. */
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

/* Before a loop with independent iterations, where an output may be the same array as an input (inplace). */
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
