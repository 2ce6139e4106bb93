/* The choice of instruction set: names round-trip, sets that the CPU lacks are refused, the best is the last that runs.
 */
#include "runtime/processors/isa.h"

#include <stdio.h>
#include <string.h>
#if defined SL_HAVE_AMX && defined __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "tests/support/scratch.h"

static void names(void **state) {
  (void)state;
  for (int i = 0; i < SL_ISA_COUNT; i++) {
    sl_isa isa = SL_ISA_COUNT;
    if (sl_isa_runs((sl_isa)i)) {
      assert_ok(sl_isa_parse(sl_isa_name((sl_isa)i), &isa));
      assert_int_equal(isa, i);
    } else {
      assert_fails(SL_EUNSUPPORTED, sl_isa_name(sl_isa_best()), sl_isa_parse(sl_isa_name((sl_isa)i), &isa));
      assert_fails(SL_EUNSUPPORTED, sl_isa_name((sl_isa)i), sl_isa_use((sl_isa)i));
      assert_int_equal(isa, SL_ISA_COUNT);
    }
  }
}

static void unknown(void **state) {
  (void)state;
  sl_isa isa;
  assert_fails(SL_EINVAL, "base, avx2, avx512", sl_isa_parse("sse9", &isa));
  assert_fails(SL_EINVAL, "base, avx2, avx512", sl_isa_parse("", &isa));
  assert_int_equal(sl_isa_runs(SL_ISA_COUNT), 0);
}

/* A plan's kernels may be those of another CPU. */
static void like(void **state) {
  (void)state;
  static const char *const all[] = {"base", "avx2", "avx512", "neon"};
  const char *best = sl_isa_name(sl_isa_best());
  const int fused = strcmp(best, "base") != 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    sl_isa isa;
    const int runs = sl_isa_parse(all[i], &isa) == SL_OK;
    if (!runs) assert_fails(SL_EUNSUPPORTED, all[i], sl_isa_parse(all[i], &isa));
    assert_string_equal(sl_isa_like(all[i]), runs || i == 0 || !fused ? all[i] : best);
  }
  assert_string_equal(sl_isa_like("sse9"), "sse9");
  assert_true(sl_isa_same_bits("base", "base") && sl_isa_same_bits("avx2", "avx512") &&
              sl_isa_same_bits("neon", "avx2"));
  assert_false(sl_isa_same_bits("base", "avx2") || sl_isa_same_bits("neon", "base"));
}

static void best(void **state) {
  (void)state;
  assert_true(sl_isa_runs(SL_ISA_BASELINE));
  for (int i = 0; i < SL_ISA_COUNT; i++) /* ascending: no gap below the best, nothing above it */
    assert_int_equal(sl_isa_runs((sl_isa)i) != 0, i <= (int)sl_isa_best());
  assert_int_equal(sl_isa_current(), sl_isa_best());
  assert_ok(sl_isa_use(SL_ISA_BASELINE));
  assert_int_equal(sl_isa_current(), SL_ISA_BASELINE);
}

/* Tiles need a CPU that has them (Linux lists amx_bf16) and a system that saves them (Linux 5.16 says so). */
static void tiles(void **state) {
  (void)state;
  char line[8192];
  int listed = 0;
  FILE *cpus = fopen("/proc/cpuinfo", "r");
  if (!cpus) skip();
  while (fgets(line, sizeof line, cpus)) listed |= strstr(line, " amx_bf16") != NULL;
  fclose(cpus);
  const int has = sl_isa_has_tiles();
  print_message("# tiles: %s\n", has ? "yes" : "no");
  if (has) assert_true(listed && sl_isa_runs(SL_ISA_AVX512_VL));
#if defined SL_HAVE_AMX && defined __linux__
  enum { ARCH_GET_XCOMP_SUPP = 0x1021, XTILE_DATA = 18 };
  uint64_t saves = 0;
  const int tells = syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &saves) == 0 && (saves >> XTILE_DATA & 1);
  if (listed && tells && sl_isa_runs(SL_ISA_AVX512_VL)) assert_true(has);
#endif
  assert_int_equal(sl_isa_has_tiles(), has);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(unknown), cmocka_unit_test(like),
                                     cmocka_unit_test(best), cmocka_unit_test(tiles)};
  return cmocka_run_group_tests_name("runtime/isa", tests, NULL, NULL);
}
