/* tasks/graph/precision.c: which values become 16 bits wide, one copy of each weight in front of its first reader, and
 * the refusal of an operation that would get a type which it does not take. */
#include "tasks/graph/precision.h"

#include <string.h>

#include "tests/support/scratch.h"

static sl_status same_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)n_in;
  for (int j = 0; j < n_out; j++) out[j].shape = in[0]->shape;
  return SL_OK;
}
static sl_status sum_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out, int n_out) {
  (void)attr, (void)in, (void)n_in, (void)n_out;
  out[0].shape = SL_SHAPE(1);
  out[0].scope = SL_SCOPE_WHOLE;
  return SL_OK;
}
static sl_status convert_shape(const void *attr, const sl_value_info *const *in, int n_in, sl_value_info *out,
                               int n_out) {
  out[0].dtype = *(const sl_dtype *)attr;
  return same_shape(attr, in, n_in, out, n_out);
}

static const sl_operation convert = {
    .name = "convert", .attr_bytes = sizeof(sl_dtype), .shape = convert_shape, .any_dtype = 1};
static const sl_operation source = {.name = "source", .shape = same_shape},
                          plain = {.name = "plain", .shape = same_shape},
                          moves = {.name = "moves", .shape = same_shape, .any_dtype = 1},
                          sum = {.name = "sum", .shape = sum_shape},
                          product = {.name = "product", .shape = same_shape, .copies = 2},
                          statistics = {.name = "statistics", .shape = same_shape, .wide_out = 2},
                          careful = {.name = "careful", .shape = same_shape, .wide_in = 2},
                          update = {.name = "update", .shape = same_shape, .update = {1}};

enum { BATCH = 8, WIDTH = 3 };

typedef struct made {
  sl_graph *g;
  sl_value x, weight, first, second, pair[2], total, moved;
} made;

/* x -> product -> statistics -> (careful) -> product with the same weight -> sum; the weight is updated. */
static made build(void) {
  made m = {.g = sl_graph_create(BATCH, NULL, NULL, &convert)};
  assert_non_null(m.g);
  sl_value_info info = {.name = "x",
                        .dtype = SL_F32,
                        .shape = SL_SHAPE(BATCH, WIDTH),
                        .scope = SL_SCOPE_SAMPLE,
                        .role = SL_ROLE_PARAMETER,
                        .producer = -1};
  const sl_value outside = sl_graph_push_value(m.g, &info);
  m.x = sl_graph_add1(m.g, &source, "source", NULL, &outside, 1);
  m.weight = sl_graph_tensor(m.g, SL_ROLE_PARAMETER, "fc", "weight", SL_F32, SL_SHAPE(WIDTH, WIDTH),
                             (sl_init){.kind = SL_INIT_CONSTANT, .a = 1});
  m.first = sl_graph_add1(m.g, &product, "first", NULL, (sl_value[]){m.x, m.weight}, 2);
  sl_graph_add(m.g, &statistics, "norm", NULL, &m.first, 1, m.pair, 2);
  const sl_value used = sl_graph_add1(m.g, &careful, "use", NULL, m.pair, 2);
  m.second = sl_graph_add1(m.g, &product, "second", NULL, (sl_value[]){used, m.weight}, 2);
  m.moved = sl_graph_add1(m.g, &moves, "moved", NULL, &m.pair[1], 1);
  m.total = sl_graph_add1(m.g, &sum, "total", NULL, &m.second, 1);
  sl_graph_add1(m.g, &update, "update", NULL, &m.weight, 1);
  assert_ok(sl_graph_status(m.g));
  return m;
}

static sl_dtype type(const made *m, sl_value v) { return sl_graph_value(m->g, v)->dtype; }

static void types(void **state) {
  (void)state;
  made m = build();
  assert_ok(sl_precision_apply(m.g, SL_PRECISION_BF16));
  assert_int_equal(type(&m, m.x), SL_BF16);
  assert_int_equal(type(&m, m.first), SL_BF16);
  assert_int_equal(type(&m, m.pair[0]), SL_BF16);
  assert_int_equal(type(&m, m.pair[1]), SL_F32); /* wide_out */
  assert_int_equal(type(&m, m.moved), SL_F32);   /* only moves what is wide */
  assert_int_equal(type(&m, m.total), SL_F32);   /* a sum */
  assert_int_equal(type(&m, m.weight), SL_F32);
  sl_graph_destroy(m.g);
}

static void copies(void **state) {
  (void)state;
  made m = build();
  const int before = m.g->n_nodes;
  assert_ok(sl_precision_apply(m.g, SL_PRECISION_BF16));
  assert_int_equal(m.g->n_nodes, before + 1); /* both products share it */
  int at = 0;
  while (m.g->node[at]->op != &convert) at++;
  const sl_value copy = m.g->node[at]->out[0];
  assert_int_equal(type(&m, copy), SL_BF16);
  assert_string_equal(m.g->node[at + 1]->name, "first");
  for (int i = 0; i < m.g->n_nodes; i++) {
    const sl_node *node = m.g->node[i];
    if (node->op == &product) assert_int_equal(node->in[1], copy);
    if (node->op == &update) assert_int_equal(node->in[0], m.weight);
    assert_int_equal(node->logical, i);
    for (int j = 0; j < node->n_out; j++)
      if (sl_graph_value(m.g, node->out[j])->role == SL_ROLE_TEMPORARY)
        assert_int_equal(sl_graph_value(m.g, node->out[j])->producer, i);
  }
  sl_graph_destroy(m.g);
}

static void refusal(void **state) {
  (void)state;
  made m = build();
  sl_graph_add1(m.g, &plain, "careless", NULL, &m.pair[1], 1);
  assert_fails(SL_EINVAL, "layer 'careless' (plain): input 0 is F32", sl_precision_apply(m.g, SL_PRECISION_BF16));
  sl_graph_destroy(m.g);
  m = build();
  sl_graph_add1(m.g, &careful, "careless", NULL, (sl_value[]){m.first, m.first}, 2);
  assert_fails(SL_EINVAL, "layer 'careless' (careful): input 1 is BF16", sl_precision_apply(m.g, SL_PRECISION_BF16));
  sl_graph_destroy(m.g);
}

static void fp32(void **state) {
  (void)state;
  made m = build();
  const int before = m.g->n_nodes;
  assert_ok(sl_precision_apply(m.g, SL_PRECISION_FP32));
  assert_int_equal(m.g->n_nodes, before);
  for (sl_value v = 0; v < m.g->n_values; v++) assert_int_equal(type(&m, v), SL_F32);
  sl_graph_destroy(m.g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types),
      cmocka_unit_test(copies),
      cmocka_unit_test(refusal),
      cmocka_unit_test(fp32),
  };
  return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
