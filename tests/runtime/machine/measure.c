/* Peak measurements are plausible, with one thread and several. The numbers themselves depend on the machine. */
#include "runtime/machine/measure.h"

#include <math.h>

#include "runtime/processors/isa.h"
#include "tests/support/scratch.h"

static void measures(void **state) {
  (void)state;
  for (int threads = 1; threads <= 2; threads++) {
    sl_runtime_options options = {.workers = 1, .threads_per_worker = threads};
    sl_runtime *rt;
    double gflops = -1, bf16 = -1, gigabytes = -1;
    assert_ok(sl_runtime_start(&options, &rt));
    assert_fails(SL_EINVAL, "at most", sl_measure_triad(rt, 0.05, 1 << 20, &gigabytes));
    gigabytes = -1;
    /* The best of several rounds, in turn: another program may take the processor from a whole round. */
    for (int round = 0; round < 5; round++) {
      double f = -1, b = -1, g = -1;
      assert_ok(sl_measure_sgemm(rt, 0.1, &f));
      assert_ok(sl_measure_triad(rt, 0.05, 8, &g));
      assert_ok(sl_measure_bf16(rt, 0.05, &b));
      gflops = fmax(f, gflops), gigabytes = fmax(g, gigabytes), bf16 = fmax(b, bf16);
    }
    print_message("# %d threads: %.1f GFLOP/s, bf16 %.1f, %.1f GB/s\n", threads, gflops, bf16, gigabytes);
    /* VDPBF16PS has half of fp32's rate on some CPUs and twice that on others. Tiles have 16 times the rate of AVX-512
     * in fp32, 64 times that of SSE, which is all that OpenBLAS uses on a CPU newer than itself. */
#ifdef __x86_64__
    if (sl_isa_has_tiles())
      assert_true(bf16 > 2 * gflops && bf16 < 200 * gflops);
    else if (__builtin_cpu_supports("avx512bf16"))
      assert_true(bf16 > 0.1 * gflops && bf16 < 20 * gflops);
    else
#endif
      assert_true(bf16 == 0);
    assert_true(gflops > 0.1 && gflops < 1e5);
    assert_true(gigabytes > 0.01 && gigabytes < 1e5);
    sl_runtime_stop(rt);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(measures)};
  return cmocka_run_group_tests_name("runtime/measure", tests, NULL, NULL);
}
