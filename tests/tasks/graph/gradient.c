/* tasks/graph/gradient.c: the nodes that are added, sums over several uses, and errors. The operations' tests check the
 * numbers against finite differences. */
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
  assert_int_equal(count(g, &toy_dx), 1); /* the input of the first layer needs no gradient */
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

/* Other nodes also read gradients of samples, so nodes add them up. */
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

/* No weight's gradient is added to another weight's sum; each has its own value. */
static void kept_apart(const sl_graph *g, const sl_value *gradient, int n) {
  for (int i = 0; i < g->n_nodes; i++) assert_int_equal(g->node[i]->accumulate, 0);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < a; b++) assert_int_not_equal(gradient[a], gradient[b]);
}

/* The sum of two weights is used, and the first weight alone too, later or earlier. The sum's gradient is also the
 * second weight's gradient, so the first weight's other use must not be added to its buffer. */
static void a_shared_sum_stays_as_it_is(void **state) {
  (void)state;
  for (int later = 0; later < 2; later++) {
    sl_graph *g = toy_graph(12);
    sl_value x = toy_input(g, 6), w[2], gradient[2];
    for (int k = 0; k < 2; k++)
      w[k] = sl_graph_tensor(g, SL_ROLE_PARAMETER, k ? "second" : "first", "weight", SL_F32, SL_SHAPE(6, 6),
                             (sl_init){.kind = SL_INIT_UNIFORM, .a = 0.5});
    if (!later) x = sl_graph_add1(g, &toy_matmul, "alone", NULL, (sl_value[]){x, w[0]}, 2);
    const sl_value sum = toy_sum(g, w[0], w[1]);
    x = sl_graph_add1(g, &toy_matmul, "both", NULL, (sl_value[]){x, sum}, 2);
    if (later) x = sl_graph_add1(g, &toy_matmul, "alone", NULL, (sl_value[]){x, w[0]}, 2);
    assert_ok(sl_gradient(g, toy_loss(g, x), w, 2, gradient));
    kept_apart(g, gradient, 2);
    assert_int_equal(count(g, &toy_add), 1 + 1); /* of weights, and of gradients */
    assert_ptr_equal(g->node[g->value[gradient[1]]->producer]->op, &toy_dw);
    sl_graph_destroy(g);
  }
}

/* An operation whose dx reads its dW. */
static void reads_gradient(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  const sl_value dw = sl_graph_add1(g, &toy_dw, node->name, NULL, (sl_value[]){dout[0], node->in[0]}, 2);
  if (need[0]) din[0] = sl_graph_add1(g, &toy_dx, node->name, NULL, (sl_value[]){dout[0], dw}, 2);
  if (need[1]) din[1] = dw;
}

static void a_sum_that_was_read_stays_as_it_is(void **state) {
  (void)state;
  sl_operation op = toy_matmul;
  op.gradient = reads_gradient;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_layer(g, "before", toy_input(g, 6), 6), gradient[2];
  const sl_value w[2] = {sl_graph_tensor(g, SL_ROLE_PARAMETER, "w", "weight", SL_F32, SL_SHAPE(6, 6), (sl_init){0}),
                         sl_graph_find(g, "before.weight")};
  for (int k = 0; k < 2; k++) x = sl_graph_add1(g, &op, "reads", NULL, (sl_value[]){x, w[0]}, 2);
  assert_ok(sl_gradient(g, toy_loss(g, x), w, 2, gradient));
  kept_apart(g, gradient, 2);
  assert_int_equal(count(g, &toy_add), 1);
  sl_graph_destroy(g);
}

static void passes_on(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  (void)g, (void)node;
  if (need[0]) din[0] = dout[0];
}

/* A weight and a value computed from it share a gradient. The weight's other use adds to the weight's gradient, and
 * leaves the value's unchanged. */
static void a_gradient_that_is_asked_for_stays_as_it_is(void **state) {
  (void)state;
  sl_operation same = toy_copy;
  same.gradient = passes_on;
  sl_graph *g = toy_graph(12);
  sl_value x = toy_input(g, 6), w[2], gradient[2];
  w[0] = sl_graph_tensor(g, SL_ROLE_PARAMETER, "w", "weight", SL_F32, SL_SHAPE(6, 6), (sl_init){0});
  w[1] = sl_graph_add1(g, &same, "same", NULL, &w[0], 1);
  x = sl_graph_add1(g, &toy_matmul, "made", NULL, (sl_value[]){x, w[1]}, 2);
  x = sl_graph_add1(g, &toy_matmul, "alone", NULL, (sl_value[]){x, w[0]}, 2);
  assert_ok(sl_gradient(g, toy_loss(g, x), w, 2, gradient));
  kept_apart(g, gradient, 2);
  const sl_node *maker = g->node[g->value[gradient[1]]->producer];
  assert_ptr_equal(maker->op, &toy_dw);
  assert_int_equal(maker->out[0], gradient[1]);
  sl_graph_destroy(g);
}

static void the_phase_comes_back(void **state) {
  (void)state;
  sl_graph *g = toy_graph(12);
  sl_value loss = toy_loss(g, toy_layer(g, "fc", toy_input(g, 6), 3)), w = sl_graph_find(g, "fc.weight"), gradient;
  g->phase = SL_PHASE_UPDATE;
  assert_ok(sl_gradient(g, loss, &w, 1, &gradient));
  assert_int_equal(g->phase, SL_PHASE_UPDATE);
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(skips_what_nobody_needs),
      cmocka_unit_test(uses_add_up),
      cmocka_unit_test(gradients_of_samples_are_added),
      cmocka_unit_test(a_shared_sum_stays_as_it_is),
      cmocka_unit_test(a_sum_that_was_read_stays_as_it_is),
      cmocka_unit_test(a_gradient_that_is_asked_for_stays_as_it_is),
      cmocka_unit_test(the_phase_comes_back),
      cmocka_unit_test(unreached_parameters_are_named),
  };
  return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
