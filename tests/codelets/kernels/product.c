/* The register tiles' promise: linear and conv2d give the same bits with AVX2 and AVX-512, whatever the vectors' width,
 * and with a baseline that has fused multiply-adds. */
#include <stdio.h>
#include <string.h>

#include "tests/codelets/cases.h"
#include "tests/support/interpret.h"
#include "tests/support/scratch.h"

static void draw(interpreter *run, const sl_graph *graph) {
  for (int v = 0; v < graph->n_values; v++) {
    float *data = run->data[v];
    if (graph->value[v]->producer < 0)
      for (int64_t i = 0; i < sl_shape_count(&graph->value[v]->shape); i++)
        data[i] = (float)sl_random_normal(11, 1, (uint32_t)v, (uint64_t)i);
  }
}

static void same_bits(const test_case *c) {
  int64_t batch = 1;
  for (int i = c->n_in - 1; i >= 0; i--)
    if (c->in[i].scope == SL_SCOPE_SAMPLE) batch = c->in[i].shape.dim[0];
  sl_graph *graph = sl_graph_new(batch);
  assert_non_null(graph);
  sl_value in[CASE_INPUTS], out[SL_MAX_OUT];
  for (int i = 0; i < c->n_in; i++) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    in[i] = sl_graph_push_value(graph, &(sl_value_info){.name = name,
                                                        .dtype = c->in[i].dtype,
                                                        .shape = c->in[i].shape,
                                                        .scope = c->in[i].scope,
                                                        .role = SL_ROLE_PARAMETER,
                                                        .blocks = 1,
                                                        .producer = -1,
                                                        .leaf = -1,
                                                        .shard = -1,
                                                        .block = -1});
  }
  sl_graph_add(graph, sl_operation_find(c->op), "case", c->attr, in, c->n_in, out, c->n_out);
  assert_ok(sl_graph_status(graph));
  interpreter run[2];
  const sl_isa isa[2] = {SL_ISA_AVX2_FMA, SL_ISA_AVX512_VL};
  for (int r = 0; r < 2; r++) {
    assert_ok(interpret_create(graph, isa[r], sl_team_current(), &run[r]));
    draw(&run[r], graph);
    assert_ok(interpret_run(&run[r], 0, graph->n_nodes));
  }
  for (int j = 0; j < c->n_out; j++)
    if (memcmp(run[0].data[out[j]], run[1].data[out[j]], sl_value_bytes(sl_graph_value(graph, out[j]))) != 0)
      fail_msg("%s %s: output %d has other bits with AVX-512 than with AVX2", c->op, c->what, j);
  interpret_destroy(&run[0]), interpret_destroy(&run[1]);
  sl_graph_destroy(graph);
}

static void all(const test_case *cases) {
  if (!sl_isa_runs(SL_ISA_AVX512_VL) || !sl_op_linear.cpu[SL_ISA_AVX512_VL]) skip();
  for (const test_case *c = cases; c->op; c++)
    if (!c->bench && !c->build) same_bits(c);
}
static void linear(void **state) { (void)state, all(cases_linear); }
static void conv2d(void **state) { (void)state, all(cases_conv2d); }

/* ---- shapes that do not fit ------------------------------------------------------------------------------------- */

static sl_value images(sl_graph *graph, int64_t side, int64_t channels) {
  return sl_input(graph, "images", 0, SL_F32, SL_SHAPE(side, side, channels));
}
static void refused(sl_graph *graph, const char *words) {
  assert_int_equal(sl_graph_status(graph), SL_ESHAPE);
  if (!strstr(sl_error(), words) || !strstr(sl_error(), "layer1"))
    fail_msg("'%s' without '%s' or the layer", sl_error(), words);
  sl_graph_destroy(graph);
}

static void shapes(void **state) {
  (void)state;
  sl_graph *graph = sl_graph_new(2);
  sl_conv2d(graph, "layer1", images(graph, 1, 3), 8, 5, 1, 1, 1);
  refused(graph, "kernel 5 does not fit the padded input 3x3");
  graph = sl_graph_new(2);
  sl_conv2d(graph, "layer1", sl_input(graph, "images", 0, SL_F32, SL_SHAPE(28)), 8, 3, 1, 1, 1);
  refused(graph, "expects images [B, H, W, C], got [2, 28]");
  graph = sl_graph_new(2);
  sl_conv2d(graph, "layer1", images(graph, 8, 3), 8, 3, 0, 1, 1);
  refused(graph, "stride 0");
  graph = sl_graph_new(2);
  sl_conv2d(graph, "layer1", sl_input(graph, "images", 0, SL_U8, SL_SHAPE(8, 8, 3)), 8, 3, 1, 1, 1);
  refused(graph, "takes F32, not U8");
  graph = sl_graph_new(2);
  sl_linear(graph, "layer1", sl_input(graph, "x", 0, SL_U8, SL_SHAPE(12)), 4, SL_ACTIVATION_NONE);
  refused(graph, "takes F32, not U8");
  graph = sl_graph_new(2);
  sl_conv2d(graph, "layer1", images(graph, 8, 3), 0, 3, 1, 1, 1);
  refused(graph, "shape [0, 3, 3, 3]");
  graph = sl_graph_new(2);
  sl_linear(graph, "layer1", sl_input(graph, "x", 0, SL_F32, SL_SHAPE(12)), 0, SL_ACTIVATION_NONE);
  refused(graph, "shape [0, 12]");
  graph = sl_graph_new(2);
  sl_linear(graph, "layer1", sl_input(graph, "x", 0, SL_F32, SL_SHAPE(12)), 4, SL_ACTIVATION_NONE);
  sl_linear(graph, "layer1", sl_input(graph, "z", 1, SL_F32, SL_SHAPE(13)), 4, SL_ACTIVATION_NONE);
  refused(graph, "[4, 12]");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(linear), cmocka_unit_test(conv2d), cmocka_unit_test(shapes)};
  return cmocka_run_group_tests_name("product", tests, NULL, NULL);
}
