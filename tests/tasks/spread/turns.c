/* tasks/spread/turns.c: tasks come in the turn of their leaf, or earlier if an earlier turn waits for them; the sorted
 * graph is still in an order of execution. */
#include "tasks/spread/spread.h"
#include "tests/tasks/toy.h"

enum { BATCH = 24, LEAVES = 8 };

static sl_status first_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}
static const sl_operation same = {.name = "same", .shape = first_shape};

static sl_graph *spread_in(const sl_graph *g, int micro_batches) {
  sl_plan plan = {.batch = BATCH, .leaves = LEAVES, .shards = LEAVES, .micro_batches = micro_batches, .seed = 1};
  sl_graph *step;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  assert_int_equal(step->turns, micro_batches);
  return step;
}

/* Checks that nodes are sorted by turn, read only values written earlier, and that a value's producer is its first
 * writer. */
static void check_order(const sl_graph *g) {
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (i > 0) assert_true(g->node[i - 1]->micro_batch <= node->micro_batch);
    for (int k = 0; k < node->n_in; k++)
      if (g->value[node->in[k]]->role == SL_ROLE_TEMPORARY) assert_in_range(g->value[node->in[k]]->producer, 0, i - 1);
    for (int k = 0; k < node->n_out; k++)
      if (g->value[node->out[k]]->role == SL_ROLE_TEMPORARY) assert_in_range(g->value[node->out[k]]->producer, 0, i);
  }
}

static void leaves_take_turns(void **state) {
  (void)state;
  for (int turns = 1; turns <= LEAVES; turns *= 2) {
    sl_value loss;
    sl_graph *g = toy_training(BATCH, &loss), *step = spread_in(g, turns);
    check_order(step);
    for (int i = 0; i < step->n_nodes; i++) {
      const sl_node *node = step->node[i];
      assert_int_equal(node->micro_batch, node->leaf >= 0 ? node->leaf * turns / LEAVES : turns - 1);
    }
    sl_graph_destroy(step);
    sl_graph_destroy(g);
  }
}

/* A sum that the first turn's samples read must be complete by then: all its tasks have turn 0. */
static void what_a_turn_waits_for_comes_first(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_input(g, 3), sum = toy_loss(g, x);
  sl_value scaled = sl_graph_add1(g, &same, "scaled", NULL, (sl_value[]){x, sum}, 2);
  assert_ok(sl_graph_status(g));
  sl_graph *step = spread_in(g, 4);
  check_order(step);
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i];
    if (step->value[node->out[0]]->logical == scaled)
      assert_int_equal(node->micro_batch, node->leaf * 4 / LEAVES);
    else
      assert_int_equal(node->micro_batch, 0);
  }
  sl_graph_destroy(step);
  sl_graph_destroy(g);
}

/* A rank's turns are those of its own leaves. */
static void each_rank_begins_with_its_first_leaf(void **state) {
  (void)state;
  sl_value loss;
  sl_graph *g = toy_training(BATCH, &loss), *step;
  sl_plan plan = {.batch = BATCH, .leaves = LEAVES, .shards = LEAVES, .micro_batches = 2, .seed = 1};
  const int first[] = {0, 4, LEAVES};
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, &(sl_division){.rank = 1, .ranks = 2, .first = first}, NULL, &step));
  int seen = 0;
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i];
    if (node->shard < 0) continue;
    assert_int_equal(node->micro_batch, (node->leaf - 4) / 2);
    seen++;
  }
  assert_true(seen > 0);
  sl_graph_destroy(step);
  sl_graph_destroy(g);
}

/* A value that the first turn overwrites is read earlier. */
static void what_is_overwritten_is_read_before(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  const sl_shape shape = SL_SHAPE(4);
  const sl_value x = toy_input(g, 3),
                 old = sl_graph_tensor(g, SL_ROLE_STATE, "old", "s", SL_F32, shape, (sl_init){SL_INIT_CONSTANT, 1}),
                 by = sl_graph_tensor(g, SL_ROLE_STATE, "by", "s", SL_F32, shape, (sl_init){SL_INIT_CONSTANT, 1});
  const sl_value kept = sl_graph_add1(g, &toy_copy, "kept", NULL, &old, 1);
  sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){old, by}, 2);
  sl_graph_add1(g, &same, "reads", NULL, (sl_value[]){x, old}, 2);
  assert_ok(sl_graph_status(g));
  sl_graph *step = spread_in(g, 4);
  int copied = -1, updated = -1;
  for (int i = 0; i < step->n_nodes; i++) {
    if (step->value[step->node[i]->out[0]]->logical == kept) copied = i;
    if (step->node[i]->op == &toy_step) updated = i;
  }
  assert_true(copied >= 0 && copied < updated);
  assert_int_equal(step->node[updated]->micro_batch, 0);
  sl_graph_destroy(step);
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_take_turns),
      cmocka_unit_test(what_a_turn_waits_for_comes_first),
      cmocka_unit_test(each_rank_begins_with_its_first_leaf),
      cmocka_unit_test(what_is_overwritten_is_read_before),
  };
  return cmocka_run_group_tests_name("tasks/spread/turns", tests, NULL, NULL);
}
