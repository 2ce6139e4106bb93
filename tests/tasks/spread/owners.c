/* tasks/spread/owners.c, and the step graphs of ZeRO 1: every parameter has one owner; only its owner updates it; all
 * ranks have the same exchanges; no value is read before it has arrived, and no parameter is written before all ranks
 * have read it. */
#include "tasks/spread/owners.h"

#include <string.h>

#include "tasks/spread/spread.h"
#include "tasks/starpu/exchange.h"
#include "tests/tasks/toy.h"

enum { LAYERS = 5, BATCH = 12 };
static const int64_t width[LAYERS] = {600, 1000, 1000, 40, 3}; /* the second and third are buckets of their own */
static const char *const layers[LAYERS] = {"fc1", "fc2", "fc3", "fc4", "fc5"};

static sl_status rows_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0]);
  out[0].dtype = SL_F64;
  return SL_OK;
}
static sl_status one_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)in, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(1);
  out[0].dtype = SL_F64;
  return SL_OK;
}
static sl_status step_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in;
  for (int j = 0; j < n_out; j++) out[j].shape = in[0]->shape;
  return SL_OK;
}
static const sl_operation row_norms = {.name = "row_norms", .shape = rows_shape, .map_in = 1, .map_out = 1};
static const sl_operation factor = {.name = "factor", .shape = one_shape, .all_in = UINT32_MAX};
static const sl_operation step = {
    .name = "step", .shape = step_shape, .map_in = 7, .map_out = 3, .update = {1, 3}}; /* p, g, m, factor, loss */

typedef struct network {
  sl_graph *g;
  sl_value loss, factor, parameter[LAYERS], gradient[LAYERS], state[LAYERS], norm[LAYERS];
} network;

static network network_of(int clip) {
  network n = {.g = toy_graph(BATCH)};
  sl_value x = toy_input(n.g, 5);
  for (int i = 0; i < LAYERS; i++) {
    x = toy_layer(n.g, layers[i], x, width[i]);
    if (i == 1) x = sl_graph_add1(n.g, &toy_square, "square", NULL, &x, 1);
  }
  n.loss = toy_loss(n.g, x);
  for (int i = 0; i < LAYERS; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s.weight", layers[i]);
    n.parameter[i] = sl_graph_find(n.g, name);
  }
  assert_ok(sl_gradient(n.g, n.loss, n.parameter, LAYERS, n.gradient));
  n.g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < LAYERS && clip; i++) n.norm[i] = sl_graph_add1(n.g, &row_norms, "clip", NULL, &n.gradient[i], 1);
  n.factor = clip ? sl_graph_add1(n.g, &factor, "clip", NULL, n.norm, LAYERS) : n.loss;
  for (int i = 0; i < LAYERS; i++) {
    sl_value out[2];
    n.state[i] = sl_graph_tensor(n.g, SL_ROLE_STATE, layers[i], "m", SL_F32, n.g->value[n.parameter[i]]->shape,
                                 (sl_init){SL_INIT_CONSTANT, 0});
    sl_graph_add(n.g, &step, layers[i], NULL, (sl_value[]){n.parameter[i], n.gradient[i], n.state[i], n.factor, n.loss},
                 5, out, 2);
  }
  assert_ok(sl_graph_status(n.g));
  return n;
}

static void each_parameter_has_one_owner(void **state) {
  (void)state;
  for (int clip = 0; clip < 2; clip++)
    for (int ranks = 1; ranks <= 4; ranks++) {
      network n = network_of(clip);
      sl__owners *o;
      assert_ok(sl__owners_find(n.g, ranks, NULL, &o));
      assert_int_equal(o->n, LAYERS);
      for (int i = 0; i < LAYERS; i++) {
        const int owner = o->value[n.parameter[i]];
        assert_in_range(owner, 0, ranks - 1);
        assert_int_equal(o->parameter[i], n.parameter[LAYERS - 1 - i]); /* the backward pass begins with the last */
        assert_int_equal(o->value[n.gradient[i]], owner);
        assert_int_equal(o->value[n.state[i]], owner);
        if (clip) assert_int_equal(o->value[n.norm[i]], owner);
      }
      assert_int_equal(o->value[n.loss], -1);
      assert_int_equal(o->value[n.factor], -1);
      /* the largest run is fc3 with fc4 and fc5, whose gradients share its bucket; then come fc2 and fc1 */
      assert_int_equal(o->value[n.parameter[2]], 0);
      assert_int_equal(o->value[n.parameter[3]], 0);
      assert_int_equal(o->value[n.parameter[1]], ranks > 1);
      assert_int_equal(o->value[n.parameter[0]], ranks > 2 ? 2 : ranks > 1);
      sl__owners_destroy(o);
      sl_graph_destroy(n.g);
    }
}

/* Stages of a pipeline divide the bytes of each of them: the first two layers are one stage, the others the second. */
static void stages_have_owners_of_their_own(void **state) {
  (void)state;
  network n = network_of(1);
  sl__owners *o;
  sl_rank_set *keeps = calloc((size_t)n.g->n_values, sizeof *keeps);
  for (int i = 0; i < LAYERS; i++) keeps[n.parameter[i]] = i < 2 ? 1 : 2;
  assert_ok(sl__owners_find(n.g, 2, keeps, &o));
  /* a stage's largest run goes to rank 0, whatever that rank has in the other stage */
  assert_int_equal(o->value[n.parameter[2]], 0);
  assert_int_equal(o->value[n.parameter[1]], 0);
  assert_int_equal(o->value[n.parameter[0]], 1);
  assert_int_equal(o->value[n.state[0]], 1);
  sl__owners_destroy(o);
  free(keeps);
  sl_graph_destroy(n.g);
}

/* Parameters that one node updates together have no owner; neither does a parameter whose state the forward pass uses.
 */
static void what_cannot_be_divided(void **state) {
  (void)state;
  network n = network_of(0);
  sl_value out[2];
  sl_graph_add(n.g, &step, "two", NULL, (sl_value[]){n.parameter[1], n.gradient[1], n.parameter[0], n.loss}, 4, out, 2);
  n.g->phase = SL_PHASE_FORWARD;
  sl_graph_add1(n.g, &toy_copy, "reads", NULL, &n.gradient[3], 1);
  sl_graph_add1(n.g, &toy_copy, "reads", NULL, &n.state[2], 1);
  assert_ok(sl_graph_status(n.g));
  for (int first = 0; first < 2; first++) {
    sl__owners *o;
    assert_ok(sl__owners_find(n.g, 2, NULL, &o));
    for (int i = 0; i < LAYERS; i++) assert_int_equal(o->value[n.parameter[i]] >= 0, i > 2);
    assert_int_equal(o->value[n.state[2]], -1);
    assert_int_equal(o->value[n.gradient[3]], -1); /* all ranks read it */
    assert_true(o->value[n.gradient[4]] >= 0);
    sl__owners_destroy(o);
    sl_node *reader = n.g->node[n.g->n_nodes - 1]; /* now moved before the update */
    memmove(n.g->node + 1, n.g->node, (size_t)(n.g->n_nodes - 1) * sizeof *n.g->node);
    n.g->node[0] = reader;
  }
  sl_graph_destroy(n.g);
}

static int has(const sl_value *list, int n, sl_value v) {
  for (int k = 0; k < n; k++)
    if (list[k] == v) return 1;
  return 0;
}

static const sl__exchange_attr *attr_of(const sl_node *node) { return node->attr; }

/* The next exchange from node i on; NULL: none. */
static int next_exchange(const sl_graph *g, int i) {
  while (i < g->n_nodes && !g->node[i]->bucket) i++;
  return i;
}

static void check_rank(const sl_placements *p, int rank, const sl_graph *g) {
  char written[4096] = {0};
  assert_true(g->n_values < 4096);
  for (sl_value v = 0; v < g->n_values; v++) written[v] = g->value[v]->role != SL_ROLE_TEMPORARY;
  int updates = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in && !(node->bucket && attr_of(node)->move.kind == SL_EXCHANGE_COPY); k++)
      assert_true(written[node->in[k]]);
    for (int k = 0; k < node->n_out; k++) written[node->out[k]] = 1;
    if (node->op == &step || node->op == &row_norms) assert_int_equal(p->node[node->logical].rank, rank);
    if (node->op == &factor) /* all norms have arrived, each from its owner */
      for (int k = 0; k < node->n_in; k++) {
        int from = -1;
        for (int e = 0; e < i; e++)
          if (g->node[e]->bucket && has(g->node[e]->out, g->node[e]->n_out, node->in[k]))
            from = attr_of(g->node[e])->move.rank;
        assert_int_equal(from, p->value[g->value[node->in[k]]->logical].rank);
      }
    if (node->op != &step) continue;
    updates++;
    int release = -1, share = -1;
    for (int e = 0; e < g->n_nodes; e++) {
      if (!g->node[e]->bucket || !has(g->node[e]->out, g->node[e]->n_out, node->in[0])) continue;
      *(e < i ? &release : &share) = e;
    }
    assert_true(release >= 0 && share > i);
    assert_int_equal(attr_of(g->node[share])->move.kind, SL_EXCHANGE_COPY);
    assert_int_equal(attr_of(g->node[share])->move.rank, rank);
    for (int r = release; r < i; r++)
      assert_false(!g->node[r]->bucket && has(g->node[r]->in, g->node[r]->n_in, node->in[0]));
  }
  int mine = 0;
  for (sl_value v = 0; v < g->n_values; v++) {
    const sl_value_info *info = g->value[v];
    if (info->role == SL_ROLE_STATE) assert_int_equal(p->value[info->logical].rank, rank);
    mine += info->role == SL_ROLE_PARAMETER && p->made[info->logical].rank == rank;
  }
  assert_int_equal(updates, mine);
}

static void steps_fit_together(void **state) {
  (void)state;
  for (int clip = 0; clip < 2; clip++)
    for (int blocks = 1; blocks <= 2; blocks++)
      for (int micro = 1; micro <= 2; micro++) {
        enum { RANKS = 3 };
        network n = network_of(clip);
        sl_plan plan = {
            .batch = BATCH, .leaves = 6, .shards = 6, .row_blocks = blocks, .micro_batches = micro, .seed = 1};
        assert_ok(sl_plan_complete(&plan));
        sl_graph *g[RANKS];
        for (int rank = 0; rank < RANKS; rank++) {
          sl_placements *p;
          assert_ok(sl_placements_create(n.g, &(sl_placing){.ranks = RANKS, .zero = 1}, &p));
          assert_ok(sl_spread(n.g, &plan, &(sl_division){.rank = rank, .ranks = RANKS, .first = (int[]){0, 2, 4, 6}}, p,
                              &g[rank]));
          check_rank(p, rank, g[rank]);
          sl_placements_destroy(p);
        }
        int at[RANKS] = {0}, exchanges = 0;
        for (;; exchanges++) {
          for (int rank = 0; rank < RANKS; rank++) at[rank] = next_exchange(g[rank], at[rank]);
          if (at[0] == g[0]->n_nodes) break;
          const sl_node *a = g[0]->node[at[0]];
          assert_int_equal(a->bucket, exchanges + 1);
          for (int rank = 1; rank < RANKS; rank++) {
            assert_true(at[rank] < g[rank]->n_nodes);
            const sl_node *b = g[rank]->node[at[rank]];
            assert_int_equal(a->bucket, b->bucket);
            assert_int_equal(attr_of(a)->move.kind, attr_of(b)->move.kind);
            assert_int_equal(attr_of(a)->move.rank, attr_of(b)->move.rank);
            assert_int_equal(attr_of(a)->values, attr_of(b)->values);
            assert_int_equal(a->n_out, b->n_out);
            for (int k = 0; k < a->n_out; k++)
              assert_int_equal(g[0]->value[a->out[k]]->logical, g[rank]->value[b->out[k]]->logical);
          }
          for (int rank = 0; rank < RANKS; rank++) at[rank]++;
        }
        for (int rank = 0; rank < RANKS; rank++) assert_int_equal(at[rank], g[rank]->n_nodes);
        assert_true(exchanges > 2 * LAYERS - 4);
        for (int rank = 0; rank < RANKS; rank++) sl_graph_destroy(g[rank]);
        sl_graph_destroy(n.g);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_parameter_has_one_owner),
      cmocka_unit_test(stages_have_owners_of_their_own),
      cmocka_unit_test(what_cannot_be_divided),
      cmocka_unit_test(steps_fit_together),
  };
  return cmocka_run_group_tests_name("tasks/spread/owners", tests, NULL, NULL);
}
