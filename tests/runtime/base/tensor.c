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

/* Rows, columns, and columns of three blocks, as queries, keys and values have them. */
static void parts(void **state) {
  (void)state;
  enum { ROWS = 6, COLUMNS = 10, N = ROWS * COLUMNS };
  const struct {
    sl_part part;
    int n, first, second, last;
  } cases[] = {
      {{SL_SHAPE(ROWS, COLUMNS), 1, ROWS, COLUMNS, 2, 5}, 30, 20, 21, 49},
      {{SL_SHAPE(ROWS, COLUMNS), ROWS, COLUMNS, 1, 7, 10}, 18, 7, 8, 59},
      {{SL_SHAPE(ROWS, COLUMNS), 3, 2, COLUMNS, 1, 2}, 30, 10, 11, 59},
      {{SL_SHAPE(ROWS, COLUMNS), ROWS, 5, 2, 0, 1}, 12, 0, 1, 51},
  };
  char name[SL_PART_NAME];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t whole[N], part[N], back[N];
    for (int k = 0; k < N; k++) whole[k] = k, part[k] = back[k] = -1;
    sl_part_take(&cases[i].part, sizeof *whole, whole, part);
    assert_int_equal(part[0], cases[i].first);
    assert_int_equal(part[1], cases[i].second);
    assert_int_equal(part[cases[i].n - 1], cases[i].last);
    for (int k = cases[i].n; k < N; k++) assert_int_equal(part[k], -1);
    sl_part_put(&cases[i].part, sizeof *whole, part, back);
    int there = 0;
    for (int k = 0; k < N; k++) {
      assert_true(back[k] == k || back[k] == -1);
      there += back[k] == k;
    }
    assert_int_equal(there, cases[i].n);
  }
  assert_string_equal(sl_part_whole_name("h.0.mlp.fc.weight@3/4", name), "h.0.mlp.fc.weight");
  assert_string_equal(sl_part_whole_name("wte.weight", name), "wte.weight");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types), cmocka_unit_test(shapes), cmocka_unit_test(equality),
      cmocka_unit_test(text),  cmocka_unit_test(parts),
  };
  return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
