/* tasks/graph/graph.c: building, errors that stick and name the layer, tensors shared by name. */
#include "tasks/graph/graph.h"

#include "tests/tasks/toy.h"

static void builds(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value y = toy_layer(g, "fc1", toy_input(g, 5), 7);
  assert_ok(sl_graph_status(g));
  const sl_value_info *info = sl_graph_value(g, y);
  assert_int_equal(info->shape.dim[0], 12);
  assert_int_equal(info->shape.dim[1], 7);
  assert_int_equal(info->scope, SL_SCOPE_SAMPLE);
  assert_int_equal(sl_graph_value(g, sl_graph_find(g, "fc1.weight"))->scope, SL_SCOPE_WHOLE);
  assert_int_equal(sl_graph_find(g, "fc2.weight"), SL_NONE);
  assert_null(sl_graph_value(g, 99));
  sl_graph_destroy(g);
}

static void first_error_sticks(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_input(g, 5);
  toy_layer(g, "fc1", x, 7);
  sl_value w = sl_graph_find(g, "fc1.weight");
  sl_value wide = toy_input(g, 9);
  assert_int_equal(sl_graph_add1(g, &toy_matmul, "broken", NULL, (sl_value[]){wide, w}, 2), SL_NONE);
  assert_int_equal(toy_layer(g, "later", x, 3), SL_NONE);
  assert_fails(SL_ESHAPE, "layer 'broken': toy_matmul: x has 9 columns, W 5", sl_graph_status(g));
  sl_value gradient;
  assert_fails(SL_ESHAPE, "broken", sl_gradient(g, x, &w, 1, &gradient));
  sl_graph_destroy(g);
}

static void wrong_values_are_named(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_graph_add1(g, &toy_add, "sum", NULL, (sl_value[]){0, 17}, 2);
  assert_fails(SL_EINVAL, "layer 'sum'", sl_graph_status(g));
  sl_graph_destroy(g);
  g = toy_graph(0);
  assert_fails(SL_EINVAL, "a batch of 0 samples", sl_graph_status(g));
  sl_graph_destroy(g);
}

static void tensors_are_shared_by_name(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_init zero = {0};
  sl_value a = sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc", "weight", SL_F32, SL_SHAPE(4, 5), zero);
  assert_int_equal(a, sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc", "weight", SL_F32, SL_SHAPE(4, 5), zero));
  assert_int_equal(sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc", "weight", SL_F32, SL_SHAPE(4, 6), zero), SL_NONE);
  assert_fails(SL_ESHAPE, "'fc.weight' F32 [4, 6] exists already as F32 [4, 5]", sl_graph_status(g));
  sl_graph_destroy(g);
  g = toy_graph(12);
  sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc", "weight", SL_F32, SL_SHAPE(4, 0), zero);
  assert_fails(SL_ESHAPE, "would have shape [4, 0]", sl_graph_status(g));
  sl_graph_destroy(g);
}

static void sizes_do_not_wrap(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  const int64_t half = INT64_C(1) << 31;
  assert_int_not_equal(
      sl_graph_tensor(g, SL_ROLE_PARAMETER, "a", "weight", SL_F32, SL_SHAPE(half, half / 4), (sl_init){0}), SL_NONE);
  assert_int_equal(sl_graph_tensor(g, SL_ROLE_PARAMETER, "b", "weight", SL_F32, SL_SHAPE(half, half), (sl_init){0}),
                   SL_NONE);
  assert_fails(SL_ESHAPE, "b.weight of shape [2147483648, 2147483648] has more than 2^63 bytes", sl_graph_status(g));
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builds),
      cmocka_unit_test(first_error_sticks),
      cmocka_unit_test(wrong_values_are_named),
      cmocka_unit_test(tensors_are_shared_by_name),
      cmocka_unit_test(sizes_do_not_wrap),
  };
  return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
