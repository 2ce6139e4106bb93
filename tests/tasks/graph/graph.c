/* tasks/graph/graph.c: building, errors that stick and name the layer, tensors shared by name, nodes as kernels see
 * them. */
#include "tasks/graph/graph.h"

#include <stdio.h>
#include <string.h>

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
  assert_true(g->n_values < g->capacity_values);
  g->value[g->n_values] = g->value[0]; /* where no value is */
  assert_null(sl_graph_value(g, g->n_values));
  assert_null(sl_graph_value(g, SL_NONE));
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
  /* No operation is looked at any more, and no other error is kept. */
  sl_fail(SL_EIO, "of somebody else");
  assert_int_equal(sl_graph_add1(g, &toy_matmul, "broken, too", NULL, (sl_value[]){wide, w}, 2), SL_NONE);
  assert_string_equal(sl_error(), "of somebody else");
  sl_graph_fail(g, SL_EIO, "later");
  assert_fails(SL_ESHAPE, "layer 'broken': toy_matmul", sl_graph_status(g));
  sl_graph_destroy(g);
}

static sl_status half_a_batch(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0] / 2, 5);
  return SL_OK;
}

static void samples_are_not_lost(void **state) {
  (void)state;
  static const sl_operation loses = {.name = "loses", .shape = half_a_batch};
  sl_graph *g = toy_graph(12);
  const sl_value x = toy_input(g, 5);
  assert_int_equal(sl_graph_add1(g, &loses, "pool", NULL, &x, 1), SL_NONE);
  assert_fails(SL_ESHAPE, "layer 'pool': loses: output 0 has shape [6, 5]; its first dimension should be the batch, 12",
               sl_graph_status(g));
  sl_graph_destroy(g);
}

/* Updates, accumulation, keys and decay. */
static void nodes_know_what_they_do(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_input(g, 5), y = toy_layer(g, "fc1", x, 5);
  toy_layer(g, "fc2", y, 5);
  const sl_value w = sl_graph_find(g, "fc1.weight");
  const sl_value b = sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc1", "bias", SL_F32, SL_SHAPE(5), (sl_init){0});
  assert_int_equal(sl_graph_value(g, w)->decay, 1);
  assert_int_equal(sl_graph_value(g, b)->decay, 0);
  sl_node *first = g->node[g->n_nodes - 2], *second = g->node[g->n_nodes - 1];
  assert_ptr_equal(first->op, second->op);
  assert_int_not_equal(first->key, second->key);
  assert_int_equal(sl_node_reads_output(first, 0), 0);
  first->accumulate = 1;
  assert_int_equal(sl_node_reads_output(first, 0), 1);
  const int before = g->n_values;
  assert_int_equal(sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){w, w}, 2), w);
  assert_int_equal(g->n_values, before);
  assert_int_equal(sl_node_reads_output(g->node[g->n_nodes - 1], 0), 1);
  sl_graph_destroy(g);
}

/* A node as its kernel sees it: arguments in one part, in three and in two, then the output. */
static void calls_have_arguments_in_parts(void **state) {
  (void)state;
  enum { PARTS = 6, ARGUMENTS = 3 };
  static const int rows[PARTS] = {12, 3, 4, 5, 7, 8};
  sl_graph *g = toy_graph(12);
  sl_value in[PARTS], out = toy_input(g, 5);
  int in_part[ARGUMENTS + 1] = {0, 1, 4, 6};
  for (int i = 0; i < PARTS; i++) {
    char name[8];
    snprintf(name, sizeof name, "w%d", i);
    in[i] = sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc", name, SL_F32, SL_SHAPE(rows[i], 5), (sl_init){0});
  }
  sl_graph_push_node(g, &(sl_node){.op = &toy_add,
                                   .name = (char *)"fc",
                                   .n_in = PARTS,
                                   .n_arg = ARGUMENTS,
                                   .n_out = 1,
                                   .in = in,
                                   .out = &out,
                                   .in_part = in_part});
  assert_ok(sl_graph_status(g));
  const sl_node *node = g->node[g->n_nodes - 1];
  sl_array array[PARTS + ARGUMENTS + 1];
  sl_call call;
  assert_int_equal(sl_call_arrays(node), PARTS + ARGUMENTS + 1);
  sl_call_describe(g, node, array, &call);
  assert_int_equal(call.n_in, ARGUMENTS);
  for (int a = 0; a < ARGUMENTS; a++) {
    int64_t all = 0;
    assert_int_equal(call.in[a].parts, in_part[a + 1] - in_part[a]);
    for (int p = 0; p < call.in[a].parts; p++) {
      assert_int_equal(call.in[a].part[p].shape.dim[0], rows[in_part[a] + p]);
      all += rows[in_part[a] + p];
    }
    assert_int_equal(call.in[a].shape.dim[0], all);
  }
  assert_true(call.out == array + PARTS + ARGUMENTS);
  assert_int_equal(call.out[0].shape.dim[0], 12);
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
      cmocka_unit_test(samples_are_not_lost),
      cmocka_unit_test(nodes_know_what_they_do),
      cmocka_unit_test(calls_have_arguments_in_parts),
      cmocka_unit_test(tensors_are_shared_by_name),
      cmocka_unit_test(sizes_do_not_wrap),
  };
  return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
