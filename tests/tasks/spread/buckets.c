/* tasks/spread/buckets.c: which sums share an exchange node; the node follows the writers of its partial sums and
 * precedes the readers of its sums. */
#include "tasks/spread/exchange_node.h"
#include "tasks/spread/spread.h"
#include "tests/tasks/toy.h"

enum { LAYERS = 5, BATCH = 12, RANKS = 3 };
static const int64_t width[LAYERS] = {600, 1000, 1000, 40, 3}; /* fc2's and fc3's weights fill a bucket */
static const char *const layers[LAYERS] = {"fc1", "fc2", "fc3", "fc4", "fc5"};

static sl_status first_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}
static const sl_operation same = {.name = "same", .shape = first_shape};

static sl_graph *layered(sl_value *loss, sl_value *second, sl_value *weight, sl_value *gradient) {
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_input(g, 5);
  for (int i = 0; i < LAYERS; i++) {
    char name[32];
    x = toy_layer(g, layers[i], x, width[i]);
    snprintf(name, sizeof name, "%s.weight", layers[i]);
    weight[i] = sl_graph_find(g, name);
  }
  *loss = toy_loss(g, x);
  *second = toy_loss(g, x);
  assert_ok(sl_gradient(g, *loss, weight, LAYERS, gradient));
  g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < LAYERS; i++)
    sl_graph_add1(g, &toy_step, layers[i], NULL, (sl_value[]){weight[i], gradient[i]}, 2);
  assert_ok(sl_graph_status(g));
  return g;
}

static sl_graph *spread_on(const sl_graph *g, int rank, int zero, int micro_batches) {
  sl_plan plan = {.batch = BATCH, .leaves = 6, .shards = 6, .micro_batches = micro_batches, .seed = 1};
  sl_placements *p;
  sl_graph *step;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = zero}, &p));
  assert_ok(sl_spread(g, &plan, &(sl_division){.rank = rank, .ranks = RANKS, .first = (int[]){0, 2, 4, 6}}, p, &step));
  sl_placements_destroy(p);
  return step;
}

static int uses(const sl_value *list, int n, sl_value v) {
  for (int k = 0; k < n; k++)
    if (list[k] == v) return 1;
  return 0;
}

/* Checks that writers of partial sums come before their exchange, and readers of the sum after it. */
static void check_order(const sl_graph *g) {
  int number = 0;
  for (int e = 0; e < g->n_nodes; e++) {
    const sl_node *x = g->node[e];
    if (!x->bucket) continue;
    assert_int_equal(x->bucket, ++number);
    const sl__exchange_attr *attr = x->attr;
    if (attr->move.kind != SL_EXCHANGE_SUM) continue;
    for (int k = 0; k < x->n_in; k++)
      for (int i = 0; i < g->n_nodes; i++) {
        const sl_node *node = g->node[i];
        if (i > e) assert_false(k >= attr->values && uses(node->out, node->n_out, x->in[k]));
        if (i > e) assert_false(node->bucket && uses(node->in, node->n_in, x->in[k]));
        if (i < e && uses(node->in, node->n_in, x->in[k])) /* a sum over two leaves, not a reader of the whole sum */
          assert_true(node->leaf >= 0 && node->accumulate);
      }
  }
  assert_true(number > 0);
}

/* The exchange nodes that sum, with the logical values of each. */
static void sums_share_a_node_until_it_is_full(void **state) {
  (void)state;
  for (int zero = 0; zero < 2; zero++)
    for (int micro = 1; micro <= 2; micro++)
      for (int rank = 0; rank < RANKS; rank++) {
        sl_value loss, second, weight[LAYERS], gradient[LAYERS];
        sl_graph *g = layered(&loss, &second, weight, gradient), *step = spread_on(g, rank, zero, micro);
        /* Losses go alone; fc3 fills the bucket that fc5 began, fc2 a second; the update reads fc1's. */
        const sl_value expected[] = {loss, second, gradient[4], gradient[3], gradient[2], gradient[1], gradient[0]};
        const int sizes[] = {1, 1, 3, 1, 1}, owner[] = {-1, -1, 0, 1, 2};
        int sums = 0, at = 0, held = 0;
        check_order(step);
        for (int i = 0; i < step->n_nodes; i++) {
          const sl__exchange_attr *attr = step->node[i]->attr;
          if (!step->node[i]->bucket || attr->move.kind != SL_EXCHANGE_SUM) continue;
          assert_true(sums < 5);
          assert_int_equal(attr->values, sizes[sums]);
          assert_int_equal(attr->move.rank, zero ? owner[sums] : -1);
          assert_int_equal(attr->move.lossy, sums > 1);
          if (sums == 2) assert_int_equal(step->node[i]->n_out > attr->values, zero);
          held += step->node[i]->n_out - attr->values;
          for (int k = 0; k < attr->values; k++)
            assert_int_equal(step->value[step->node[i]->out[k]]->logical, expected[at++]);
          sums++;
        }
        assert_int_equal(sums, 5);
        assert_int_equal(held, zero ? LAYERS : 0); /* parameters that every rank has read by then */
        sl_graph_destroy(step);
        sl_graph_destroy(g);
      }
}

/* A node of the backward pass that reads a sum ends its bucket; the next sum goes into another. */
static void a_reader_ends_the_bucket(void **state) {
  (void)state;
  for (int rank = 0; rank < RANKS; rank++) {
    sl_graph *g = toy_graph(BATCH);
    sl_value x = toy_input(g, 3);
    g->phase = SL_PHASE_BACKWARD;
    sl_value a = sl_graph_add1(g, &toy_spray, "a", NULL, &x, 1);
    sl_value b = sl_graph_add1(g, &toy_spray, "b", NULL, &x, 1);
    sl_value read = sl_graph_add1(g, &same, "reader", NULL, (sl_value[]){a, b}, 2);
    sl_value c = sl_graph_add1(g, &toy_spray, "c", NULL, &x, 1);
    assert_ok(sl_graph_status(g));
    sl_graph *step = spread_on(g, rank, 0, 1);
    check_order(step);
    int sums = 0;
    for (int i = 0; i < step->n_nodes; i++) {
      const sl_node *node = step->node[i];
      if (node->op == &same) assert_int_equal(sums, 1);
      if (!node->bucket) continue;
      const sl__exchange_attr *attr = node->attr;
      assert_int_equal(attr->values, sums ? 1 : 2);
      assert_int_equal(attr->move.lossy, sums > 0); /* sums that only the update reads may be compressed */
      assert_int_equal(step->value[node->out[0]]->logical, sums ? c : a);
      if (!sums) assert_int_equal(step->value[node->out[1]]->logical, b);
      sums++;
    }
    assert_int_equal(sums, 2);
    assert_true(sl_spread_whole(step, read) != SL_NONE);
    sl_graph_destroy(step);
    sl_graph_destroy(g);
  }
}

/* Sums that only the update reads may be compressed, so they share no bucket with sums that other nodes read. */
static void unlike_sums_share_no_bucket(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_input(g, 3);
  g->phase = SL_PHASE_BACKWARD;
  sl_value a = sl_graph_add1(g, &toy_spray, "a", NULL, &x, 1);
  sl_value b = sl_graph_add1(g, &toy_spray, "b", NULL, &x, 1);
  sl_graph_add1(g, &same, "reader", NULL, &a, 1);
  assert_ok(sl_graph_status(g));
  sl_graph *step = spread_on(g, 0, 0, 1);
  int sums = 0;
  for (int i = 0; i < step->n_nodes; i++) {
    const sl__exchange_attr *attr = step->node[i]->attr;
    if (!step->node[i]->bucket) continue;
    assert_int_equal(attr->values, 1);
    assert_int_equal(attr->move.lossy, sums);
    assert_int_equal(step->value[step->node[i]->out[0]]->logical, sums++ ? b : a);
  }
  assert_int_equal(sums, 2);
  sl_graph_destroy(step);
  sl_graph_destroy(g);
}

/* A parameter is read after the last sum: an exchange without values waits for its readers. */
static void a_late_reader_is_waited_for(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_layer(g, "fc1", toy_input(g, 5), 200000), weight[2], gradient[2]; /* fills a bucket */
  sl_value loss = toy_loss(g, toy_layer(g, "fc2", x, 3));
  weight[0] = sl_graph_find(g, "fc1.weight"), weight[1] = sl_graph_find(g, "fc2.weight");
  assert_ok(sl_gradient(g, loss, weight, 2, gradient));
  g->phase = SL_PHASE_BACKWARD;
  sl_graph_add1(g, &same, "late", NULL, &weight[1], 1);
  g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < 2; i++) sl_graph_add1(g, &toy_step, layers[i], NULL, (sl_value[]){weight[i], gradient[i]}, 2);
  assert_ok(sl_graph_status(g));
  for (int rank = 0; rank < RANKS; rank++) {
    sl_graph *step = spread_on(g, rank, 1, 1);
    int late = 0, waits = 0;
    for (int i = 0; i < step->n_nodes; i++) {
      const sl_node *node = step->node[i];
      const sl__exchange_attr *attr = node->attr;
      late |= node->op == &same;
      if (node->op == &toy_step) assert_int_equal(waits, 1);
      if (!node->bucket || attr->values > 0) continue;
      assert_true(late);
      assert_int_equal(node->n_out, 1);
      assert_int_equal(step->value[node->out[0]]->logical, weight[1]);
      waits++;
    }
    assert_int_equal(waits, 1);
    sl_graph_destroy(step);
  }
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_share_a_node_until_it_is_full),
      cmocka_unit_test(a_reader_ends_the_bucket),
      cmocka_unit_test(unlike_sums_share_no_bucket),
      cmocka_unit_test(a_late_reader_is_waited_for),
  };
  return cmocka_run_group_tests_name("tasks/spread/buckets", tests, NULL, NULL);
}
