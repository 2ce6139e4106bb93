/* Invalid inputs of operations: incompatible shapes are refused with the layer's name, targets out of range fail the
 * step, and values that are not finite always reach the result. */
#include <stdlib.h>

#include "tests/codelets/cases.h"
#include "tests/support/interpret.h"
#include "tests/support/scratch.h"

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
  const double mean[5] = {0}, one[5] = {1, 1, 1, 1, 1};
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
  REFUSED(SL_ESHAPE, "U8, not F32", sl_normalize(g, "odd", samples(g, SL_F32, images), 1, mean, one));
  REFUSED(SL_EINVAL, "deviation", sl_normalize(g, "odd", samples(g, SL_U8, images), 1, mean, mean));
  REFUSED(SL_ESHAPE, "means of 2 channels", sl_normalize(g, "odd", samples(g, SL_U8, images), 2, mean, one));
  REFUSED(SL_EINVAL, "means of 5 channels", sl_normalize(g, "odd", samples(g, SL_U8, images), 5, mean, one));
  REFUSED(SL_EINVAL, "slot 8", sl_input(g, "odd", SL_MAX_INPUTS, SL_F32, SL_SHAPE(3)));
  REFUSED(SL_ESHAPE, "dimensions", sl_input(g, "odd", 0, SL_F32, SL_SHAPE(1, 1, 1, 1, 1, 1)));
  REFUSED(SL_ESHAPE, "targets are I32, not F32", sl_count_targets(g, "odd", samples(g, SL_F32, SL_SHAPE(4))));
  REFUSED(SL_ESHAPE, "logits [4, 10] and targets I32 [4, 2]",
          sl_accuracy(g, "odd", samples(g, SL_F32, rows), samples(g, SL_I32, SL_SHAPE(4, 2))));
  REFUSED(SL_ESHAPE, "number of targets is F64 [1], not F32 [1]",
          sl_cross_entropy(g, "odd", samples(g, SL_F32, rows), samples(g, SL_I32, SL_SHAPE(4)),
                           whole(g, "count", SL_F32, SL_SHAPE(1))));
  REFUSED(SL_ESHAPE, "takes samples F32", sl_batchnorm(g, "odd", whole(g, "x", SL_F32, rows), SL_BATCHNORM_LEAF, 1));
  REFUSED(SL_ESHAPE, "tokens F32 [4, 10]", sl_embedding(g, "odd", samples(g, SL_F32, rows), 10, 3, 1));
  REFUSED(SL_ESHAPE, "x is F32 [B, T, C]", sl_positional(g, "odd", samples(g, SL_F32, rows), 10, 1));
  REFUSED(SL_ESHAPE, "10 positions, but the model has 9",
          sl_positional(g, "odd", samples(g, SL_F32, SL_SHAPE(4, 10, 3)), 9, 1));
  REFUSED(SL_ESHAPE, "F32 [B, ..., C], not I32 [4, 10]", sl_layernorm(g, "odd", samples(g, SL_I32, rows), 1e-5));
  REFUSED(SL_EINVAL, "eps = -1", sl_layernorm(g, "odd", samples(g, SL_F32, rows), -1));
  REFUSED(SL_EINVAL, "smoothing of 1.5",
          sl_cross_entropy_smoothed(g, "odd", samples(g, SL_F32, rows), samples(g, SL_I32, SL_SHAPE(4)),
                                    whole(g, "count", SL_F64, SL_SHAPE(1)), 1.5));
  REFUSED(SL_ESHAPE, "[4, 10] and [4, 3, 4] have different numbers of elements",
          sl_reshape(g, "odd", samples(g, SL_F32, rows), SL_SHAPE(3, 4)));
  REFUSED(SL_ESHAPE, "weights [3, 11] do not fit inputs [4, 10]",
          sl_linear_with(g, "odd", samples(g, SL_F32, rows), whole(g, "w", SL_F32, SL_SHAPE(3, 11)), SL_NONE));
  const sl_shape tokens = SL_SHAPE(4, 5, 12);
  REFUSED(SL_EINVAL, "0 heads", sl_attention(g, "odd", samples(g, SL_F32, tokens), 0, 0, SL_NONE));
  REFUSED(SL_ESHAPE, "q, k and v of 3 heads", sl_attention(g, "odd", samples(g, SL_F32, tokens), 3, 0, SL_NONE));
  REFUSED(SL_ESHAPE, "[B, T, 3C], not F32 [4, 10]", sl_attention(g, "odd", samples(g, SL_F32, rows), 1, 0, SL_NONE));
  REFUSED(SL_ESHAPE, "lengths are I32, one for each sample of [4, 5, 12], not F32 [4]",
          sl_attention(g, "odd", samples(g, SL_F32, tokens), 2, 0, samples(g, SL_F32, SL_SHAPE(4))));
  sl_value x;
  REFUSED(SL_EINVAL, "bound of 0", (x = whole(g, "x", SL_F32, rows), sl_clip_factor(g, "odd", &x, 1, 0, SL_NONE)));
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
           sl_clip_factor(g, "clip", gradient, 2, 1, SL_NONE));
  sl_adam(g, &(sl_adam_options){0.9, 0.999, 1e-8, 0.01}, parameter, gradient, 2, loss, SL_NONE);
  sl_lamb(g, &(sl_lamb_options){0.9, 0.999, 1e-6, 0.01}, parameter, gradient, 2, loss, SL_NONE);
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

/* Builds a graph by the given function and runs it on the caller's data. */
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

    /* Any such logit makes the loss not finite if its row counts; in other rows it has no effect. */
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

/* Tokens beyond the table fail the step; all others give their rows, also through a tied head. */
static void tokens(void **state) {
  (void)state;
  EACH_ISA(isa) {
    scene s = {.graph = sl_graph_new(3)};
    sl_value x = sl_embedding(s.graph, "wte", sl_input(s.graph, "t", 0, SL_I32, SL_SHAPE(4)), 5, 2, 0.5);
    sl_value table = sl_graph_find(s.graph, "wte.weight"), y = sl_linear_with(s.graph, "head", x, table, SL_NONE);
    assert_true(sl_graph_value(s.graph, table)->init.kind == SL_INIT_NORMAL);
    assert_true(sl_graph_value(s.graph, table)->init.a == 0.5);
    open_scene(&s, isa);
    int32_t t[12] = {0, 1, 2, 3, 4, 4, 4, 4, 0, 2, 1, 3};
    float *W = s.run.data[table];
    const float *head = s.run.data[y];
    for (int i = 0; i < 10; i++) W[i] = (float)(i + 1);
    s.run.step.input[0] = t;
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    for (int i = 0; i < 12; i++)
      for (int v = 0; v < 5; v++)
        assert_true(head[5 * i + v] == W[2 * t[i]] * W[2 * v] + W[2 * t[i] + 1] * W[2 * v + 1]);
    t[6] = 5;
    assert_fails(SL_EINVAL, "token 5 at position 2 of sample 1 is not one of the vocabulary's 5",
                 interpret_run(&s.run, 0, s.graph->n_nodes));
    t[6] = -1;
    assert_fails(SL_EINVAL, "token -1 at position 2 of sample 1", interpret_run(&s.run, 0, s.graph->n_nodes));
    close_scene(&s);
  }
}

/* Two steps of lamb as a whole, on a matrix and a vector, against the paper's lines in double. */
static void lamb(void **state) {
  (void)state;
  EACH_ISA(isa) {
    scene s = {.graph = sl_graph_new(1)};
    const sl_lamb_options o = {0.9, 0.99, 1e-6, 0.1};
    const sl_value p[2] = {whole(s.graph, "w", SL_F32, SL_SHAPE(3, 70)), whole(s.graph, "b", SL_F32, SL_SHAPE(5))};
    const sl_value g[2] = {whole(s.graph, "dw", SL_F32, SL_SHAPE(3, 70)), whole(s.graph, "db", SL_F32, SL_SHAPE(5))};
    sl_value loss = whole(s.graph, "loss", SL_F64, SL_SHAPE(1));
    sl_lamb(s.graph, &o, p, g, 2, loss, SL_NONE);
    open_scene(&s, isa);
    for (int v = 0; v < s.graph->n_values; v++)
      if (s.graph->value[v]->role == SL_ROLE_STATE) memset(s.run.data[v], 0, sl_value_bytes(s.graph->value[v]));
    *(double *)s.run.data[loss] = 1;
    double P[2][210], m[2][210] = {{0}}, v[2][210] = {{0}}, u[210];
    const int n[2] = {210, 5};
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < n[k]; i++) P[k][i] = ((float *)s.run.data[p[k]])[i] = (float)(i % 17) * 0.25f - 2;
    for (int step = 1; step <= 2; step++) {
      s.run.step.number = step;
      for (int k = 0; k < 2; k++) {
        double of_p = 0, of_u = 0, decay = k ? 0 : o.decay; /* vectors do not decay */
        for (int i = 0; i < n[k]; i++) {
          const double force = ((float *)s.run.data[g[k]])[i] = (float)((i * 7 + step) % 13) * 0.125f - 0.5f;
          m[k][i] = o.beta1 * m[k][i] + (1 - o.beta1) * force;
          v[k][i] = o.beta2 * v[k][i] + (1 - o.beta2) * force * force;
          u[i] =
              m[k][i] / (1 - pow(o.beta1, step)) / (sqrt(v[k][i] / (1 - pow(o.beta2, step))) + o.eps) + decay * P[k][i];
          of_p += P[k][i] * P[k][i];
          of_u += u[i] * u[i];
        }
        for (int i = 0; i < n[k]; i++) P[k][i] -= s.run.step.learning_rate * sqrt(of_p / of_u) * u[i];
      }
      assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
      for (int k = 0; k < 2; k++)
        for (int i = 0; i < n[k]; i++)
          if (!(fabs((double)((float *)s.run.data[p[k]])[i] - P[k][i]) < 1e-5))
            fail_msg("step %d, parameter %d, element %d: %g where %g was expected", step, k, i,
                     (double)((float *)s.run.data[p[k]])[i], P[k][i]);
    }
    close_scene(&s);
  }
}

enum { FUNCTIONS = 14 };
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
    case 10:
      return sl_layernorm(g, "f", x, 1e-5);
    case 11:
      return sl_positional(g, "f", sl_reshape(g, "f", x, SL_SHAPE(16, 19)), 17, 1);
    case 12:
      return sl_linear_with(
          g, "f", x,
          sl_graph_tensor(g, SL_ROLE_PARAMETER, "f", "weight", SL_F32, SL_SHAPE(3, 19), (sl_init){SL_INIT_CONSTANT, 1}),
          SL_NONE);
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

/* A NaN in a token that counts makes its sample's result NaN; tokens after the last one that counts change no bit. */
static void attention(void **state) {
  (void)state;
  enum { T = 37, C = 6, ROW = 3 * C };
  EACH_ISA(isa) for (int causal = 0; causal < 2; causal++) {
    scene s = {.graph = sl_graph_new(2)};
    sl_value x = sl_input(s.graph, "x", 0, SL_F32, SL_SHAPE(T, ROW)),
             lengths = sl_input(s.graph, "n", 1, SL_I32, (sl_shape){0});
    sl_value y = sl_attention(s.graph, "f", x, 2, causal, lengths);
    open_scene(&s, isa);
    static float in[2 * T * ROW], before[2 * T * C];
    int32_t length[2] = {T, 21};
    for (int i = 0; i < 2 * T * ROW; i++) in[i] = (float)(i * 7 % 13 - 6) / 4;
    s.run.step.input[0] = in;
    s.run.step.input[1] = length;
    const float *out = s.run.data[y];
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    memcpy(before, out, sizeof before);
    for (int i = 0; i < 2 * T * C; i++) assert_true(isfinite(out[i]));
    for (int at = 0; at < 2 * T * ROW; at += 5) {
      const int sample = at / (T * ROW), counts = at / ROW % T < length[sample];
      float was = in[at];
      in[at] = NAN;
      assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
      int found = 0;
      for (int i = 0; i < T * C; i++) found |= isnan(out[sample * T * C + i]) != 0;
      if (counts && !found) fail_msg("attention hides a NaN of element %d (%s)", at, sl_isa_name(isa));
      if (!counts && memcmp(before, out, sizeof before)) fail_msg("element %d after the last token changes bits", at);
      in[at] = was;
    }
    length[1] = T + 1;
    assert_fails(SL_EINVAL, "length 38 of sample 1 is not within its 37 tokens",
                 interpret_run(&s.run, 0, s.graph->n_nodes));
    length[1] = -1;
    assert_fails(SL_EINVAL, "length -1 of sample 1", interpret_run(&s.run, 0, s.graph->n_nodes));
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
  for (int n = 1; n <= 40; n++) { /* numbers whose sum depends on the order of additions */
    scene t = {.graph = sl_graph_new(1)};
    sl_value norms = whole(t.graph, "norms", SL_F64, SL_SHAPE(n));
    sl_value factor = sl_graph_add1(t.graph, &sl_op_clip_factor, "clip", &(sl_clip_attr){1e-3, 0}, &norms, 1);
    open_scene(&t, SL_ISA_BASELINE);
    double *x = t.run.data[norms];
    for (int i = 0; i < n; i++) x[i] = (double)sl_random_u32(1, 1, 1, (uint64_t)i) * 0x1p-31;
    assert_ok(interpret_run(&t.run, 0, 1));
    assert_true(*(double *)t.run.data[factor] == 1e-3 / sqrt(tree(x, n)));
    close_scene(&t);
  }
  scene s = {.graph = sl_graph_new(1)};
  sl_value g = whole(s.graph, "g", SL_F32, SL_SHAPE(5, 7)), factor = sl_clip_factor(s.graph, "clip", &g, 1, 1, SL_NONE);
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

/* Gradients that are too large by the loss scale: the factor divides by it and bounds the true norm; a gradient that
 * overflowed gives 0, with which nothing is updated and the scale is halved; after many steps without, it doubles. */
static void loss_scaling(void **state) {
  (void)state;
  scene s = {.graph = sl_graph_new(1)};
  sl_value scaling;
  const sl_value g = whole(s.graph, "g", SL_F32, SL_SHAPE(2, 2)), guard = whole(s.graph, "guard", SL_F64, SL_SHAPE(1)),
                 p = whole(s.graph, "p", SL_F32, SL_SHAPE(2, 2)),
                 scale = sl_loss_scale(s.graph, SL_LOSS_SCALE_FIRST, &scaling),
                 factor = sl_clip_factor(s.graph, "clip", &g, 1, 2, scale);
  sl_sgd(s.graph, &(sl_sgd_options){0.9, 0}, &p, &g, 1, guard, factor);
  sl_loss_scale_update(s.graph, SL_LOSS_SCALE_FIRST, scaling, guard, factor);
  open_scene(&s, SL_ISA_BASELINE);
  float *x = s.run.data[g], *of = s.run.data[scaling], *weight = s.run.data[p];
  double *loss = s.run.data[guard];
  const double *y = s.run.data[factor];
  for (int v = 0; v < s.graph->n_values; v++)
    if (s.graph->value[v]->role == SL_ROLE_STATE) memset(s.run.data[v], 0, sl_value_bytes(s.graph->value[v]));
  *loss = 1;
  const float first[4] = {65536, 0, 0, 0};
  memcpy(x, first, sizeof first);
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(*(double *)s.run.data[scale] == 65536 && *y == 0x1p-16); /* a norm of 1 */
  assert_true(of[0] == 0 && of[1] == 1);
  x[1] = 10 * 65536.0f, x[0] = 0;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(*y == 0.2 * 0x1p-16); /* a norm of 10, and a bound of 2 */
  float before[4];
  memcpy(before, weight, sizeof before);
  x[2] = INFINITY;
  of[1] = SL_LOSS_SCALE_GROWS - 1;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(*y == 0 && of[0] == -1 && of[1] == 0);
  assert_memory_equal(weight, before, sizeof before);
  x[2] = 0;
  of[1] = SL_LOSS_SCALE_GROWS - 1;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(*(double *)s.run.data[scale] == 32768 && *y == 0.1 * 0x1p-15); /* a norm of 20 */
  assert_true(of[0] == 0 && of[1] == 0);
  of[0] = SL_LOSS_SCALE_MOST - SL_LOSS_SCALE_FIRST, of[1] = SL_LOSS_SCALE_GROWS - 1;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(of[0] == SL_LOSS_SCALE_MOST - SL_LOSS_SCALE_FIRST);
  x[2] = INFINITY;
  for (int scale_of = 1; scale_of >= 0; scale_of--) { /* halved to the least one, and no further */
    of[0] = SL_LOSS_SCALE_LEAST - SL_LOSS_SCALE_FIRST + scale_of;
    assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
    assert_true(of[0] == SL_LOSS_SCALE_LEAST - SL_LOSS_SCALE_FIRST);
  }
  *loss = NAN; /* the run ends, so the state stays */
  x[2] = INFINITY;
  of[0] = 1, of[1] = 5;
  assert_ok(interpret_run(&s.run, 0, s.graph->n_nodes));
  assert_true(of[0] == 1 && of[1] == 5);
  close_scene(&s);
}

int main(void) {
  if (sl_team_create(NULL, 2, NULL, &team) != SL_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),     cmocka_unit_test(updates),   cmocka_unit_test(targets),
      cmocka_unit_test(nan_passes), cmocka_unit_test(attention), cmocka_unit_test(clipping),
      cmocka_unit_test(tokens),     cmocka_unit_test(lamb),      cmocka_unit_test(loss_scaling),
  };
  int result = cmocka_run_group_tests(tests, NULL, NULL);
  sl_team_destroy(team);
  return result;
}
