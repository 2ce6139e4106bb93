/* Measures peaks: sgemm, bf16 products, memory bandwidth. */
#include "runtime/machine/measure.h"

#include <cblas.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/time.h"
#include "runtime/processors/isa.h"

/* One round of measuring: every thread works from a common start for `span`, and adds its own rate. */
typedef struct round {
  int n;        /* sgemm: rows; triad: floats in an array */
  int64_t span; /* ns */
  int threads;  /* measuring threads, over all workers */
  atomic_int ready, failed;
  _Atomic int64_t milli; /* sum of rates, 1e-3 GFLOP/s or GB/s */
} round;

/* Waits until all threads have filled their arrays. Returns the common start time. */
static int64_t begin(round *r) {
  atomic_fetch_add(&r->ready, 1);
  while (atomic_load(&r->ready) < r->threads) sched_yield();
  return sl_now();
}

static void sgemm_thread(round *r) {
  const size_t count = (size_t)r->n * (size_t)r->n;
  float *a = aligned_alloc(64, 3 * count * sizeof *a), *b = a + count, *c = b + count;
  if (a) {
    for (size_t i = 0; i < 2 * count; i++) a[i] = (float)(i % 7) - 3.0f;
    memset(c, 0, count * sizeof *c);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r->n, r->n, r->n / 4, 1, a, r->n, b, r->n, 0, c, r->n);
  } else {
    atomic_fetch_add(&r->failed, 1);
  }
  const int64_t from = begin(r);
  if (!a) return;
  int64_t now;
  int calls = 0;
  do {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r->n, r->n, r->n, 1, a, r->n, b, r->n, 0, c, r->n);
    calls++;
    now = sl_now();
  } while (now - from < r->span);
  const double flops = 2.0 * calls * (double)count * r->n;
  atomic_fetch_add(&r->milli, (int64_t)(1e3 * flops / (double)(now - from)));
  free(a);
}

#ifdef __x86_64__
typedef float vector __attribute__((vector_size(64)));
enum { SUMS = 12, ROUNDS = 1000 }; /* more chains than an instruction's latency in cycles */

/* Executes SUMS independent chains of ROUNDS instructions. Returns the sum of their results. */
__attribute__((target("avx512f"))) static float multiply_pairs(void) {
  const uint32_t ones = 0x3f803f80;
  float one;
  memcpy(&one, &ones, sizeof one);
  vector x, sum[SUMS], all = {0};
  for (int i = 0; i < 16; i++) x[i] = one;
#pragma GCC unroll 12
  for (int i = 0; i < SUMS; i++) sum[i] = (vector){0};
  for (int k = 0; k < ROUNDS; k++) {
#pragma GCC unroll 12
    for (int i = 0; i < SUMS; i++) __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(sum[i]) : "v"(x));
  }
#pragma GCC unroll 12
  for (int i = 0; i < SUMS; i++) all += sum[i];
  return all[0];
}
static int has_pairs(void) { return __builtin_cpu_supports("avx512bf16"); }

#ifdef SL_HAVE_AMX
/* Multiplies four pairs of tiles, 16 x 16 x 32, ROUNDS times. Restores the thread's configuration of tiles. */
static void multiply_tiles(void) {
  typedef struct configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } configuration;
  const configuration whole = {
      .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  configuration before;
  __asm__ volatile("sttilecfg %0" : "=m"(before));
  __asm__ volatile("ldtilecfg %0" : : "m"(whole)); /* clears all tiles */
  for (int k = 0; k < ROUNDS; k++)
    __asm__ volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::);
  __asm__ volatile("ldtilecfg %0" : : "m"(before));
}
#else
static void multiply_tiles(void) {}
#endif
#else
enum { SUMS = 1, ROUNDS = 1 };
static float multiply_pairs(void) { return 0; }
static int has_pairs(void) { return 0; }
static void multiply_tiles(void) {}
#endif

static void bf16_thread(round *r) {
  const int64_t from = begin(r);
  int64_t now;
  double calls = 0;
  float sum = 0;
  do {
    for (int i = 0; i < 16; i++) sum += multiply_pairs();
    calls += 16;
    now = sl_now();
  } while (now - from < r->span);
  if (sum > 0) atomic_fetch_add(&r->milli, (int64_t)(1e3 * 64.0 * SUMS * ROUNDS * calls / (double)(now - from)));
}

static void tiles_thread(round *r) {
  const int64_t from = begin(r);
  int64_t now;
  double calls = 0;
  do {
    for (int i = 0; i < 4; i++) multiply_tiles();
    calls += 4;
    now = sl_now();
  } while (now - from < r->span);
  atomic_fetch_add(&r->milli, (int64_t)(1e3 * 4 * (2.0 * 16 * 16 * 32) * ROUNDS * calls / (double)(now - from)));
}

static void triad(float *restrict a, const float *restrict b, const float *restrict c, float s, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

static void triad_thread(round *r) {
  const size_t n = (size_t)r->n;
  float *a = aligned_alloc(64, 3 * n * sizeof *a), *b = a + n, *c = b + n;
  if (a)
    for (size_t i = 0; i < 3 * n; i++) a[i] = 1.0f;
  else
    atomic_fetch_add(&r->failed, 1);
  const int64_t from = begin(r);
  if (!a) return;
  int64_t now;
  int calls = 0;
  do {
    triad(a, b, c, 0.25f + (float)calls, n);
    calls++;
    now = sl_now();
  } while (now - from < r->span);
  /* The result is used, so the compiler must keep the work. */
  if (a[calls % r->n] > 0)
    atomic_fetch_add(&r->milli, (int64_t)(1e3 * 12.0 * calls * (double)n / (double)(now - from)));
  free(a);
}

static void sgemm_worker(void *arg, int worker, sl_team *team) {
  (void)worker;
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
  sgemm_thread(arg);
}

static void bf16_worker(void *arg, int worker, sl_team *team) {
  (void)worker;
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
  bf16_thread(arg);
}

static void tiles_worker(void *arg, int worker, sl_team *team) {
  (void)worker;
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
  tiles_thread(arg);
}

static void triad_worker(void *arg, int worker, sl_team *team) {
  (void)worker;
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
  triad_thread(arg);
}

static sl_status measure(sl_runtime *rt, sl_worker_function function, int n, double seconds, double *rate) {
  round r = {.n = n, .span = (int64_t)(1e9 * seconds)};
  for (int w = 0; w < sl_runtime_workers(rt); w++) {
    const sl_team *team = sl_runtime_team(rt, w);
    if (team) r.threads += team->threads;
  }
  SL_TRY(sl_runtime_each_worker(rt, function, &r));
  if (atomic_load(&r.failed)) return sl_no_memory("for measuring with %d threads", r.threads);
  const double found = 1e-3 * (double)atomic_load(&r.milli);
  if (found > *rate) *rate = found;
  return SL_OK;
}

sl_status sl_measure_sgemm(sl_runtime *rt, double seconds, double *gflops) {
  *gflops = 0;
  SL_TRY(measure(rt, sgemm_worker, 1024, seconds / 2, gflops));
  return measure(rt, sgemm_worker, 2048, seconds / 2, gflops);
}

sl_status sl_measure_bf16(sl_runtime *rt, double seconds, double *gflops) {
  *gflops = 0;
  if (sl_isa_has_tiles()) return measure(rt, tiles_worker, 0, seconds, gflops);
  return has_pairs() ? measure(rt, bf16_worker, 0, seconds, gflops) : SL_OK;
}

sl_status sl_measure_triad(sl_runtime *rt, double seconds, size_t megabytes, double *gigabytes) {
  *gigabytes = 0;
  if (megabytes == 0) megabytes = 64;
  if (megabytes > 4096)
    return sl_fail(SL_EINVAL, "measuring memory takes at most 4096 MB a thread, not %zu", megabytes);
  return measure(rt, triad_worker, (int)(megabytes * 1000000 / 12 / 16 * 16), seconds, gigabytes);
}
