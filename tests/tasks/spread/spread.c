/* tasks/spread/spread.c and row_blocks.c: pieces and the order of sums; cutting weights into row blocks changes no bit.
 */
#include "tasks/spread/spread.h"

#include <stdlib.h>
#include <string.h>

#include "tasks/starpu/exchange.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

static sl_plan plan_of(int64_t batch, int leaves, int shards, int row_blocks) {
  sl_plan p = {.batch = batch, .leaves = leaves, .shards = shards, .row_blocks = row_blocks, .seed = 1};
  assert_ok(sl_plan_complete(&p));
  return p;
}

/* The tree of the header, over leaf sums: split at the largest power of two below n. */
static double tree(const double *leaf, int n) {
  if (n == 1) return leaf[0];
  int half = 1;
  while (2 * half < n) half *= 2;
  return tree(leaf, half) + tree(leaf + half, n - half);
}

static float tree32(const float *leaf, int n) {
  if (n == 1) return leaf[0];
  const int half = sl_left_branch(n);
  return tree32(leaf, half) + tree32(leaf + half, n - half);
}

/* The loss of the input itself, with the plan's order of sums, bit for bit. Squares of these samples round in double.
 */
static void sums_follow_the_tree(void **state) {
  (void)state;
  for (int leaves = 1; leaves <= 7; leaves++)
    for (int each = 1; each <= 3; each++) {
      sl_plan plan = plan_of(53, leaves, leaves * each, 1);
      sl_graph *g = toy_graph(53), *step;
      sl_value x = toy_input(g, 3), scaled = sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
      sl_value cubed = sl_graph_add1(g, &toy_square, "square2", NULL, &scaled, 1), loss = toy_loss(g, cubed);
      assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
      execution *e = execution_create(step, NULL);
      execution_run(e, NULL, 0);
      double leaf[7], got = *(double *)e->data[sl_spread_whole(step, loss)];
      for (int s = 0; s < plan.shards; s++) {
        int64_t first, rows;
        sl_plan_shard(&plan, s, &first, &rows);
        double sum = 0;
        for (int64_t i = first; i < first + rows; i++)
          for (int k = 0; k < 3; k++) {
            float y = (float)toy_element(i, k);
            y *= y;
            y *= y;
            sum += 0.5 * (double)y * (double)y;
          }
        leaf[s / each] = s % each ? sum + leaf[s / each] : sum;
      }
      double expected = tree(leaf, leaves);
      if (memcmp(&got, &expected, sizeof got) != 0)
        fail_msg("%d leaves of %d shards: %.17g, not %.17g", leaves, each, got, expected);
      execution_destroy(e);
      sl_graph_destroy(step);
      sl_graph_destroy(g);
    }
}

/* A sum of LEAF scope stays within its leaf. */
static void leaf_values_stay_in_their_leaf(void **state) {
  (void)state;
  sl_plan plan = plan_of(20, 2, 4, 1);
  sl_graph *g = toy_graph(20), *step;
  sl_value x = toy_input(g, 2), sum = sl_graph_add1(g, &toy_leafsum, "sum", NULL, &x, 1);
  sl_value y = sl_graph_add1(g, &toy_leafscale, "scale", NULL, (sl_value[]){x, sum}, 2);
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  execution *e = execution_create(step, NULL);
  execution_run(e, NULL, 0);
  double expected[2] = {0, 0};
  for (int i = 0; i < 20; i++)
    for (int k = 0; k < 2; k++) expected[i / 10] += 0.5 * toy_element(i, k) * toy_element(i, k);
  int seen = 0;
  for (sl_value v = 0; v < step->n_values; v++) {
    const sl_value_info *info = step->value[v];
    if (info->logical != y) continue;
    for (int64_t i = 0; i < info->shape.dim[0]; i++)
      for (int k = 0; k < 2; k++, seen++) {
        float want = (float)toy_element(info->row0 + i, k) * (float)expected[info->leaf];
        assert_true(((float *)e->data[v])[i * 2 + k] == want);
      }
  }
  assert_int_equal(seen, 40);
  for (int i = 0; i < step->n_nodes; i++) {
    int64_t row0, rows = plan.batch;
    if (step->node[i]->leaf >= 0) sl_plan_leaf(&plan, step->node[i]->leaf, &row0, &rows);
    assert_int_equal(step->node[i]->leaf_rows, rows);
    assert_int_equal(step->node[i]->batch_rows, plan.batch);
  }
  execution_destroy(e);
  sl_graph_destroy(step);
  sl_graph_destroy(g);
}

static sl_graph *network_of(const sl_plan *plan, int deep, sl_value *loss) {
  return deep ? toy_deep_training(plan->batch, 8, loss) : toy_training(plan->batch, loss);
}

/* All parameters after one step, in one array. */
static size_t train(const sl_plan *plan, int deep, float *to) {
  sl_value loss;
  sl_graph *g = network_of(plan, deep, &loss), *step;
  assert_ok(sl_spread(g, plan, NULL, NULL, &step));
  execution *e = execution_create(step, NULL);
  execution_run(e, NULL, 0);
  size_t n = 0;
  for (sl_value v = 0; v < step->n_values; v++)
    if (step->value[v]->role == SL_ROLE_PARAMETER) {
      memcpy(to + n, e->data[v], sl_value_bytes(step->value[v]));
      n += (size_t)sl_shape_count(&step->value[v]->shape);
    }
  execution_destroy(e);
  sl_graph_destroy(step);
  sl_graph_destroy(g);
  return n;
}

static void row_blocks_change_no_bit(void **state) {
  (void)state;
  static float whole[1024], cut[1024];
  for (int leaves = 1; leaves <= 3; leaves++) {
    sl_plan plan = plan_of(24, leaves, 2 * leaves, 1);
    size_t n = train(&plan, 0, whole);
    assert_int_equal(n, 64 * 5 + 3 * 64);
    plan.row_blocks = 2; /* cuts fc1 (64 rows); fc2 has 3 rows and stays whole */
    assert_int_equal(train(&plan, 0, cut), n);
    assert_memory_equal(whole, cut, n * sizeof(float));
  }
  sl_value loss;
  sl_graph *g = toy_training(24, &loss);
  sl_plan plan = plan_of(24, 1, 2, 2);
  int *blocks = calloc((size_t)g->n_values, sizeof *blocks);
  assert_ok(sl_row_blocks(g, &plan, blocks));
  assert_int_equal(blocks[sl_graph_find(g, "fc1.weight")], 2);
  assert_int_equal(blocks[sl_graph_find(g, "fc2.weight")], 1);
  free(blocks);
  sl_graph_destroy(g);
}

/* Copies the parameters of all ranks' graphs, in the order of the logical graph, and checks that each rank has them
 * unless one alone keeps them (stage 3). Returns the number of elements. */
static size_t parameters_of(execution **e, sl_graph **step, int ranks, int stage, const sl_graph *g, float *to) {
  size_t n = 0;
  for (sl_value logical = 0; logical < g->n_values; logical++) {
    if (g->value[logical]->role != SL_ROLE_PARAMETER) continue;
    const size_t count = (size_t)sl_shape_count(&g->value[logical]->shape);
    int found = 0;
    for (int r = 0; r < ranks; r++) {
      size_t at = 0;
      for (sl_value v = 0; v < step[r]->n_values; v++) {
        const sl_value_info *info = step[r]->value[v];
        if (info->logical != logical || info->role != SL_ROLE_PARAMETER) continue;
        if (found) assert_memory_equal(to + n + at, e[r]->data[v], sl_value_bytes(info));
        memcpy(to + n + at, e[r]->data[v], sl_value_bytes(info));
        at += (size_t)sl_shape_count(&info->shape);
      }
      assert_true(at == 0 || at == count);
      found += at > 0;
    }
    assert_int_equal(found, stage == 3 ? 1 : ranks);
    n += count;
  }
  return n;
}

/* Each fetch makes pieces of its own on the ranks that lack the parameter, and begins after a task that uses the fetch
 * before the last one. */
static void check_fetches(const sl_graph *g, const sl_graph *step, int window) {
  int fetches = 0, pieces = 0, parameters = 0;
  for (sl_value v = 0; v < g->n_values; v++) parameters += g->value[v]->role == SL_ROLE_PARAMETER;
  for (sl_value v = 0; v < step->n_values; v++) {
    const sl_value_info *info = step->value[v];
    pieces += g->value[info->logical]->role == SL_ROLE_PARAMETER && info->role == SL_ROLE_TEMPORARY && info->block <= 0;
  }
  for (int i = 0; i < step->n_nodes; i++) {
    const sl_node *node = step->node[i];
    if (!node->bucket || ((const sl__exchange_attr *)node->attr)->move.kind != SL_EXCHANGE_COPY) continue;
    fetches++;
    assert_int_equal(node->after != SL_NONE, fetches > 1); /* the first two parameters come together */
    if (node->after == SL_NONE) continue;
    const int producer = step->value[node->after]->producer;
    assert_in_range(producer, 0, i - 1);
    int uses = 0; /* the task reads an earlier fetch */
    for (int k = 0; k < step->node[producer]->n_in; k++)
      uses |= g->value[step->value[step->node[producer]->in[k]]->logical]->role == SL_ROLE_PARAMETER;
    assert_true(uses);
  }
  assert_int_equal(fetches, parameters - 1 + 2 * window); /* two of them are fetched again */
  assert_true(pieces == 0 || pieces == parameters + 2 * window);
}

/* Each rank's step graph has only its own leaves. Afterwards the parameters are those of a run on one rank, whether
 * each rank updates all parameters or only its own, keeps all or only its own, and fetches the others once or twice. */
static void ranks_change_no_bit(void **state) {
  (void)state;
  static float whole[1024], mine[1024];
  for (int leaves = 2; leaves <= 7; leaves++)
    for (int ranks = 2; ranks <= leaves; ranks++)
      for (int way = 0; way < 12; way++) {
        static const int stages[] = {0, 1, 2, 3, 3, 3};
        const int row_blocks = 1 + way % 2, stage = stages[way / 2], deep = way >= 8;
        sl_plan plan = plan_of(28, leaves, 2 * leaves, row_blocks);
        const size_t n = train(&plan, deep, whole);
        sl_value loss;
        sl_graph *g = network_of(&plan, deep, &loss), *step[8];
        execution *e[8];
        sl_leaves leaf[8];
        int first[9] = {0};
        for (int r = 0; r < ranks; r++) {
          leaf[r] = sl_leaves_of_rank(leaves, r, ranks);
          first[r + 1] = leaf[r].first + leaf[r].n;
        }
        for (int r = 0; r < ranks; r++) {
          sl_placements *placements;
          assert_ok(sl_placements_create(g, &(sl_placing){.ranks = ranks, .zero = stage, .window = way < 10 ? 0 : 1},
                                         &placements));
          assert_ok(
              sl_spread(g, &plan, &(sl_division){.rank = r, .ranks = ranks, .first = first}, placements, &step[r]));
          e[r] = execution_create(step[r], NULL);
          sl_placements_destroy(placements);
        }
        execution_run_ranks(e, leaf, ranks, leaves);
        assert_int_equal(parameters_of(e, step, ranks, stage, g, mine), n);
        assert_memory_equal(whole, mine, n * sizeof(float));
        for (int r = 0; r < ranks && deep; r++) check_fetches(g, step[r], way >= 10);
        for (int r = 0; r < ranks; r++) assert_true(sl_spread_whole(step[r], loss) != SL_NONE);
        for (int r = 0; r < ranks; r++) execution_destroy(e[r]), sl_graph_destroy(step[r]);
        sl_graph_destroy(g);
      }
}

/* The table after a step: sums over leaves first (if both), then gathered samples, in the batch's order. */
static void table_of(const sl_plan *plan, int both, float *table) {
  float leaf[8][TOY_TABLE], sums[8];
  memset(leaf, 0, sizeof leaf);
  for (int64_t i = 0; i < plan->batch; i++)
    for (int k = 0; k < 3; k++)
      leaf[i / (plan->batch / plan->leaves)][(7 * i + 3 * k) % 31] += (float)toy_element(i, k);
  for (int t = 0; t < TOY_TABLE; t++) {
    for (int l = 0; l < plan->leaves; l++) sums[l] = leaf[l][t];
    table[t] = both ? tree32(sums, plan->leaves) : 0;
  }
  for (int64_t i = 0; i < plan->batch; i++)
    for (int k = 0; k < 3; k++) {
      const float x = (float)toy_element(i, k);
      table[(7 * i + 3 * k) % 31] += x * x;
    }
}

/* Gathering nodes add to the whole sum, shard by shard, whichever rank has the shards. */
static void gathered_sums(void **state) {
  (void)state;
  float want[TOY_TABLE];
  for (int way = 0; way < 12; way++)
    for (int ranks = 1; ranks <= 4; ranks++) {
      static const int stages[] = {0, 1, 3};
      const int both = way & 1, zero = stages[way / 2 % 3], micro = 1 + way / 6;
      sl_plan plan = plan_of(32, 8, 16, 1);
      plan.micro_batches = micro;
      sl_graph *g = toy_graph(plan.batch), *step[4];
      g->phase = SL_PHASE_FORWARD;
      sl_value x = toy_input(g, 3), W;
      sl_value squared = sl_graph_add1(g, &toy_square, "square", NULL, &x, 1);
      W = sl_graph_tensor(g, SL_ROLE_PARAMETER, "table", "weight", SL_F32, SL_SHAPE(TOY_TABLE), (sl_init){0});
      g->phase = SL_PHASE_BACKWARD;
      sl_value sum = sl_graph_add1(g, both ? &toy_spray : &toy_gather, "head", NULL, both ? &x : &squared, 1);
      if (both)
        sl_graph_push_node(g, &(sl_node){.op = &toy_gather,
                                         .name = "table",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .n_arg = 1,
                                         .in = &squared,
                                         .out = &sum,
                                         .phase = SL_PHASE_BACKWARD,
                                         .accumulate = 1,
                                         .after = SL_NONE});
      g->phase = SL_PHASE_UPDATE;
      sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){W, sum}, 2);
      assert_ok(sl_graph_status(g));
      table_of(&plan, both, want);
      execution *e[4];
      sl_leaves leaf[4];
      int first[5] = {0};
      for (int r = 0; r < ranks; r++) {
        leaf[r] = sl_leaves_of_rank(plan.leaves, r, ranks);
        first[r + 1] = leaf[r].first + leaf[r].n;
      }
      for (int r = 0; r < ranks; r++) {
        sl_placements *placements;
        int early = 0, gathering = 0;
        assert_ok(sl_placements_create(g, &(sl_placing){.ranks = ranks, .zero = zero}, &placements));
        assert_ok(sl_spread(g, &plan, ranks > 1 ? &(sl_division){.rank = r, .ranks = ranks, .first = first} : NULL,
                            placements, &step[r]));
        for (int i = 0; i < step[r]->n_nodes; i++) {
          const sl_node *node = step[r]->node[i];
          if (node->bucket && ((const sl__exchange_attr *)node->attr)->move.kind == SL_EXCHANGE_SUM) early = 1;
          if (node->op == &toy_gather)
            assert_true(early == (both && ranks > 1)); /* the other use was exchanged earlier */
          gathering += node->op == &toy_gather;
        }
        assert_int_equal(gathering, sl_placement_elsewhere(placements->value[sum], r) ? 0 : plan.shards);
        e[r] = execution_create(step[r], NULL);
        sl_placements_destroy(placements);
      }
      execution_run_ranks(e, leaf, ranks, plan.leaves);
      for (int r = 0; r < ranks; r++) {
        for (sl_value v = 0; v < step[r]->n_values; v++)
          if (step[r]->value[v]->role == SL_ROLE_PARAMETER)
            for (int t = 0; t < TOY_TABLE; t++) assert_true(((float *)e[r]->data[v])[t] == -0.125f * want[t]);
        execution_destroy(e[r]), sl_graph_destroy(step[r]);
      }
      sl_graph_destroy(g);
    }
}

static void leaves_are_checked(void **state) {
  (void)state;
  sl_graph *g = toy_graph(24), *step;
  toy_loss(g, toy_input(g, 2));
  sl_plan plan = plan_of(24, 4, 4, 1);
  sl_division d = {.rank = 1, .ranks = 2, .first = (int[]){0, 2, 5}};
  assert_fails(SL_EINVAL, "leaves 0 to 4, but the plan has 4", sl_spread(g, &plan, &d, NULL, &step));
  d.first = (int[]){0, 4, 4};
  assert_fails(SL_EINVAL, "rank 1 of 2 has none", sl_spread(g, &plan, &d, NULL, &step));
  plan.micro_batches = 2;
  d.first = (int[]){0, 3, 4};
  assert_fails(SL_EINVAL, "2 micro-batches on a rank with only 1", sl_spread(g, &plan, &d, NULL, &step));
  sl_graph_destroy(g);
}

static void batches_must_agree(void **state) {
  (void)state;
  sl_graph *g = toy_graph(20), *step;
  toy_input(g, 2);
  sl_plan plan = plan_of(24, 1, 1, 1);
  assert_fails(SL_EINVAL, "batch of 20 samples, but the plan 24", sl_spread(g, &plan, NULL, NULL, &step));
  assert_null(step);
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_follow_the_tree),
      cmocka_unit_test(leaf_values_stay_in_their_leaf),
      cmocka_unit_test(row_blocks_change_no_bit),
      cmocka_unit_test(ranks_change_no_bit),
      cmocka_unit_test(gathered_sums),
      cmocka_unit_test(leaves_are_checked),
      cmocka_unit_test(batches_must_agree),
  };
  return cmocka_run_group_tests_name("tasks/spread/spread", tests, NULL, NULL);
}
