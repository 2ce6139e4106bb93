/* What operations do with what they cannot take: shapes that do not fit are refused with the layer's name, targets out
 * of range fail the step, and values that are not finite show in the result, never vanish. */
#include <stdlib.h>

#include "tests/codelets/cases.h"
#include "tests/interpret.h"
#include "tests/scratch.h"

static sl_team *team;

static sl_value samples(sl_graph *graph, sl_dtype dtype, sl_shape shape) {
  shape.ndim--;
  memmove(shape.dim, shape.dim + 1, (size_t)shape.ndim * sizeof *shape.dim);
  return sl_input(graph, "in", graph->n_nodes, dtype, shape);
}
static sl_value whole(sl_graph *graph, const char *what, sl_dtype dtype, sl_shape shape) {
  return sl_graph_tensor(graph, SL_ROLE_PARAMETER, "in", what, dtype, shape, (sl_init){SL_INIT_CONSTANT, 0});
}

static void shapes(void **state) {
  (void)state;
  const sl_shape images = SL_SHAPE(4, 7, 7, 3), rows = SL_SHAPE(4, 10);
#define REFUSED(code, words, add)                          \
  do {                                                     \
    sl_graph *g = sl_graph_new(4);                         \
    assert_ok(sl_graph_status(g));                         \
    add;                                                   \
    assert_fails(code, "layer 'odd'", sl_graph_status(g)); \
    assert_fails(code, words, sl_graph_status(g));         \
    sl_graph_destroy(g);                                   \
  } while (0)
  REFUSED(SL_ESHAPE, "cannot be added",
          sl_add(g, "odd", samples(g, SL_F32, rows), samples(g, SL_F32, SL_SHAPE(4, 11))));
  REFUSED(SL_ESHAPE, "[B, H, W, C], not [4, 10]", sl_maxpool(g, "odd", samples(g, SL_F32, rows), 2, 2, 0));
  REFUSED(SL_ESHAPE, "kernel of 9 does not fit", sl_maxpool(g, "odd", samples(g, SL_F32, images), 9, 1, 0));
  REFUSED(SL_EINVAL, "pad 2", sl_avgpool(g, "odd", samples(g, SL_F32, images), 3, 1, 2));
  REFUSED(SL_EINVAL, "stride 0", sl_avgpool(g, "odd", samples(g, SL_F32, images), 3, 0, 0));
  REFUSED(SL_EINVAL, "kernel 17", sl_maxpool(g, "odd", samples(g, SL_F32, images), 17, 1, 8));
  REFUSED(SL_EINVAL, "p = 1", sl_dropout(g, "odd", samples(g, SL_F32, rows), 1));
  REFUSED(SL_EINVAL, "p = nan", sl_dropout(g, "odd", samples(g, SL_F32, rows), NAN));
  REFUSED(SL_ESHAPE, "U8, not F32", sl_normalize(g, "odd", samples(g, SL_F32, images), 0, 1));
  REFUSED(SL_EINVAL, "deviation", sl_normalize(g, "odd", samples(g, SL_U8, images), 0, 0));
  REFUSED(SL_EINVAL, "slot 8", sl_input(g, "odd", SL_MAX_INPUTS, SL_F32, SL_SHAPE(3)));
  REFUSED(SL_ESHAPE, "dimensions", sl_input(g, "odd", 0, SL_F32, SL_SHAPE(1, 1, 1, 1, 1, 1)));
  REFUSED(SL_ESHAPE, "targets are I32, not F32", sl_count_targets(g, "odd", samples(g, SL_F32, SL_SHAPE(4))));
  REFUSED(SL_ESHAPE, "logits [4, 10] and targets I32 [4, 2]",
          sl_accuracy(g, "odd", samples(g, SL_F32, rows), samples(g, SL_I32, SL_SHAPE(4, 2))));
  REFUSED(SL_ESHAPE, "number of targets is F64 [1], not F32 [1]",
          sl_cross_entropy(g, "odd", samples(g, SL_F32, rows), samples(g, SL_I32, SL_SHAPE(4)),
                           whole(g, "count", SL_F32, SL_SHAPE(1))));
  REFUSED(SL_ESHAPE, "takes samples F32", sl_batchnorm(g, "odd", whole(g, "x", SL_F32, rows), SL_BATCHNORM_LEAF, 1));
  sl_value x;
  REFUSED(SL_EINVAL, "bound of 0", (x = whole(g, "x", SL_F32, rows), sl_clip_factor(g, "odd", &x, 1, 0)));
#undef REFUSED
}

static void updates(void **state) {
  (void)state;
  sl_graph *g = sl_graph_new(4);
  const sl_value parameter[2] = {whole(g, "weight", SL_F32, SL_SHAPE(3, 5)), whole(g, "bias", SL_F32, SL_SHAPE(3))};
  const sl_value gradient[2] = {whole(g, "dw", SL_F32, SL_SHAPE(3, 5)), whole(g, "db", SL_F32, SL_SHAPE(3))};
  sl_value loss = whole(g, "loss", SL_F64, SL_SHAPE(1));
  int before = g->n_nodes;
  sl_sgd(g, &(sl_sgd_options){0.9, 1e-4}, parameter, gradient, 2, loss, SL_NONE);
  sl_adamw(g, &(sl_adamw_options){0.9, 0.999, 1e-8, 0.01}, parameter, gradient, 2, loss,
           sl_clip_factor(g, "clip", gradient, 2, 1));
  assert_ok(sl_graph_status(g));
  assert_int_equal(g->phase, SL_PHASE_FORWARD);
  for (int i = before; i < g->n_nodes; i++) assert_int_equal(g->node[i]->phase, SL_PHASE_UPDATE);
  const char *const states[] = {"in.weight.momentum", "in.bias.momentum", "in.weight.m", "in.bias.v"};
  for (int i = 0; i < 4; i++) {
    sl_value v = sl_graph_find(g, states[i]);
    if (v == SL_NONE) fail_msg("no state '%s'", states[i]);
    assert_int_equal(sl_graph_value(g, v)->role, SL_ROLE_STATE);
  }
  /* Weights decay, biases do not. */
  assert_true(((const sl_sgd_options *)g->node[before]->attr)->decay == 1e-4);
  assert_true(((const sl_sgd_options *)g->node[before + 1]->attr)->decay == 0);
  /* Outputs are the parameter and its states themselves. */
  assert_int_equal(g->node[before]->out[0], parameter[0]);
  sl_sgd(g, &(sl_sgd_options){0.9, 0}, parameter, gradient + 1, 1, loss, SL_NONE);
  assert_fails(SL_ESHAPE, "parameter 'in.weight'", sl_graph_status(g));
  sl_graph_destroy(g);
}

/* A graph of the function's making, run on data of the caller's. */
typedef struct scene {
  sl_graph *graph;
  interpreter run;
} scene;
static void open_scene(scene *s, sl_isa isa) {
  assert_ok(sl_graph_status(s->graph));
  assert_ok(interpret_create(s->graph, isa, team, &s->run));
}
static void close_scene(scene *s) {
  interpret_destroy(&s->run);
  sl_graph_destroy(s->graph);
}
#define EACH_ISA(isa)                             \
  for (sl_isa isa = 0; isa < SL_ISA_COUNT; isa++) \
    if (sl_isa_runs(isa) && sl_op_copy.cpu[isa])

static void targets(void **state) {
  (void)state;
  EACH_ISA(isa) {
    scene s = {.graph = sl_graph_new(4)};
    sl_value logits = sl_input(s.graph, "x", 0, SL_F32, SL_SHAPE(2, 10)),
             target = sl_input(s.graph, "t", 1, SL_I32, SL_SHAPE(2));
    sl_value count = sl_count_targets(s.graph, "count", target),
             loss = sl_cross_entropy(s.graph, "loss", logits, target, count);
    sl_value right = sl_accuracy(s.graph, "right", logits, target);
    open_scene(&s, isa);
    float x[4 * 2 * 10];
    int32_t t[4 * 2] = {1, 2, 3, -1, 4, 5, 6, -1};
    for (int i = 0; i < 80; i++) x[i] = (float)(i * 7 % 11);
    s.run.step.input[0] = x;
    s.run.step.input[1] = t;
    const double *l = s.run.data[loss], *n = s.run.data[count], *r = s.run.data[right];
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    assert_true(*n == 6 && isfinite(*l) && *l > 0);

    /* Each logit of a row that counts makes the loss something that shows; those of the others do not matter. */
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int b = 0; b < 3; b++)
      for (int i = 0; i < 80; i++) {
        float was = x[i];
        x[i] = bad[b];
        assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
        if (isfinite(*l) != (t[i / 10] < 0)) fail_msg("loss %g with logit %d = %g", *l, i, (double)bad[b]);
        x[i] = was;
      }
    /* A row with a NaN is never right. */
    for (int i = 0; i < 80; i++) x[i] = i % 10 == t[i / 10];
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    assert_true(*r == 6);
    x[19] = NAN;
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    assert_true(*r == 5);

    t[5] = 10; /* of sample 2 */
    assert_fails(SL_EINVAL, "target 10 of sample 2 is beyond the 10 classes",
                 interpret_run(&s.run, 0, s.graph->n_nodes));
    s.run.step.input[1] = NULL;
    assert_fails(SL_EINVAL, "no array in slot 1", interpret_run(&s.run, 0, s.graph->n_nodes));
    close_scene(&s);
  }
}

enum { FUNCTIONS = 11 };
static sl_value apply(sl_graph *g, int function, sl_value x) {
  switch (function) {
    case 0:
      return sl_relu(g, "f", x);
    case 1:
      return sl_gelu(g, "f", x, SL_GELU_ERF);
    case 2:
      return sl_gelu(g, "f", x, SL_GELU_TANH);
    case 3:
      return sl_add(g, "f", x, x);
    case 4:
      return sl_dropout(g, "f", x, 0);
    case 5:
      return sl_maxpool(g, "f", x, 2, 2, 0);
    case 6:
      return sl_maxpool(g, "f", x, 3, 1, 1);
    case 7:
      return sl_avgpool(g, "f", x, 3, 1, 1);
    case 8:
      return sl_softmax(g, "f", x);
    case 9:
      return sl_batchnorm(g, "f", x, SL_BATCHNORM_LEAF, 1);
    default:
      return sl_batchnorm(g, "f", x, SL_BATCHNORM_LEAF, 0);
  }
}

/* A NaN anywhere in x is a NaN somewhere in y. */
static void nan_passes(void **state) {
  (void)state;
  enum { COUNT = 2 * 4 * 4 * 19 };
  EACH_ISA(isa) for (int f = 0; f < FUNCTIONS; f++) {
    scene s = {.graph = sl_graph_new(2)};
    sl_value y = apply(s.graph, f, sl_input(s.graph, "x", 0, SL_F32, SL_SHAPE(4, 4, 19)));
    open_scene(&s, isa);
    for (int v = 0; v < s.graph->n_values; v++) /* parameters and running statistics: ones */
      if (s.graph->value[v]->producer < 0)
        for (int64_t i = 0; i < sl_shape_count(&s.graph->value[v]->shape); i++) ((float *)s.run.data[v])[i] = 1;
    static float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i * 7 % 13 - 6);
    s.run.step.input[0] = x;
    const float *out = s.run.data[y];
    const int64_t n = sl_shape_count(&s.graph->value[y]->shape);
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    for (int64_t i = 0; i < n; i++)
      if (isnan(out[i])) fail_msg("function %d gives NaN without being given one", f);
    for (int at = 0; at < COUNT; at += 5) {
      float was = x[at];
      x[at] = NAN;
      assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
      int found = 0;
      for (int64_t i = 0; i < n; i++) found |= isnan(out[i]) != 0;
      if (!found) fail_msg("function %d hides a NaN of element %d (%s)", f, at, sl_isa_name(isa));
      x[at] = was;
    }
    close_scene(&s);
  }
}

/* The definition: split at the largest power of two below n. */
static double tree(const double *x, int n) {
  if (n == 1) return x[0];
  int half = 1;
  while (2 * half < n) half *= 2;
  return tree(x, half) + tree(x + half, n - half);
}

static void clipping(void **state) {
  (void)state;
  for (int n = 1; n <= 40; n++) { /* numbers whose sum depends on the order */
    scene t = {.graph = sl_graph_new(1)};
    sl_value norms = whole(t.graph, "norms", SL_F64, SL_SHAPE(n));
    sl_value factor = sl_graph_add1(t.graph, &sl_op_clip_factor, "clip", &(sl_clip_attr){1e-3}, &norms, 1);
    open_scene(&t, SL_ISA_BASELINE);
    double *x = t.run.data[norms];
    for (int i = 0; i < n; i++) x[i] = (double)sl_random_u32(1, 1, 1, (uint64_t)i) * 0x1p-31;
    assert_ok(interpret_run(&t.run, 0, 1));
    assert_true(*(double *)t.run.data[factor] == 1e-3 / sqrt(tree(x, n)));
    close_scene(&t);
  }
  scene s = {.graph = sl_graph_new(1)};
  sl_value g = whole(s.graph, "g", SL_F32, SL_SHAPE(5, 7)), factor = sl_clip_factor(s.graph, "clip", &g, 1, 1);
  open_scene(&s, SL_ISA_BASELINE);
  float *x = s.run.data[g];
  const double *y = s.run.data[factor];
  for (int i = 0; i < 35; i++) x[i] = 0;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(*y == 1);
  x[3] = 4;
  x[33] = 3;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(*y == 0.2);
  const float bad[] = {NAN, INFINITY};
  for (int b = 0; b < 2; b++) {
    x[20] = bad[b];
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    assert_true(isnan(*y));
  }
  close_scene(&s);
}

int main(void) {
  if (sl_team_create(NULL, 2, NULL, &team) != SL_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),     cmocka_unit_test(updates),  cmocka_unit_test(targets),
      cmocka_unit_test(nan_passes), cmocka_unit_test(clipping),
  };
  int result = cmocka_run_group_tests(tests, NULL, NULL);
  sl_team_destroy(team);
  return result;
}
