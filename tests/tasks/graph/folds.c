/* tasks/graph/folds.c: stretches between two products are written once for every fold; the trees that add the folds up;
 * parts of parameters; the same numbers as without folds, up to rounding. tests/ranks/tensor.sh compares the bits of
 * ranks. */
#include "tasks/graph/folds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/graph/init.h"
#include "tasks/spread/spread.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

enum { BATCH = 12, INPUTS = 5, WIDE = 24, NARROW = 6 };
static sl_value layer(sl_graph *g, const char *name, sl_value x, int64_t n) {
  const sl_value w = sl_graph_tensor(g, SL_ROLE_PARAMETER, name, "weight", SL_F32,
                                     SL_SHAPE(n, sl_graph_value(g, x)->shape.dim[1]), (sl_init){SL_INIT_UNIFORM, 0.25});
  return sl_graph_add1(g, &toy_folded_matmul, name, NULL, (sl_value[]){x, w}, 2);
}

/* fc0, which stays whole, and a stretch from fc1 to fc2. */
static sl_graph *forward(int folds, sl_value *loss) {
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_layer(g, "fc0", toy_input(g, INPUTS), NARROW);
  x = layer(g, "fc1", x, WIDE);
  x = sl_graph_add1(g, &toy_folded_square, "square", NULL, &x, 1);
  *loss = toy_loss(g, layer(g, "fc2", x, NARROW));
  assert_ok(sl_fold(&g, &(sl_fold_options){.folds = folds, .logits = SL_NONE}, loss, 1));
  assert_ok(sl_graph_status(g));
  return g;
}

static sl_graph *training(int folds) {
  sl_value loss, parameter[64] = {0}, gradient[64];
  int n = 0;
  sl_graph *g = forward(folds, &loss);
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role == SL_ROLE_PARAMETER) parameter[n++] = v;
  assert_ok(sl_gradient(g, loss, parameter, n, gradient));
  g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < n; i++) sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){parameter[i], gradient[i]}, 2);
  assert_ok(sl_graph_status(g));
  return g;
}

static int count(const sl_graph *g, const sl_operation *op, sl_phase phase) {
  int n = 0;
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->op == op && g->node[i]->phase == phase;
  return n;
}

/* The values that a tree of additions adds up, from left to right. */
static void leaves_of(const sl_graph *g, sl_value v, sl_value *list, int *n) {
  const sl_node *node = g->node[g->value[v]->producer];
  if (node->op != g->add) {
    list[(*n)++] = v;
    return;
  }
  const int left = *n;
  leaves_of(g, node->in[0], list, n);
  const int middle = *n;
  leaves_of(g, node->in[1], list, n);
  assert_int_equal(middle - left, sl_left_branch(*n - left)); /* the tree over leaves of samples */
  assert_int_equal(node->fold.from, left);
  assert_int_equal(node->fold.to, *n);
}

static void adds_up_by_the_tree(void **state) {
  (void)state;
  for (int folds = 1; folds <= 9; folds++) {
    sl_graph *g = training(folds);
    sl_value list[2 * SL_MAX_FOLDS];
    assert_int_equal(count(g, &toy_folded_matmul, SL_PHASE_FORWARD), 2 * folds);
    assert_int_equal(count(g, &toy_folded_square, SL_PHASE_FORWARD), folds);
    assert_int_equal(count(g, g->add, SL_PHASE_FORWARD), folds - 1);
    assert_int_equal(count(g, g->add, SL_PHASE_BACKWARD), folds - 1);
    assert_int_equal(g->folds, folds);
    for (int i = 0; i < g->n_nodes; i++) {
      const sl_node *node = g->node[i];
      assert_int_equal(node->logical, i);
      assert_in_range(node->fold.from, 0, node->fold.to - 1);
      assert_in_range(node->fold.to, 1, folds);
      const int sums = node->op == &toy_total || (node->op == &toy_dw && strcmp(node->name, "fc0") == 0);
      if (!sums || folds == 1) continue;
      /* fc2's outputs, and the gradients of fc1's input */
      int n = 0;
      leaves_of(g, node->in[0], list, &n);
      assert_int_equal(n, folds);
      for (int f = 0; f < n; f++) {
        const sl_node *maker = g->node[g->value[list[f]]->producer];
        assert_int_equal(maker->fold.from, f);
        assert_int_equal(maker->fold.to, f + 1);
        assert_string_equal(maker->name, node->op == &toy_total ? "fc2" : "fc1");
      }
    }
    sl_graph_destroy(g);
  }
}

/* A whole parameter's contents after the step, joined from its parts. */
static void whole_of(const execution *e, const char *name, int folds, float *to) {
  char part[SL_PART_NAME], text[SL_PART_NAME];
  for (int f = 0; f < folds; f++) {
    snprintf(part, sizeof part, folds > 1 ? "%s@%d/%d" : "%s", name, f, folds);
    sl_value v = sl_graph_find(e->g, part);
    if (v == SL_NONE) v = sl_graph_find(e->g, name); /* not divided */
    assert_true(v != SL_NONE);
    const sl_value_info *info = e->g->value[v];
    assert_string_equal(sl_part_whole_name(info->name, text), name);
    if (info->part.size)
      sl_part_put(&info->part, sizeof(float), e->data[v], to);
    else
      memcpy(to, e->data[v], sl_value_bytes(info));
  }
}

static void computes_the_same(void **state) {
  (void)state;
  const char *const names[] = {"fc0.weight", "fc1.weight", "fc2.weight"};
  enum { MOST = WIDE * NARROW };
  float plain[3][MOST], folded[MOST];
  sl_plan plan = {.batch = BATCH, .leaves = 2, .shards = 4, .seed = 1};
  assert_ok(sl_plan_complete(&plan));
  for (int folds = 1; folds <= 7; folds++) {
    sl_graph *g = training(folds), *step;
    assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
    for (int i = 0; i < step->n_nodes; i++) { /* sums over leaves, too */
      const sl_node *node = step->node[i];
      if (!node->bucket) assert_memory_equal(&node->fold, &g->node[node->logical]->fold, sizeof node->fold);
    }
    execution *e = execution_create(step, NULL);
    for (int i = 0; i < 3; i++) { /* the first contents do not depend on the folds */
      float first[MOST];
      const sl_shape shape = i == 1   ? SL_SHAPE(WIDE, NARROW)
                             : i == 2 ? SL_SHAPE(NARROW, WIDE)
                                      : SL_SHAPE(NARROW, INPUTS);
      whole_of(e, names[i], folds, folded);
      sl_init_fill(&(sl_init){SL_INIT_UNIFORM, i ? 0.25 : 0.5}, 1, names[i], SL_F32, &shape, first);
      assert_memory_equal(first, folded, (size_t)sl_shape_count(&shape) * sizeof(float));
    }
    execution_run(e, NULL, 0);
    for (int i = 0; i < 3; i++) {
      const int n = i ? MOST : NARROW * INPUTS;
      whole_of(e, names[i], folds, folds == 1 ? plain[i] : folded);
      for (int k = 0; k < n && folds > 1; k++)
        assert_near((double)folded[k], (double)plain[i][k], 1e-5 * (1 + fabs((double)plain[i][k])));
    }
    execution_destroy(e);
    sl_graph_destroy(step), sl_graph_destroy(g);
  }
}

static void says_what_cannot_be_divided(void **state) {
  (void)state;
  sl_value loss;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = layer(g, "fc1", toy_input(g, INPUTS), 3);
  loss = toy_loss(g, layer(g, "fc2", x, 2));
  sl_graph *before = g;
  assert_fails(SL_EINVAL, "4 folds divide layer 'fc1' (toy_folded_matmul), which has only 3 features",
               sl_fold(&g, &(sl_fold_options){.folds = 4, .logits = SL_NONE}, &loss, 1));
  assert_fails(SL_EINVAL, "65 folds: at most 64",
               sl_fold(&g, &(sl_fold_options){.folds = 65, .logits = SL_NONE}, &loss, 1));
  assert_fails(SL_EINVAL, "4294967298 folds: at most 64",
               sl_fold(&g, &(sl_fold_options){.folds = ((int64_t)1 << 32) + 2, .logits = SL_NONE}, &loss, 1));
  /* a caller reads what lies between the products */
  assert_fails(SL_EINVAL, "no layer of this model can be divided",
               sl_fold(&g, &(sl_fold_options){.folds = 2, .logits = SL_NONE}, (sl_value[]){loss, x}, 2));
  assert_ptr_equal(g, before);
  assert_ok(sl_fold(&g, &(sl_fold_options){.folds = 1, .logits = SL_NONE}, &loss, 1));
  assert_ptr_equal(g, before);
  assert_ok(sl_fold(&g, &(sl_fold_options){.folds = 3, .logits = SL_NONE}, (sl_value[]){loss, SL_NONE}, 2));
  assert_ptr_not_equal(g, before);
  sl_graph_destroy(g);
}

/* Two readers of what a product makes: no stretch begins there. */
static void two_readers(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  const sl_value x = layer(g, "fc1", toy_input(g, INPUTS), WIDE);
  sl_value loss = toy_loss(g, toy_sum(g, layer(g, "fc2", x, 2), layer(g, "fc3", x, 2)));
  assert_fails(SL_EINVAL, "no layer of this model can be divided",
               sl_fold(&g, &(sl_fold_options){.folds = 2, .logits = SL_NONE}, &loss, 1));
  sl_graph_destroy(g);
}

/* A stretch, then a head of so many classes, which one reduction reads, or two readers of which one is none. */
static sl_graph *with_head(int64_t classes, int another, sl_value *loss, sl_value *logits) {
  sl_graph *g = toy_graph(BATCH);
  sl_value x = layer(g, "fc1", toy_input(g, INPUTS), WIDE);
  x = sl_graph_add1(g, &toy_folded_square, "square", NULL, &x, 1);
  *logits = layer(g, "head", toy_layer(g, "norm", layer(g, "fc2", x, NARROW), NARROW), classes);
  *loss = sl_graph_add1(g, &toy_folded_total, "loss", NULL, logits, 1);
  if (another) sl_graph_add1(g, &toy_total, "another", NULL, logits, 1);
  assert_ok(sl_graph_status(g));
  return g;
}

static double loss_after(sl_graph *g, sl_value loss) {
  sl_plan plan = {.batch = BATCH, .leaves = 2, .shards = 4, .seed = 1};
  sl_graph *step;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_spread(g, &plan, NULL, NULL, &step));
  execution *e = execution_create(step, NULL);
  execution_run(e, NULL, 0);
  const double value = *(const double *)e->data[sl_spread_whole(step, loss)];
  execution_destroy(e);
  sl_graph_destroy(step);
  return value;
}

/* The classes of a head are divided if each fold gets enough of them and nothing else reads the logits. */
static void divides_classes(void **state) {
  (void)state;
  for (int folds = 1; folds <= 5; folds++) {
    const int64_t classes = SL_FOLD_CLASSES * folds + folds - 1;
    sl_value values[2];
    sl_graph *g = with_head(classes, 0, &values[0], &values[1]);
    const double whole = loss_after(g, values[0]);
    assert_ok(sl_fold(&g, &(sl_fold_options){.folds = folds, .logits = values[1]}, values, 2));
    assert_ok(sl_graph_status(g));
    assert_int_equal(values[1] == SL_NONE, folds > 1);
    assert_int_equal(count(g, &toy_folded_matmul, SL_PHASE_FORWARD), 3 * folds);
    int64_t next = 0;
    for (int f = 0; f < folds && folds > 1; f++) {
      char name[SL_PART_NAME];
      snprintf(name, sizeof name, "head.weight@%d/%d", f, folds);
      const sl_value v = sl_graph_find(g, name);
      assert_true(v != SL_NONE);
      assert_int_equal(g->value[v]->part.from, next);
      next = g->value[v]->part.to;
      assert_int_equal(g->value[v]->shape.dim[0], next - g->value[v]->part.from);
      assert_int_equal(g->value[v]->shape.dim[1], NARROW);
    }
    assert_int_equal(next, folds > 1 ? classes : 0);
    assert_near(loss_after(g, values[0]), whole, 1e-5 * whole);
    sl_graph_destroy(g);
  }
  for (int reason = 0; reason < 3; reason++) { /* too few classes, another reader, not the logits */
    sl_value values[2];
    sl_graph *g = with_head(SL_FOLD_CLASSES * 3 - (reason == 0), reason == 1, &values[0], &values[1]);
    assert_ok(sl_fold(&g, &(sl_fold_options){.folds = 3, .logits = reason == 2 ? SL_NONE : values[1]}, values, 2));
    assert_true(values[1] != SL_NONE);
    assert_int_equal(count(g, &toy_folded_matmul, SL_PHASE_FORWARD), 2 * 3 + 1);
    sl_graph_destroy(g);
  }
}

/* A parameter that one layer would divide and another one reads as a whole. */
static void a_parameter_is_whole_or_divided(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  const sl_value w = sl_graph_tensor(g, SL_ROLE_PARAMETER, "shared", "weight", SL_F32, SL_SHAPE(NARROW, NARROW),
                                     (sl_init){SL_INIT_UNIFORM, 0.25});
  sl_value x = toy_layer(g, "fc0", toy_input(g, INPUTS), NARROW);
  x = sl_graph_add1(g, &toy_matmul, "whole", NULL, (sl_value[]){x, w}, 2);
  x = sl_graph_add1(g, &toy_folded_matmul, "first", NULL, (sl_value[]){x, w}, 2);
  sl_value loss = toy_loss(g, layer(g, "last", x, NARROW));
  assert_fails(SL_EINVAL, "uses parameter 'shared.weight' as a whole",
               sl_fold(&g, &(sl_fold_options){.folds = 2, .logits = SL_NONE}, &loss, 1));
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(adds_up_by_the_tree),
                                     cmocka_unit_test(computes_the_same),
                                     cmocka_unit_test(says_what_cannot_be_divided),
                                     cmocka_unit_test(two_readers),
                                     cmocka_unit_test(divides_classes),
                                     cmocka_unit_test(a_parameter_is_whole_or_divided)};
  return cmocka_run_group_tests_name("folds", tests, NULL, NULL);
}
