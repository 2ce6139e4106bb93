/* tasks/graph/fold_sums.c: sums over folds by parts of the positions have the bits of the tree that they replace, for
 * all numbers of folds and ranks; each rank adds up one part; other sums stay as they are. tests/ranks/tensor.sh
 * compares the bits of ranks. */
#include "tasks/graph/fold_sums.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/codelets.h"
#include "runtime/numbers/hash.h"
#include "tasks/graph/folds.h"
#include "tasks/spread/spread.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

enum { BATCH = 3, POSITIONS = 11, WIDTH = 5 };

/* An addend that depends on its number: [B, POSITIONS, WIDTH]. */
static sl_status addend_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)in, (void)n_in, (void)n_out;
  out[0].scope = SL_SCOPE_SAMPLE;
  out[0].shape = SL_SHAPE(BATCH, POSITIONS, WIDTH);
  return SL_OK;
}
static sl_status run_addend(const sl_call *c) {
  float *y = c->out[0].data;
  for (int64_t i = 0; i < c->rows * POSITIONS * WIDTH; i++)
    y[i] = (float)sl_hash32_number(*(const uint32_t *)c->attr, (uint64_t)(c->row0 * POSITIONS * WIDTH + i)) / 3.0f;
  return SL_OK;
}
static const sl_operation addend = {
    .name = "addend", .attr_bytes = sizeof(uint32_t), .shape = addend_shape, .cpu = {run_addend}};

/* A sum over so many folds, and what two readers make of it. read_inside: another node reads the sum of the first
 * folds. */
static sl_graph *summed(int folds, int read_inside, sl_value *sum) {
  sl_graph *g = sl_graph_create(BATCH, &toy_copy, &toy_add, NULL);
  sl_value part[SL_MAX_FOLDS];
  assert_non_null(g);
  g->part = &sl_op_sequence_part, g->join = &sl_op_sequence_join;
  g->folds = g->fold.to = folds;
  for (int f = 0; f < folds; f++) {
    const uint32_t number = (uint32_t)f + 1;
    g->fold = (sl_run){f, f + 1};
    part[f] = sl_graph_add1(g, &addend, "product", &number, NULL, 0);
  }
  g->fold = (sl_run){0, folds};
  *sum = sl_fold_sum(g, "sum", part, 0, folds);
  const sl_value inside = g->node[g->value[*sum]->producer]->in[0];
  sl_graph_add1(g, &toy_total, "total", NULL, sum, 1);
  if (read_inside) sl_graph_add1(g, &toy_total, "inside", NULL, &inside, 1);
  assert_ok(sl_graph_status(g));
  return g;
}

static int count(const sl_graph *g, const sl_operation *op) {
  int n = 0;
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->op == op;
  return n;
}

static void run(const sl_graph *g, sl_value sum, float *to) {
  sl_plan plan = {.batch = BATCH, .leaves = 1, .shards = 1, .seed = 1};
  sl_graph *step;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  execution *e = execution_create(step, NULL);
  execution_run(e, NULL, 0);
  int found = 0;
  for (sl_value v = 0; v < step->n_values; v++)
    if (step->value[v]->logical == sum && step->value[v]->role == SL_ROLE_TEMPORARY) {
      assert_int_equal(sl_value_bytes(step->value[v]), BATCH * POSITIONS * WIDTH * sizeof(float));
      memcpy(to, e->data[v], sl_value_bytes(step->value[v]));
      found++;
    }
  assert_int_equal(found, 1);
  execution_destroy(e);
  sl_graph_destroy(step);
}

static void has_the_bits_of_the_tree(void **state) {
  (void)state;
  for (int folds = 3; folds <= 9; folds++)
    for (int ranks = 3; ranks <= folds; ranks++) {
      static float tree[BATCH * POSITIONS * WIDTH], parts[BATCH * POSITIONS * WIDTH];
      sl_value sum;
      sl_graph *g = summed(folds, 0, &sum);
      run(g, sum, tree);
      assert_ok(sl_fold_sums_divide(g, ranks, 1));
      run(g, sum, parts);
      assert_memory_equal(tree, parts, sizeof tree);
      assert_int_equal(count(g, &sl_op_sequence_join), 1);
      sl_graph_destroy(g);
    }
}

/* What ranks have of the folds [from, to): runs of one rank that the tree joins. */
static int runs_of(int folds, int ranks, int from, int to) {
  for (int r = 0; r < ranks; r++)
    if (sl_first_fold(folds, ranks, r) <= from && to <= sl_first_fold(folds, ranks, r + 1)) return 1;
  const int middle = from + sl_left_branch(to - from);
  return runs_of(folds, ranks, from, middle) + runs_of(folds, ranks, middle, to);
}

/* Every addition of parts belongs to one rank; additions of whole values to the folds of one. */
static void each_rank_adds_its_part(void **state) {
  (void)state;
  for (int folds = 3; folds <= 9; folds++)
    for (int ranks = 3; ranks <= folds; ranks++) {
      sl_value sum;
      sl_graph *g = summed(folds, 0, &sum);
      const int addends = runs_of(folds, ranks, 0, folds);
      int adds[SL_MAX_FOLDS] = {0}, local = 0;
      assert_ok(sl_fold_sums_divide(g, ranks, 1));
      const sl_node *join = g->node[g->value[sum]->producer];
      assert_int_equal(join->n_in, ranks);
      for (int i = 0; i < g->n_nodes; i++) {
        const sl_node *node = g->node[i];
        assert_int_equal(node->logical, i);
        for (int k = 0; k < node->n_in; k++) assert_true(g->value[node->in[k]]->producer < i);
        int rank = 0;
        while (sl_first_fold(folds, ranks, rank + 1) <= node->fold.from) rank++;
        if (node->op != &toy_add) continue;
        assert_true(node->fold.to <= sl_first_fold(folds, ranks, rank + 1)); /* all its folds are this rank's */
        const int64_t positions = g->value[node->out[0]]->shape.dim[1];
        local += positions == POSITIONS;
        adds[rank] += positions < POSITIONS;
        if (positions == POSITIONS) continue;
        assert_int_equal(positions, POSITIONS * (rank + 1) / ranks - POSITIONS * rank / ranks);
        assert_int_equal(node->fold.to - node->fold.from, 1);
      }
      assert_int_equal(local, folds - addends);
      for (int rank = 0; rank < ranks; rank++) assert_int_equal(adds[rank], addends - 1);
      assert_int_equal(count(g, &sl_op_sequence_part), addends * ranks);
      sl_graph_destroy(g);
    }
}

static void leaves_others_alone(void **state) {
  (void)state;
  sl_value sum;
  for (int way = 0; way < 4; way++) {
    sl_graph *g = summed(6, 0, &sum);
    const int nodes = g->n_nodes;
    if (way == 3) g->join = NULL;
    /* two ranks; a larger sample than there is; more ranks than positions */
    assert_ok(sl_fold_sums_divide(g, way == 0 ? 2 : 3, way == 1 ? POSITIONS * WIDTH + 1 : 1));
    if (way == 2) assert_int_equal(count(g, &sl_op_sequence_join), 1);
    if (way != 2) assert_int_equal(g->n_nodes, nodes);
    sl_graph_destroy(g);
  }
  sl_graph *g = summed(POSITIONS + 1, 0, &sum);
  const int nodes = g->n_nodes;
  assert_ok(sl_fold_sums_divide(g, POSITIONS + 1, 1));
  assert_int_equal(g->n_nodes, nodes);
  sl_graph_destroy(g);
}

/* A sum of some folds that another node reads stays whole: it is an addend. */
static void keeps_what_others_read(void **state) {
  (void)state;
  static float tree[BATCH * POSITIONS * WIDTH], parts[BATCH * POSITIONS * WIDTH];
  sl_value sum;
  sl_graph *g = summed(6, 1, &sum);
  run(g, sum, tree);
  const sl_value inside = g->node[g->value[sum]->producer]->in[0];
  assert_ok(sl_fold_sums_divide(g, 6, 1));
  assert_int_equal(g->value[inside]->shape.dim[1], POSITIONS);
  assert_int_equal(count(g, &sl_op_sequence_part), 18); /* of three addends: the first four folds, then two more */
  run(g, sum, parts);
  assert_memory_equal(tree, parts, sizeof tree);
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_the_bits_of_the_tree),
      cmocka_unit_test(each_rank_adds_its_part),
      cmocka_unit_test(leaves_others_alone),
      cmocka_unit_test(keeps_what_others_read),
  };
  return cmocka_run_group_tests_name("fold_sums", tests, NULL, NULL);
}
