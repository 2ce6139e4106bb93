/* fp16: half.h against exact arithmetic, and the kernels of convert against half.h, over all numbers of 16 bits and
 * many floats: halfway cases, denormals, the limits, infinities and NaNs. */
#include "runtime/numbers/half.h"

#include <math.h>
#include <stdlib.h>

#include "codelets/codelets.h"
#include "tests/support/scratch.h"

enum { HALVES = 65536 };

static int is_nan(uint16_t half) { return (half & 0x7c00) == 0x7c00 && (half & 0x3ff); }
/* The number that the bits stand for. */
static double number(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 0x3ff, sign = half >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
}

static void widening(void **state) {
  (void)state;
  for (int h = 0; h < HALVES; h++) {
    const float wide = sl_half_wide((uint16_t)h);
    if (is_nan((uint16_t)h)) {
      assert_true(isnan(wide));
      assert_int_equal(sl_half_of(wide), h | 0x200);
      continue;
    }
    assert_true((double)wide == number((uint16_t)h) && !signbit(wide) == !(h >> 15));
    assert_int_equal(sl_half_of(wide), h);
  }
}

/* Between neighbours, the middle goes to the even one and everything else to the nearer one. */
static void narrowing(void **state) {
  (void)state;
  for (int h = 0; h < 0x7c00; h++) {
    const double low = number((uint16_t)h), high = h == 0x7bff ? 65536 : number((uint16_t)(h + 1)),
                 middle = (low + high) / 2;
    const float at = (float)middle; /* exact: a float has 13 bits more */
    const int even = h % 2 ? h + 1 : h;
    assert_int_equal(sl_half_of(at), even);
    assert_int_equal(sl_half_of(-at), even | 0x8000);
    assert_int_equal(sl_half_of(nextafterf(at, 0)), h);
    assert_int_equal(sl_half_of(nextafterf(at, INFINITY)), h + 1);
  }
  assert_int_equal(sl_half_of(INFINITY), 0x7c00);
  assert_int_equal(sl_half_of(-3e38f), 0xfc00);
  assert_int_equal(sl_half_of(1e-45f), 0);
}

/* Each instruction set's kernel gives half.h's bits. */
static void kernels(void **state) {
  (void)state;
  enum { N = 3 * HALVES + 5 };
  sl_team *team = NULL;
  assert_ok(sl_team_create(NULL, 1, NULL, &team));
  assert_ok(sl_team_start(team));
  float *wide = malloc(N * sizeof *wide);
  uint16_t *half = malloc(N * sizeof *half);
  assert_true(wide && half);
  const sl_step step = {.number = 1};
  for (int isa = 0; isa < SL_ISA_COUNT; isa++) {
    if (!sl_isa_runs((sl_isa)isa)) continue;
    sl_array from = {.shape = SL_SHAPE(N), .parts = 1}, to = from;
    sl_call call = {
        .n_in = 1, .n_out = 1, .in = &from, .out = &to, .tiles = SL_TILES_DEFAULT, .team = team, .step = &step};
    for (int i = 0; i < N; i++) half[i] = (uint16_t)i;
    from.data = half, from.dtype = SL_F16, to.data = wide, to.dtype = SL_F32;
    assert_ok(sl_op_convert.cpu[isa](&call));
    for (int i = 0; i < N; i++) {
      const float want = sl_half_wide((uint16_t)i);
      if (memcmp(&wide[i], &want, sizeof want) != 0)
        fail_msg("%s: %#x is widened otherwise", sl_isa_name((sl_isa)isa), i % HALVES);
    }
    /* The numbers, and those on both sides of the middle between neighbours. */
    for (int i = 0; i < N; i++) {
      const uint16_t h = (uint16_t)(i / 3);
      const double next = is_nan(h) || (h & 0x7fff) >= 0x7bff ? number(h) : number((uint16_t)(h + 1));
      wide[i] = i % 3 == 0 ? (float)number(h)
                           : nextafterf((float)((number(h) + next) / 2), i % 3 == 1 ? -INFINITY : INFINITY);
    }
    from.data = wide, from.dtype = SL_F32, to.data = half, to.dtype = SL_F16;
    assert_ok(sl_op_convert.cpu[isa](&call));
    for (int i = 0; i < N; i++)
      if (half[i] != sl_half_of(wide[i]))
        fail_msg("%s: %.9g becomes %#x, by half.h %#x", sl_isa_name((sl_isa)isa), (double)wide[i], half[i],
                 sl_half_of(wide[i]));
  }
  free(wide);
  free(half);
  sl_team_destroy(team);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(widening), cmocka_unit_test(narrowing),
                                     cmocka_unit_test(kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
