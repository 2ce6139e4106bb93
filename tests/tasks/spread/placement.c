/* tasks/spread/placement.c and place.c: the table of transitions has exactly these rows, and for each row a small graph
 * needs it. */
#include "tasks/spread/placement.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tasks/toy.h"

enum { BATCH = 8, RANKS = 2 };

static sl_placement placed(sl_place_kind kind, int rank) {
  return (sl_placement){kind, kind == SL_PLACE_OWNED ? rank : -1};
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* The transfer from one kind to another, between different placements; -1: none is possible. */
static int expected(sl_place_kind have, sl_place_kind need, unsigned access) {
  const int all = need == SL_PLACE_REPLICATED, one = need == SL_PLACE_OWNED, reads = access == SL_PLACE_READS;
  if (have == SL_PLACE_PARTIAL && (all || one)) return SL_TRANSFER_SUM;
  if (have == SL_PLACE_OWNED && all) return SL_TRANSFER_COPY;
  if (have == SL_PLACE_BY_SAMPLE && (all || one) && reads) return SL_TRANSFER_GATHER;
  if (have == SL_PLACE_REPLICATED && need == SL_PLACE_BY_SAMPLE && reads) return SL_TRANSFER_NONE;
  if (have == SL_PLACE_REPLICATED && one) return reads ? SL_TRANSFER_NONE : SL_TRANSFER_WAIT;
  return -1;
}

static void every_pair(void **state) {
  (void)state;
  for (int have = 0; have < SL_PLACE_KINDS; have++)
    for (int need = 0; need < SL_PLACE_KINDS; need++)
      for (unsigned access = SL_PLACE_READS; access <= SL_PLACE_OVERWRITES; access++) {
        const sl_placement from = placed((sl_place_kind)have, 0), to = placed((sl_place_kind)need, 1);
        const sl_transition *row = sl_transition_find(from, to, access);
        char a[SL_PLACEMENT_TEXT], b[SL_PLACEMENT_TEXT];
        const int same = have == need && have != SL_PLACE_OWNED; /* different owners are different placements */
        const int want = same ? SL_TRANSFER_NONE : expected((sl_place_kind)have, (sl_place_kind)need, access);
        assert_int_equal(sl_placement_equal(from, to), same);
        if ((row ? (int)row->kind : -1) != want)
          fail_msg("%s to %s, access %u: %d, not %d", sl_placement_text(from, a), sl_placement_text(to, b), access,
                   row ? (int)row->kind : -1, want);
        /* Sums and copies end on the ranks that need them; other transfers end on all ranks, including the reader's. */
        const int there = want == SL_TRANSFER_SUM || want == SL_TRANSFER_COPY;
        if (row && !same) assert_int_equal(row->after, there ? need : SL_PLACE_REPLICATED);
      }
  assert_non_null(sl_transition_find(placed(SL_PLACE_OWNED, 1), placed(SL_PLACE_OWNED, 1), SL_PLACE_OVERWRITES));
}

static void texts(void **state) {
  (void)state;
  char text[SL_PLACEMENT_TEXT];
  assert_string_equal(sl_placement_text(placed(SL_PLACE_OWNED, 12), text), "owned by rank 12");
  assert_string_equal(sl_placement_text(placed(SL_PLACE_PARTIAL, 0), text), "partial sums");
  assert_string_equal(sl_placement_text(placed(SL_PLACE_BY_COLUMNS, 0), text), "by columns");
  assert_string_equal(sl_placement_text((sl_placement){(sl_place_kind)99, 0}, text), "?");
  assert_string_equal(sl_transfer_name(SL_TRANSFER_GATHER), "gather");
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

static sl_status first_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                             int n_out) {
  (void)attr, (void)n_in;
  for (int j = 0; j < n_out; j++) out[j].shape = in[0]->shape;
  return SL_OK;
}
static sl_status rows_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(in[0]->shape.dim[0]);
  return SL_OK;
}
static const sl_operation row_norms = {.name = "row_norms", .shape = rows_shape, .map_in = 1, .map_out = 1};
static const sl_operation factor = {.name = "factor", .shape = first_shape, .all_in = UINT32_MAX};
/* p, g, m, factor: p and m are updated. */
static const sl_operation step = {.name = "step", .shape = first_shape, .map_in = 7, .map_out = 3, .update = {1, 3}};
static const sl_operation blend = {
    .name = "blend", .shape = first_shape, .update = {1}}; /* W, x: W is updated from samples */

/* Two layers, clipped, with a state for each weight. Each weight fills a bucket, so two ranks own one each. */
typedef struct network {
  sl_graph *g;
  sl_value loss, weight[2], gradient[2], norm[2], state[2], factor;
} network;

static network make_network(void) {
  network n = {.g = toy_graph(BATCH)};
  sl_value x = toy_input(n.g, 5);
  x = toy_layer(n.g, "fc1", x, 200000);
  n.loss = toy_loss(n.g, toy_layer(n.g, "fc2", x, 3));
  n.weight[0] = sl_graph_find(n.g, "fc1.weight"), n.weight[1] = sl_graph_find(n.g, "fc2.weight");
  assert_ok(sl_gradient(n.g, n.loss, n.weight, 2, n.gradient));
  n.g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < 2; i++) n.norm[i] = sl_graph_add1(n.g, &row_norms, "clip", NULL, &n.gradient[i], 1);
  n.factor = sl_graph_add1(n.g, &factor, "clip", NULL, n.norm, 2);
  for (int i = 0; i < 2; i++) {
    const char *const layer = i ? "fc2" : "fc1";
    sl_value out[2];
    n.state[i] = sl_graph_tensor(n.g, SL_ROLE_STATE, layer, "m", SL_F32, n.g->value[n.weight[i]]->shape, (sl_init){0});
    sl_graph_add(n.g, &step, layer, NULL, (sl_value[]){n.weight[i], n.gradient[i], n.state[i], n.factor}, 4, out, 2);
  }
  assert_ok(sl_graph_status(n.g));
  return n;
}

/* Checks that transfers are in order and a value has `wanted` transfers of this kind, and returns the last of them. */
static const sl_transfer *transfer_of(const sl_placements *p, sl_value v, sl_transfer_kind kind, int wanted) {
  const sl_transfer *found = NULL;
  int n = 0;
  for (int i = 0; i < p->n_transfers; i++) {
    if (i > 0) assert_true(p->transfer[i - 1].before <= p->transfer[i].before);
    if (p->transfer[i].value == v && p->transfer[i].kind == kind) found = &p->transfer[i], n++;
  }
  assert_int_equal(n, wanted);
  return found;
}

static void assert_placed(sl_placement p, sl_place_kind kind, int rank) {
  assert_int_equal(p.kind, kind);
  assert_int_equal(p.rank, rank);
}

static int first_node(const sl_graph *g, const sl_operation *op) {
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->op == op) return i;
  fail_msg("no node of %s", op->name);
  return -1;
}

static int last_node(const sl_graph *g, sl_value v, int reads) {
  int last = -1;
  for (int i = 0; i < g->n_nodes && g->node[i]->phase != SL_PHASE_UPDATE; i++)
    for (int k = 0; k < (reads ? g->node[i]->n_in : g->node[i]->n_out); k++)
      if ((reads ? g->node[i]->in[k] : g->node[i]->out[k]) == v) last = i;
  return last;
}

/* Partial sums become sums on all ranks; nothing else moves. */
static void data_parallel(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 3; ranks++) {
    network n = make_network();
    sl_placements *p;
    assert_ok(sl_placements_create(n.g, &(sl_placing){.ranks = ranks, .zero = 0}, &p));
    assert_int_equal(p->n_transfers, 3);
    assert_int_equal(p->n_owned, 0);
    for (int i = 0; i < 3; i++) {
      const sl_value v = i < 2 ? n.gradient[i] : n.loss;
      const sl_transfer *t = transfer_of(p, v, SL_TRANSFER_SUM, 1);
      assert_placed(p->made[v], SL_PLACE_PARTIAL, -1);
      assert_placed(p->value[v], SL_PLACE_REPLICATED, -1);
      assert_placed(t->have, SL_PLACE_PARTIAL, -1);
      assert_placed(t->need, SL_PLACE_REPLICATED, -1);
      assert_int_equal(t->before, last_node(n.g, v, 0) + 1);
      assert_int_equal(t->lossy, i < 2);
    }
    for (int i = 0; i < 2; i++) {
      assert_placed(p->value[n.state[i]], SL_PLACE_REPLICATED, -1);
      assert_placed(p->made[n.weight[i]], SL_PLACE_REPLICATED, -1);
    }
    for (int i = 0; i < n.g->n_nodes; i++)
      assert_placed(p->node[i], n.g->node[i]->phase == SL_PHASE_UPDATE ? SL_PLACE_REPLICATED : SL_PLACE_BY_SAMPLE, -1);
    sl_placements_destroy(p);
    sl_graph_destroy(n.g);
  }
}

/* Gradients go to their owners, and norms come from the owners. At the end the parameters come from the owners too, and
 * overwrite the old ones once all ranks have read these. The clip factor is on all ranks. */
static void zero_1(void **state) {
  (void)state;
  network n = make_network();
  sl_placements *p;
  assert_ok(sl_placements_create(n.g, &(sl_placing){.ranks = RANKS, .zero = 1}, &p));
  assert_int_equal(p->n_owned, 2);
  assert_int_equal(p->n_transfers, 1 + 4 * 2);
  assert_placed(transfer_of(p, n.loss, SL_TRANSFER_SUM, 1)->need, SL_PLACE_REPLICATED, -1);
  for (int i = 0; i < 2; i++) {
    const int owner = p->made[n.weight[i]].rank;
    assert_in_range(owner, 0, RANKS - 1);
    assert_placed(p->made[n.weight[i]], SL_PLACE_OWNED, owner);
    assert_placed(p->value[n.weight[i]], SL_PLACE_REPLICATED, -1);
    assert_placed(p->value[n.state[i]], SL_PLACE_OWNED, owner);
    assert_placed(p->made[n.gradient[i]], SL_PLACE_PARTIAL, -1);
    assert_placed(p->value[n.gradient[i]], SL_PLACE_OWNED, owner);
    const sl_transfer *t = transfer_of(p, n.gradient[i], SL_TRANSFER_SUM, 1);
    assert_placed(t->need, SL_PLACE_OWNED, owner);
    assert_int_equal(t->before, last_node(n.g, n.gradient[i], 0) + 1);
    t = transfer_of(p, n.norm[i], SL_TRANSFER_COPY, 1);
    assert_placed(t->have, SL_PLACE_OWNED, owner);
    assert_int_equal(t->before, first_node(n.g, &factor));
    t = transfer_of(p, n.weight[i], SL_TRANSFER_WAIT, 1);
    assert_int_equal(t->since, last_node(n.g, n.weight[i], 1) + 1);
    assert_int_equal(t->before, first_node(n.g, &row_norms)); /* where the update phase begins */
    t = transfer_of(p, n.weight[i], SL_TRANSFER_COPY, 1);
    assert_placed(t->have, SL_PLACE_OWNED, owner);
    assert_placed(t->need, SL_PLACE_REPLICATED, -1);
    assert_int_equal(t->before, n.g->n_nodes);
  }
  assert_int_equal(p->owned[0], n.weight[1]); /* the backward pass begins with the last layer */
  assert_int_not_equal(p->made[n.weight[0]].rank, p->made[n.weight[1]].rank);
  assert_placed(p->value[n.factor], SL_PLACE_REPLICATED, -1);
  sl_placements_destroy(p);
  /* On one rank nothing is divided. */
  assert_ok(sl_placements_create(n.g, &(sl_placing){.ranks = 1, .zero = 1}, &p));
  assert_int_equal(p->n_owned, 0);
  sl_placements_destroy(p);
  sl_graph_destroy(n.g);
}

/* Parameters stay with their owners. The other ranks fetch them in front of the reader before the first one, again for
 * the backward pass if the window is small, and not in the update phase. */
static void zero_3(void **state) {
  (void)state;
  for (int small = 0; small < 2; small++) {
    sl_value loss;
    sl_graph *g = toy_deep_training(BATCH, 200000, &loss);
    sl_placements *p;
    int fetches[4] = {0}, before = -1, last = -1, at[8], n = 0;
    assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = 3, .window = small ? 1 << 21 : 0}, &p));
    assert_int_equal(p->n_owned, 4);
    for (int i = 0; i < p->n_transfers; i++) {
      const sl_transfer *t = &p->transfer[i];
      if (t->kind == SL_TRANSFER_SUM) continue;
      assert_int_equal(t->kind, SL_TRANSFER_COPY);
      assert_int_equal(t->fetched, 1);
      assert_placed(t->have, SL_PLACE_OWNED, p->value[t->value].rank);
      assert_placed(p->made[t->value], SL_PLACE_OWNED, t->have.rank);
      int reads = 0;
      for (int k = 0; k < g->node[t->since]->n_in; k++) reads |= g->node[t->since]->in[k] == t->value;
      assert_true(reads);
      assert_true(g->node[t->since]->phase != SL_PHASE_UPDATE);
      assert_int_equal(t->before, last < 0 ? t->since : last); /* in front of the node that the last one was for */
      assert_true(t->before >= before);
      before = t->before, last = t->since;
      fetches[g->value[t->value]->name[2] - '0']++;
      at[n++] = t->since;
    }
    /* fc0's weight is not read in the backward pass. fc3's and fc2's are read again at once; more than 2 MB are fetched
     * between the uses of fc1's. */
    assert_int_equal(fetches[0], 1);
    assert_int_equal(fetches[1], 1 + small);
    assert_int_equal(fetches[3], 1);
    for (int i = 1; i < n; i++) assert_true(at[i] > at[i - 1]);
    sl_placements_destroy(p);
    sl_graph_destroy(g);
  }
}

static sl_status narrow_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                              int n_out) {
  (void)attr, (void)n_in, (void)n_out;
  out[0].shape = in[0]->shape;
  out[0].dtype = SL_BF16;
  return SL_OK;
}
static const sl_operation narrow = {.name = "narrow", .shape = narrow_shape, .map_in = 1, .map_out = 1};

/* The owner of a parameter makes its copy in 16 bits. The other ranks fetch the copy, not the parameter, and not before
 * it is made. */
static void copies_in_16_bits(void **state) {
  (void)state;
  sl_graph *g = sl_graph_create(BATCH, &toy_copy, &toy_add, &narrow);
  sl_value x = toy_input(g, 4), w[2], copy[2], gradient[2];
  int made[2];
  for (int i = 0; i < 2; i++) {
    w[i] = sl_graph_tensor(g, SL_ROLE_PARAMETER, i ? "b" : "a", "weight", SL_F32, SL_SHAPE(4, 4), (sl_init){0});
    made[i] = g->n_nodes;
    copy[i] = sl_graph_add1(g, &narrow, "copy", NULL, &w[i], 1);
    x = sl_graph_add1(g, &toy_matmul, "product", NULL, (sl_value[]){x, copy[i]}, 2);
  }
  g->phase = SL_PHASE_BACKWARD;
  for (int i = 0; i < 2; i++) gradient[i] = sl_graph_add1(g, &toy_dw, "dw", NULL, (sl_value[]){x, x}, 2);
  g->phase = SL_PHASE_UPDATE;
  for (int i = 0; i < 2; i++) sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){w[i], gradient[i]}, 2);
  assert_ok(sl_graph_status(g));
  sl_placements *p;
  assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = 3}, &p));
  for (int i = 0; i < 2; i++) {
    const int owner = p->value[w[i]].rank;
    assert_placed(p->node[made[i]], SL_PLACE_OWNED, owner);
    assert_placed(p->value[copy[i]], SL_PLACE_OWNED, owner);
    const sl_transfer *t = transfer_of(p, copy[i], SL_TRANSFER_COPY, 1);
    assert_int_equal(t->fetched, 1);
    assert_int_equal(t->before, made[i] + 1);
    transfer_of(p, w[i], SL_TRANSFER_COPY, 0);
  }
  sl_placements_destroy(p);
  sl_graph_destroy(g);
}

/* A parameter that lies with one rank, as the store has it, is fetched in an evaluation, too. */
static void held_elsewhere(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  toy_loss(g, toy_layer(g, "fc", toy_input(g, 5), 3));
  assert_ok(sl_graph_status(g));
  int *holder = malloc((size_t)g->n_values * sizeof *holder);
  for (sl_value v = 0; v < g->n_values; v++) holder[v] = -1;
  const sl_value w = sl_graph_find(g, "fc.weight");
  holder[w] = 1;
  sl_placements *p;
  assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .holder = holder}, &p));
  assert_placed(p->value[w], SL_PLACE_OWNED, 1);
  assert_int_equal(transfer_of(p, w, SL_TRANSFER_COPY, 1)->fetched, 1);
  sl_placements_destroy(p);
  free(holder);
  sl_graph_destroy(g);
}

/* A gathering node's samples come to all ranks; a later node reads its own samples from them. */
static void gathered(void **state) {
  (void)state;
  for (int zero = 0; zero < 2; zero++) {
    sl_graph *g = toy_graph(BATCH);
    sl_value x = toy_input(g, 3), W;
    W = sl_graph_tensor(g, SL_ROLE_PARAMETER, "table", "weight", SL_F32, SL_SHAPE(TOY_TABLE), (sl_init){0});
    g->phase = SL_PHASE_BACKWARD;
    sl_value sum = sl_graph_add1(g, &toy_gather, "table", NULL, &x, 1);
    sl_value later = sl_graph_add1(g, &toy_square, "later", NULL, &x, 1);
    sl_value again = sl_graph_add1(g, &toy_gather, "again", NULL, &x, 1);
    g->phase = SL_PHASE_UPDATE;
    sl_graph_add1(g, &toy_step, "update", NULL, (sl_value[]){W, sum}, 2);
    assert_ok(sl_graph_status(g));
    sl_placements *p;
    assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = zero}, &p));
    const sl_transfer *t = transfer_of(p, x, SL_TRANSFER_GATHER, 1); /* `again` finds the copies */
    assert_placed(t->have, SL_PLACE_BY_SAMPLE, -1);
    assert_placed(t->need, zero ? SL_PLACE_OWNED : SL_PLACE_REPLICATED, zero ? 0 : -1);
    assert_int_equal(t->before, first_node(g, &toy_gather));
    assert_int_equal(p->gathers[t->before], 1);
    transfer_of(p, sum, SL_TRANSFER_SUM, 0);
    assert_placed(p->made[sum], zero ? SL_PLACE_OWNED : SL_PLACE_REPLICATED, zero ? 0 : -1);
    assert_placed(p->made[later], SL_PLACE_BY_SAMPLE, -1);
    assert_placed(p->made[again], SL_PLACE_REPLICATED, -1);
    sl_placements_destroy(p);
    sl_graph_destroy(g);
  }
}

/* Samples are gathered only if moving them twice costs less than moving the sum. */
static void gathered_where_cheaper(void **state) {
  (void)state;
  const int64_t even = TOY_TABLE / (2 * BATCH); /* columns of x that cost as much as the table */
  assert_int_equal(TOY_TABLE % (2 * BATCH), 0);
  for (int64_t columns = even - 1; columns <= even; columns++) {
    sl_graph *g = toy_graph(BATCH);
    sl_value x = toy_input(g, columns);
    g->phase = SL_PHASE_BACKWARD;
    sl_value sum = sl_graph_add1(g, &toy_gather, "table", NULL, &x, 1);
    assert_ok(sl_graph_status(g));
    sl_placements *p;
    assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = 0}, &p));
    transfer_of(p, x, SL_TRANSFER_GATHER, columns < even);
    transfer_of(p, sum, SL_TRANSFER_SUM, columns == even);
    sl_placements_destroy(p);
    sl_graph_destroy(g);
  }
}

/* The table's other use is summed over the ranks before samples are added to the sum. */
static void gathered_onto_a_sum(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_input(g, 3);
  g->phase = SL_PHASE_BACKWARD;
  sl_value sum = sl_graph_add1(g, &toy_spray, "head", NULL, &x, 1);
  sl_graph_push_node(g, &(sl_node){.op = &toy_gather,
                                   .name = "table",
                                   .n_in = 1,
                                   .n_out = 1,
                                   .n_arg = 1,
                                   .in = &x,
                                   .out = &sum,
                                   .phase = SL_PHASE_BACKWARD,
                                   .accumulate = 1,
                                   .after = SL_NONE});
  assert_ok(sl_graph_status(g));
  sl_placements *p;
  assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = 0}, &p));
  assert_int_equal(transfer_of(p, sum, SL_TRANSFER_SUM, 1)->before, first_node(g, &toy_gather));
  transfer_of(p, x, SL_TRANSFER_GATHER, 1);
  assert_placed(p->made[sum], SL_PLACE_REPLICATED, -1);
  sl_placements_destroy(p);
  sl_graph_destroy(g);
}

/* A sum with two additions is complete after the second. A sum that is smaller than its inputs is not gathered. */
static void sums_of_two_uses(void **state) {
  (void)state;
  sl_graph *g = toy_graph(100);
  sl_value x = toy_input(g, 3);
  g->phase = SL_PHASE_BACKWARD;
  sl_value sum = sl_graph_add1(g, &toy_spray, "head", NULL, &x, 1);
  sl_graph_push_node(g, &(sl_node){.op = &toy_gather,
                                   .name = "table",
                                   .n_in = 1,
                                   .n_out = 1,
                                   .n_arg = 1,
                                   .in = &x,
                                   .out = &sum,
                                   .phase = SL_PHASE_BACKWARD,
                                   .accumulate = 1,
                                   .after = SL_NONE});
  assert_ok(sl_graph_status(g));
  sl_placements *p;
  assert_ok(sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = 0}, &p));
  assert_int_equal(p->gathers[first_node(g, &toy_gather)], 0);
  assert_int_equal(transfer_of(p, sum, SL_TRANSFER_SUM, 1)->before, first_node(g, &toy_gather) + 1);
  assert_int_equal(p->n_transfers, 1);
  sl_placements_destroy(p);
  sl_graph_destroy(g);
}

/* Refused: each rank would update its copy of a parameter from its own samples. */
static void a_missing_row_is_an_error(void **state) {
  (void)state;
  sl_graph *g = toy_graph(BATCH);
  sl_value x = toy_input(g, 3), W, out;
  W = sl_graph_tensor(g, SL_ROLE_PARAMETER, "fc", "weight", SL_F32, SL_SHAPE(3), (sl_init){0});
  sl_graph_add(g, &blend, "mixed", NULL, (sl_value[]){W, x}, 2, &out, 1);
  assert_ok(sl_graph_status(g));
  sl_placements *p;
  assert_fails(SL_EINVAL, "layer 'mixed' (blend): no exchange brings value 'fc.weight' from replicated to partial sums",
               sl_placements_create(g, &(sl_placing){.ranks = RANKS, .zero = 0}, &p));
  assert_null(p);
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair),
      cmocka_unit_test(texts),
      cmocka_unit_test(data_parallel),
      cmocka_unit_test(zero_1),
      cmocka_unit_test(zero_3),
      cmocka_unit_test(copies_in_16_bits),
      cmocka_unit_test(held_elsewhere),
      cmocka_unit_test(gathered),
      cmocka_unit_test(gathered_where_cheaper),
      cmocka_unit_test(gathered_onto_a_sum),
      cmocka_unit_test(sums_of_two_uses),
      cmocka_unit_test(a_missing_row_is_an_error),
  };
  return cmocka_run_group_tests_name("tasks/spread/placement", tests, NULL, NULL);
}
