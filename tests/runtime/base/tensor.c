/* runtime/base/tensor.c: sizes of types and shapes, and shapes as text. */
#include "runtime/base/tensor.h"

#include "tests/support/scratch.h"

static void types(void **state) {
  (void)state;
  assert_int_equal(sl_dtype_bytes(SL_F32), sizeof(float));
  assert_int_equal(sl_dtype_bytes(SL_F64), sizeof(double));
  assert_int_equal(sl_dtype_bytes(SL_I32), sizeof(int32_t));
  assert_int_equal(sl_dtype_bytes(SL_I64), sizeof(int64_t));
  assert_int_equal(sl_dtype_bytes(SL_U8), 1);
  assert_int_equal(sl_dtype_bytes(SL_F16), 2);
  assert_int_equal(sl_dtype_bytes(SL_BF16), 2);
  assert_string_equal(sl_dtype_name(SL_BF16), "BF16");
}

static void shapes(void **state) {
  (void)state;
  const sl_shape a = SL_SHAPE(64, 28, 28, 3), scalar = SL_SHAPE(), empty = SL_SHAPE(4, 0);
  assert_int_equal(a.ndim, 4);
  assert_int_equal(sl_shape_count(&a), 64 * 28 * 28 * 3);
  assert_int_equal(sl_shape_row(&a), 28 * 28 * 3);
  assert_int_equal(sl_shape_count(&scalar), 1);
  assert_int_equal(sl_shape_row(&scalar), 1);
  assert_int_equal(sl_shape_count(&empty), 0);
  const sl_shape large = SL_SHAPE(1 << 20, 1 << 20);
  assert_true(sl_shape_count(&large) == INT64_C(1) << 40);
}

static void equality(void **state) {
  (void)state;
  sl_shape a = SL_SHAPE(2, 3), b = SL_SHAPE(2, 3), c = SL_SHAPE(2, 4), d = SL_SHAPE(2, 3, 1);
  b.dim[2] = 99; /* behind its dimensions */
  assert_true(sl_shape_equal(&a, &b));
  assert_false(sl_shape_equal(&a, &c));
  assert_false(sl_shape_equal(&a, &d));
}

static void text(void **state) {
  (void)state;
  char whole[SL_SHAPE_TEXT], little[8];
  const sl_shape a = SL_SHAPE(64, 28, 1), scalar = SL_SHAPE();
  assert_string_equal(sl_shape_text(&a, whole, sizeof whole), "[64, 28, 1]");
  assert_string_equal(sl_shape_text(&scalar, whole, sizeof whole), "[]");
  memset(little, 'x', sizeof little);
  sl_shape_text(&a, little, 6);
  assert_string_equal(little, "[64, ");
  assert_int_equal(little[6], 'x');
  const sl_shape most = SL_SHAPE(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
  sl_shape_text(&most, whole, sizeof whole);
  assert_int_equal(whole[strlen(whole) - 1], ']');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types),
      cmocka_unit_test(shapes),
      cmocka_unit_test(equality),
      cmocka_unit_test(text),
  };
  return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
