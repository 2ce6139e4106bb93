/* tasks/graph/gradient.c: which nodes are added, that uses add up, and the errors. Whether the numbers are right is
 * tested with the operations, against finite differences. */
#include "tasks/graph/gradient.h"

#include "tests/tasks/toy.h"

static int count(const sl_graph *g, const sl_operation *op) {
  int n = 0;
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->op == op;
  return n;
}

static void skips_what_nobody_needs(void **state) {
  (void)state;
  sl_value loss;
  sl_graph *g = toy_training(12, &loss);
  assert_int_equal(count(g, &toy_dw), 2);
  assert_int_equal(count(g, &toy_dx), 1); /* the input of the first layer needs none */
  assert_int_equal(count(g, &toy_dsquare), 1);
  assert_int_equal(count(g, &toy_add), 0);
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->op == &toy_dw) assert_int_equal(g->node[i]->phase, SL_PHASE_BACKWARD);
  sl_graph_destroy(g);
}

/* Two uses of one weight: two sums in one buffer, the later use first. */
static void uses_add_up(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_layer(g, "fc1", toy_input(g, 6), 6);
  sl_value branch = sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
  sl_value y = toy_layer(g, "fc1", branch, 6); /* the same weight again */
  sl_value loss = toy_loss(g, y), w = sl_graph_find(g, "fc1.weight"), gradient;
  assert_ok(sl_gradient(g, loss, &w, 1, &gradient));
  assert_int_equal(count(g, &toy_dw), 2);
  assert_int_equal(count(g, &toy_add), 0);
  int writers = 0;
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->op == &toy_dw) {
      assert_int_equal(g->node[i]->out[0], gradient);
      assert_int_equal(g->node[i]->accumulate, writers++ > 0);
    }
  assert_int_equal(writers, 2);
  assert_true(sl_shape_equal(&sl_graph_value(g, gradient)->shape, &sl_graph_value(g, w)->shape));
  assert_int_equal(sl_graph_value(g, gradient)->scope, SL_SCOPE_WHOLE);
  sl_graph_destroy(g);
}

/* Gradients of samples are read by others too: they are added up by nodes. */
static void gradients_of_samples_are_added(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_layer(g, "fc1", toy_input(g, 6), 6);
  sl_value y = toy_sum(g, sl_graph_add1(g, &toy_square, "square", NULL, &x, 1), toy_layer(g, "fc2", x, 6));
  sl_value w = sl_graph_find(g, "fc1.weight"), gradient;
  assert_ok(sl_gradient(g, toy_loss(g, y), &w, 1, &gradient));
  assert_int_equal(count(g, &toy_add), 1 + 1);
  sl_graph_destroy(g);
}

static void unreached_parameters_are_named(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_input(g, 6);
  toy_layer(g, "lost", x, 3);
  sl_value loss = toy_loss(g, toy_layer(g, "fc", x, 3));
  sl_value w = sl_graph_find(g, "lost.weight"), gradient;
  assert_fails(SL_EINVAL, "'lost.weight' has no gradient", sl_gradient(g, loss, &w, 1, &gradient));
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(skips_what_nobody_needs),
      cmocka_unit_test(uses_add_up),
      cmocka_unit_test(gradients_of_samples_are_added),
      cmocka_unit_test(unreached_parameters_are_named),
  };
  return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
