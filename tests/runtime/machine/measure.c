/* Peak measurements are plausible, with one thread and several. The numbers themselves depend on the machine. */
#include "runtime/machine/measure.h"

#include "runtime/processors/isa.h"
#include "tests/support/scratch.h"

static void measures(void **state) {
  (void)state;
  for (int threads = 1; threads <= 2; threads++) {
    sl_runtime_options options = {.workers = 1, .threads_per_worker = threads};
    sl_runtime *rt;
    double gflops = -1, bf16 = -1, gigabytes = -1;
    assert_ok(sl_runtime_start(&options, &rt));
    assert_ok(sl_measure_sgemm(rt, 0.1, &gflops));
    assert_fails(SL_EINVAL, "at most", sl_measure_triad(rt, 0.05, 1 << 20, &gigabytes));
    assert_ok(sl_measure_triad(rt, 0.05, 8, &gigabytes));
    assert_ok(sl_measure_bf16(rt, 0.05, &bf16));
    print_message("# %d threads: %.1f GFLOP/s, bf16 %.1f, %.1f GB/s\n", threads, gflops, bf16, gigabytes);
    /* VDPBF16PS has half of fp32's rate on some CPUs and twice that on others; tiles have 16 times that. */
#ifdef __x86_64__
    if (sl_isa_has_tiles())
      assert_true(bf16 > 2 * gflops && bf16 < 100 * gflops);
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
