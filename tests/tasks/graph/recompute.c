/* tasks/graph/recompute.c: recomputation gives the same bits in every order that the dependencies allow, in less
 * memory. Clones wait for the gradient that needs them, and state is not updated twice. */
#include "tasks/graph/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "tasks/spread/spread.h"
#include "tests/tasks/execute.h"
#include "tests/tasks/toy.h"

enum { BATCH = 96, BLOCKS = 3, WIDTH = 16 };

static int count(const sl_graph *g, const sl_operation *op, sl_phase phase) {
  int n = 0;
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->op == op && g->node[i]->phase == phase;
  return n;
}

/* Segments of two layers, each followed by a square; the first one also updates state. */
static sl_graph *build(sl_recompute kind, sl_value *loss) {
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_layer(g, "first", toy_input(g, 5), WIDTH), parameters[16], gradients[16];
  int n = 0;
  for (int b = 0; b < BLOCKS; b++) {
    char layer[32];
    sl_graph_segment(g, SL_RECOMPUTE_BLOCK, 1);
    snprintf(layer, sizeof layer, "block%d.a", b < 2 ? b : 1); /* the third block shares the second block's weight */
    x = toy_layer(g, layer, x, 2 * WIDTH);
    if (b == 0) {
      const sl_shape shape = SL_SHAPE(2 * WIDTH, WIDTH);
      const sl_value state = sl_graph_tensor(g, SL_ROLE_STATE, layer, "running", SL_F32, shape,
                                             (sl_init){.kind = SL_INIT_CONSTANT, .a = 1});
      sl_graph_add1(g, &toy_step, layer, NULL, (sl_value[]){state, sl_graph_find(g, "block0.a.weight")}, 2);
    }
    x = sl_graph_add1(g, &toy_square, layer, NULL, &x, 1);
    snprintf(layer, sizeof layer, "block%d.b", b);
    x = toy_layer(g, layer, x, WIDTH);
    x = sl_graph_add1(g, &toy_square, layer, NULL, &x, 1);
  }
  sl_graph_segment(g, SL_RECOMPUTE_BLOCK, 0);
  *loss = toy_loss(g, toy_layer(g, "last", x, 3));
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role == SL_ROLE_PARAMETER) parameters[n++] = v;
  assert_ok(sl_gradient(g, *loss, parameters, n, gradients));
  assert_ok(sl_recompute_segments(g, kind));
  g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < n; i++) sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){parameters[i], gradients[i]}, 2);
  assert_ok(sl_graph_status(g));
  return g;
}

typedef struct lowered {
  sl_graph *logical, *step;
  sl_schedule *schedule;
  sl_memory *memory;
} lowered;

static lowered lower(sl_recompute kind, int leaves) {
  lowered l;
  sl_value loss;
  sl_plan plan = {.batch = BATCH, .leaves = leaves, .shards = 2 * leaves, .seed = 1};
  const sl_machine machine = {.kind = {{2, 1e8, 1e9, 1e-6}}};
  assert_ok(sl_plan_complete(&plan));
  l.logical = build(kind, &loss);
  assert_ok(sl_spread(l.logical, &plan, NULL, NULL, &l.step));
  assert_ok(sl_schedule_create(l.step, NULL, &plan.tiles, &machine, &l.schedule));
  assert_ok(sl_memory_plan(l.step, l.schedule, NULL, 0, &l.memory));
  return l;
}

static void raise(lowered *l) {
  sl_memory_destroy(l->memory), sl_schedule_destroy(l->schedule);
  sl_graph_destroy(l->step), sl_graph_destroy(l->logical);
}

static sl_value named(const sl_graph *step, const char *name) {
  const sl_value v = sl_graph_find(step, name);
  assert_true(v != SL_NONE);
  return v;
}

static void gives_the_same_bits(void **state) {
  (void)state;
  for (int leaves = 1; leaves <= 3; leaves++) {
    lowered plain = lower(SL_RECOMPUTE_NONE, leaves), less = lower(SL_RECOMPUTE_BLOCK, leaves);
    execution *a = execution_create(plain.step, NULL);
    execution_run(a, NULL, 0);
    for (unsigned seed = 0; seed <= 10; seed++) {
      execution *b = execution_create(less.step, seed ? less.memory : NULL);
      execution_run(b, seed ? less.schedule : NULL, seed);
      for (sl_value v = 0; v < plain.step->n_values; v++) {
        const sl_value_info *info = plain.step->value[v];
        if (info->role == SL_ROLE_TEMPORARY) continue;
        if (memcmp(a->data[v], b->data[named(less.step, info->name)], sl_value_bytes(info)) != 0)
          fail_msg("%d leaves, seed %u: '%s' differs", leaves, seed, info->name);
      }
      execution_destroy(b);
    }
    execution_destroy(a);
    raise(&plain), raise(&less);
  }
}

/* A block's first layer, square and second layer are computed again; the last square's result is kept, because the next
 * block reads it. */
static void clones_what_is_read(void **state) {
  (void)state;
  sl_value loss;
  sl_graph *plain = build(SL_RECOMPUTE_NONE, &loss), *g = build(SL_RECOMPUTE_BLOCK, &loss),
           *other = build(SL_RECOMPUTE_ATTENTION, &loss);
  assert_int_equal(other->n_nodes, plain->n_nodes);
  assert_int_equal(count(g, &toy_matmul, SL_PHASE_FORWARD), count(plain, &toy_matmul, SL_PHASE_FORWARD));
  assert_int_equal(count(g, &toy_matmul, SL_PHASE_BACKWARD), 2 * BLOCKS);
  assert_int_equal(count(g, &toy_square, SL_PHASE_BACKWARD), BLOCKS);
  assert_int_equal(count(g, &toy_step, SL_PHASE_BACKWARD), 0);
  assert_int_equal(count(g, &toy_step, SL_PHASE_FORWARD), 1);
  int tied = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    assert_int_equal(g->node[i]->logical, i);
    for (int j = 0; j < g->node[i]->n_out; j++) {
      const int first = g->value[g->node[i]->out[j]]->producer; /* the first of several writers */
      if (g->value[g->node[i]->out[j]]->role == SL_ROLE_TEMPORARY) assert_true(first >= 0 && first <= i);
      tied += first >= 0 && first < i;
    }
    if (g->node[i]->op != &toy_matmul || g->node[i]->phase != SL_PHASE_BACKWARD) continue;
    int found = 0;
    for (int k = 0; k < i; k++)
      found |= g->node[k]->op == &toy_matmul && g->node[k]->phase == SL_PHASE_FORWARD &&
               strcmp(g->node[k]->name, g->node[i]->name) == 0 && g->node[k]->key == g->node[i]->key;
    assert_true(found);
  }
  assert_int_equal(tied, 1);
  sl_graph_destroy(plain), sl_graph_destroy(g), sl_graph_destroy(other);
}

/* x [B, k] -> y [B, k], and a statistic of each row, which the gradient reads beside x. */
static sl_status norm_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[1].shape = SL_SHAPE(in[0]->shape.dim[0], 1);
  return SL_OK;
}
static sl_status dnorm_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  return SL_OK;
}
static const sl_operation dnorm = {.name = "dnorm", .shape = dnorm_shape};
static void norm_gradient(sl_graph *g, const sl_node *node, const sl_value *dout, const int *need, sl_value *din) {
  if (need[0]) din[0] = sl_graph_add1(g, &dnorm, node->name, NULL, (sl_value[]){dout[0], node->in[0], node->out[1]}, 3);
}
static const sl_operation norm = {.name = "norm", .shape = norm_shape, .gradient = norm_gradient};

static void keeps_what_is_small(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_layer(g, "first", toy_input(g, 5), WIDTH), out[2], w[2], gradient[2];
  sl_graph_segment(g, SL_RECOMPUTE_BLOCK, 1);
  x = toy_layer(g, "a", x, 2 * WIDTH);
  sl_graph_add(g, &norm, "norm", NULL, &x, 1, out, 2);
  x = toy_layer(g, "b", out[0], WIDTH);
  sl_graph_segment(g, SL_RECOMPUTE_BLOCK, 0);
  const sl_value loss = toy_loss(g, toy_layer(g, "last", x, 3));
  w[0] = sl_graph_find(g, "first.weight"), w[1] = sl_graph_find(g, "b.weight");
  assert_ok(sl_gradient(g, loss, w, 2, gradient));
  assert_ok(sl_recompute_segments(g, SL_RECOMPUTE_BLOCK));
  int seen = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (node->op != &dnorm) continue;
    seen++;
    assert_int_equal(g->node[g->value[node->in[1]]->producer]->phase, SL_PHASE_BACKWARD);
    assert_int_equal(node->in[2], out[1]);
  }
  assert_int_equal(seen, 1);
  sl_graph_destroy(g);
}

/* No clone runs before the backward pass needs it; planned memory depends on that. */
static void waits_for_the_gradient(void **state) {
  (void)state;
  lowered plain = lower(SL_RECOMPUTE_NONE, 1), less = lower(SL_RECOMPUTE_BLOCK, 1);
  const sl_schedule *s = less.schedule;
  int clones = 0;
  for (int i = 0; i < less.step->n_nodes; i++) {
    const sl_node *node = less.step->node[i];
    if (node->phase != SL_PHASE_BACKWARD || (node->op != &toy_matmul && node->op != &toy_square)) continue;
    int waits = 0;
    for (int k = s->from[i]; k < s->from[i + 1]; k++)
      waits |= less.step->node[s->before[k]]->phase == SL_PHASE_BACKWARD;
    assert_true(waits);
    clones++;
  }
  assert_int_equal(clones, 2 * 3 * BLOCKS);
  print_message("# %zu bytes of temporaries, %zu without\n", less.memory->temporaries, plain.memory->temporaries);
  assert_true(less.memory->temporaries < plain.memory->temporaries);
  raise(&plain), raise(&less);
}

static void each_kind_has_a_name(void **state) {
  (void)state;
  int n = 0;
  while (sl_recompute_names[n]) n++;
  assert_int_equal(n, SL_RECOMPUTE_COUNT);
  assert_string_equal(sl_recompute_names[SL_RECOMPUTE_BLOCK], "block");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_the_same_bits),  cmocka_unit_test(clones_what_is_read),
      cmocka_unit_test(keeps_what_is_small),  cmocka_unit_test(waits_for_the_gradient),
      cmocka_unit_test(each_kind_has_a_name),
  };
  return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
