/* tasks/spread/row_blocks.c: which weights are cut; one use that does not allow cutting keeps a whole class uncut.
 * spread.c tests that cutting changes no bit. */
#include "tasks/spread/spread.h"
#include "tests/tasks/toy.h"

static sl_status like_first(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in;
  for (int j = 0; j < n_out; j++) out[j].shape = in[0]->shape;
  return SL_OK;
}
static const sl_operation maps = {.name = "maps", .shape = like_first, .map_in = 3, .map_out = 1};
static const sl_operation takes_all = {.name = "takes_all", .shape = like_first, .all_in = 3};
static const sl_operation wants_whole = {.name = "wants_whole", .shape = like_first};
static const sl_operation fuses = {.name = "fuses", .shape = like_first, .map_in = 1};

static sl_value parameter(sl_graph *g, const char *name, sl_shape shape) {
  return sl_graph_tensor(g, SL_ROLE_PARAMETER, name, "weight", SL_F32, shape, (sl_init){0});
}
static sl_value apply(sl_graph *g, const sl_operation *op, sl_value a, sl_value b) {
  return sl_graph_add1(g, op, op->name, NULL, (sl_value[]){a, b}, b == SL_NONE ? 1 : 2);
}

/* The number of blocks into which a plan of 4 cuts the value. */
static int blocks_of(const sl_graph *g, sl_value v) {
  int blocks[64];
  const sl_plan plan = {.batch = 8, .row_blocks = 4};
  assert_ok(sl_graph_status(g));
  assert_true(g->n_values <= 64);
  assert_ok(sl_row_blocks(g, &plan, blocks));
  return blocks[v];
}

static void large_matrices_are_cut(void **state) {
  (void)state;
  sl_graph *g = toy_graph(8);
  const sl_value large = parameter(g, "large", SL_SHAPE(128, 3)), small = parameter(g, "small", SL_SHAPE(127, 3)),
                 vector = parameter(g, "vector", SL_SHAPE(128)), number = parameter(g, "number", SL_SHAPE());
  const sl_value x = toy_input(g, 200);
  apply(g, &takes_all, large, SL_NONE), apply(g, &takes_all, small, SL_NONE), apply(g, &takes_all, vector, SL_NONE);
  assert_int_equal(blocks_of(g, large), 4);
  assert_int_equal(blocks_of(g, small), 1); /* 32 rows a block are the least */
  assert_int_equal(blocks_of(g, vector), 1);
  assert_int_equal(blocks_of(g, number), 1);
  assert_int_equal(blocks_of(g, x), 1); /* samples are cut by shards */
  sl_graph_destroy(g);
}

static void vectors_are_cut_with_their_matrix(void **state) {
  (void)state;
  sl_graph *g = toy_graph(8);
  const sl_value w = parameter(g, "w", SL_SHAPE(128, 3)), bias = parameter(g, "bias", SL_SHAPE(128)),
                 other = parameter(g, "other", SL_SHAPE(256));
  apply(g, &takes_all, w, bias), apply(g, &takes_all, w, other);
  assert_int_equal(blocks_of(g, w), 4);
  assert_int_equal(blocks_of(g, bias), 4);
  assert_int_equal(blocks_of(g, other), 1); /* other rows: no class with w */
  sl_graph_destroy(g);
}

/* A weight, a value made from it block by block, and a parameter that is updated with that value. */
static void a_class_is_cut_alike(void **state) {
  (void)state;
  for (int spoilt = 0; spoilt < 5; spoilt++) {
    sl_graph *g = toy_graph(8);
    const sl_value w = parameter(g, "w", SL_SHAPE(128, 3)), momentum = parameter(g, "m", SL_SHAPE(128, 3));
    const sl_value made = apply(g, &maps, w, momentum), made_again = apply(g, &maps, made, SL_NONE);
    if (spoilt == 1) apply(g, &wants_whole, made_again, SL_NONE); /* a use that does not allow blocks */
    if (spoilt == 2) apply(g, &fuses, momentum, SL_NONE);         /* an output that cannot be made block by block */
    if (spoilt == 3) apply(g, &maps, momentum, parameter(g, "long", SL_SHAPE(256, 3))); /* other rows */
    if (spoilt == 4) apply(g, &maps, momentum, parameter(g, "short", SL_SHAPE(64, 3))); /* too few rows */
    const int want = spoilt == 0 || spoilt == 2 ? 4 : 1;
    assert_int_equal(blocks_of(g, w), want);
    assert_int_equal(blocks_of(g, momentum), want);
    assert_int_equal(blocks_of(g, made), want);
    assert_int_equal(blocks_of(g, made_again), want);
    if (spoilt == 2) assert_int_equal(blocks_of(g, g->n_values - 1), 1);
    sl_graph_destroy(g);
  }
}

static void one_block_cuts_nothing(void **state) {
  (void)state;
  sl_graph *g = toy_graph(8);
  const sl_value w = parameter(g, "w", SL_SHAPE(128, 3));
  int blocks[8] = {0};
  const sl_plan plan = {.batch = 8, .row_blocks = 1};
  assert_ok(sl_row_blocks(g, &plan, blocks));
  assert_int_equal(blocks[w], 1);
  sl_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_matrices_are_cut),
      cmocka_unit_test(vectors_are_cut_with_their_matrix),
      cmocka_unit_test(a_class_is_cut_alike),
      cmocka_unit_test(one_block_cuts_nothing),
  };
  return cmocka_run_group_tests_name("row_blocks", tests, NULL, NULL);
}
