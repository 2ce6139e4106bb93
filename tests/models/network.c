/* models/: the networks against what PyTorch made of the same weights and data in double precision (record.py), however
 * the plan cuts the work; errors that name the layer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/store.h"
#include "tasks/program.h"
#include "tests/models/recorded.h"
#include "tests/scratch.h"

enum { BATCH = 12, STEPS = 10 };
/* sgd at the usual rate would amplify rounding here: twelve samples are not enough for it. */
#define RATE(model) ((model)->training.optimizer == SL_OPTIMIZER_SGD ? 0.01 : 1e-3)

/* Word i of a stream, the same as words() in record.py. */
static uint32_t word(uint32_t i, uint32_t stream) {
  uint32_t h = i * 2654435761u + stream * 40503u + 1u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  h *= 3266489917u;
  return h ^ h >> 16;
}

/* Uniform in [-a, a); the weights of normalisations about 1. */
static void fill(sl_tensor *t, uint32_t stream) {
  const size_t length = strlen(t->name);
  const int norm = strstr(t->name, "ln_") || strstr(t->name, "bn") || strstr(t->name, "downsample.1");
  const float centre = norm && strcmp(t->name + length - 6, "weight") == 0 ? 1.0f : 0.0f;
  const int64_t n = sl_shape_count(&t->shape);
  const float a = t->shape.ndim > 1 ? (float)(1 / sqrt((double)n / (double)t->shape.dim[0])) : 0.05f;
  for (int64_t i = 0; i < n; i++)
    ((float *)t->data)[i] = centre + ((float)(word((uint32_t)i, stream) >> 8) * 0x1p-23f - 1.0f) * a;
}

static const sl_model_data data = {
    .height = 28, .width = 28, .channels = 1, .classes = 10, .mean = {0.5}, .deviation = {0.25}};
static uint8_t images[BATCH * 784];
static int32_t labels[BATCH];

/* A GPT-2 in small, with the sizes of record.py. */
enum { LENGTH = 13, VOCABULARY = 37 };
static const sl_model_data text = {.classes = VOCABULARY, .length = LENGTH};
static int32_t windows[BATCH * (LENGTH + 1)];
static sl_value build_gpt(sl_graph *g, sl_value x, const sl_model_data *d, const sl_training *o, int training) {
  (void)o, (void)training;
  return sl_gpt(g, x, d, &(sl_gpt_size){.layers = 2, .heads = 2, .width = 32, .positions = 16},
                training ? o->dropout : 0);
}
static const sl_model gpt = {
    .name = "gpt",
    .task = SL_TASK_NEXT_TOKEN,
    .length = LENGTH,
    .vocabulary = VOCABULARY,
    .build = build_gpt,
    .training = {.optimizer = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01}};

/* Small residual networks and a small vision transformer, over images whose sides are odd. */
static const sl_model_data photos = {
    .height = 15, .width = 13, .channels = 3, .classes = 10, .mean = {0.5, 0.5, 0.5}, .deviation = {0.25, 0.25, 0.25}};
/* Of these no rectifier's argument is within 1e-4 of 0: nearer, rounding may turn a gradient off or on. */
static uint8_t coloured[BATCH * 15 * 13 * 3];
static sl_value build_basic(sl_graph *g, sl_value x, const sl_model_data *d, const sl_training *o, int training) {
  return sl_resnet(g, x, d, &(sl_resnet_size){.width = 8, .blocks = {2, 2}}, o->batchnorm, training);
}
static sl_value build_bottleneck(sl_graph *g, sl_value x, const sl_model_data *d, const sl_training *o, int training) {
  return sl_resnet(g, x, d, &(sl_resnet_size){.bottleneck = 1, .width = 8, .blocks = {2, 2}}, o->batchnorm, training);
}
static sl_value build_vit(sl_graph *g, sl_value x, const sl_model_data *d, const sl_training *o, int training) {
  return sl_vit(g, x, d, &(sl_vit_size){.layers = 2, .heads = 2, .width = 30, .patch = 4}, training ? o->dropout : 0);
}
static const sl_model basic = {
    .name = "basic", .build = build_basic, .training = {.optimizer = SL_OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-4}};
static const sl_model bottleneck = {.name = "bottleneck",
                                    .build = build_bottleneck,
                                    .training = {.optimizer = SL_OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-4}};
static const sl_model vit = {
    .name = "vit",
    .build = build_vit,
    .training = {.optimizer = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01}};

/* What is trained on what; those without a data set of their own are the list's, over grey images. */
static const struct {
  const sl_model *model;
  const sl_model_data *data;
  const void *samples;
} small[] = {
    {&gpt, &text, windows}, {&basic, &photos, coloured}, {&bottleneck, &photos, coloured}, {&vit, &photos, coloured}};

/* Trains from the recorded start; losses to `loss`, squares of the first gradients from the first momenta to `squares`.
 */
static void train(const char *name, sl_plan plan, double *loss, double *squares) {
  const sl_model *model = NULL;
  const sl_model_data *of = &data;
  const void *samples = images;
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  sl_network network;
  sl_store *store;
  sl_program *program;
  o.mpi = o.gpus = 0;
  o.workers = 2;
  assert_ok(sl_runtime_start(&o, &rt));
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    if (strcmp(name, small[i].model->name) == 0) model = small[i].model, of = small[i].data, samples = small[i].samples;
  if (!model) assert_ok(sl_model_find(name, &model));
  sl_training training = model->training; /* statistics are recorded over all samples */
  training.batchnorm = plan.leaves > 1 ? SL_BATCHNORM_GLOBAL : SL_BATCHNORM_LEAF;
  plan.batch = BATCH;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_network_training(model, of, &training, BATCH, &network));
  assert_ok(sl_store_create(&store));
  assert_ok(sl_program_create(rt, store, network.graph, &plan,
                              &(sl_program_options){.keep = &network.loss, .n_keep = 1}, &program));
  assert_ok(sl_store_acquire(store, 1));
  uint32_t stream = 0;
  for (int i = 0; i < sl_store_count(store); i++)
    if (sl_store_at(store, i)->parameter) fill(sl_store_at(store, i), stream++);
  sl_store_release(store);
  for (int step = 1; step <= STEPS; step++) {
    assert_ok(sl_program_run(
        program, &(sl_step){.number = step, .seed = 1, .learning_rate = RATE(model), .input = {samples, labels}}));
    assert_ok(sl_program_read(program, network.loss, &loss[step - 1]));
    if (step > 1) continue;
    /* adamw: m = (1 - beta1) g after one step. sgd: v = g + decay p. */
    assert_ok(sl_store_acquire(store, 0));
    int k = 0;
    for (int i = 0; i < sl_store_count(store); i++) {
      const sl_tensor *p = sl_store_at(store, i);
      if (!p->parameter) continue;
      char state[128];
      const int adamw = model->training.optimizer == SL_OPTIMIZER_ADAMW;
      snprintf(state, sizeof state, "%s.%s", p->name, adamw ? "m" : "momentum");
      const sl_tensor *m = sl_store_find(store, state);
      assert_non_null(m);
      const double factor = adamw ? 1 / (1 - model->training.beta1) : 1;
      squares[k] = 0;
      sl_tensor before = *p;
      before.data = malloc((size_t)sl_shape_count(&p->shape) * sizeof(float));
      fill(&before, (uint32_t)k);
      for (int64_t e = 0; e < sl_shape_count(&p->shape); e++) {
        double g = (double)((float *)m->data)[e] * factor;
        if (!adamw && p->shape.ndim > 1) g -= model->training.decay * (double)((float *)before.data)[e];
        squares[k] += g * g;
      }
      free(before.data);
      k++;
    }
    sl_store_release(store);
  }
  sl_program_destroy(program);
  sl_store_destroy(store);
  sl_network_destroy(&network);
  sl_runtime_stop(rt);
}

static void compare(const char *name, const double *losses, const double *squares, int n) {
  const sl_plan plans[] = {
      {.shards = 1}, {.shards = 4}, {.leaves = 3, .shards = 6}, {.leaves = 2, .shards = 4, .row_blocks = 4}};
  for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
    double loss[STEPS], square[64];
    train(name, plans[p], loss, square);
    for (int i = 0; i < STEPS; i++)
      if (!(fabs(loss[i] - losses[i]) <= 2e-4 * losses[i] + 1e-5))
        fail_msg("%s, plan %zu, step %d: loss %.9g, recorded %.9g", name, p, i + 1, loss[i], losses[i]);
    if (!(fabs(loss[0] - losses[0]) <= 2e-6 * losses[0]))
      fail_msg("%s: first loss %.9g, recorded %.9g", name, loss[0], losses[0]);
    for (int k = 0; k < n; k++)
      if (!(fabs(square[k] - squares[k]) <= 2e-5 * squares[k]))
        fail_msg("%s, plan %zu, gradient %d: sum of squares %.9g, recorded %.9g", name, p, k, square[k], squares[k]);
  }
}

static void mlp_is_as_recorded(void **state) {
  (void)state;
  compare("mlp", mlp_losses, mlp_squares, sizeof mlp_squares / sizeof *mlp_squares);
}

static void lenet_is_as_recorded(void **state) {
  (void)state;
  compare("lenet", lenet_losses, lenet_squares, sizeof lenet_squares / sizeof *lenet_squares);
}

static void gpt_is_as_recorded(void **state) {
  (void)state;
  compare("gpt", gpt_losses, gpt_squares, sizeof gpt_squares / sizeof *gpt_squares);
}

static void residual_networks_are_as_recorded(void **state) {
  (void)state;
  compare("basic", basic_losses, basic_squares, sizeof basic_squares / sizeof *basic_squares);
  compare("bottleneck", bottleneck_losses, bottleneck_squares, sizeof bottleneck_squares / sizeof *bottleneck_squares);
}

static void vit_is_as_recorded(void **state) {
  (void)state;
  compare("vit", vit_losses, vit_squares, sizeof vit_squares / sizeof *vit_squares);
}

static void misfits_name_the_layer(void **state) {
  (void)state;
  const sl_model *model;
  sl_network network;
  sl_model_data tiny = data;
  tiny.height = tiny.width = 1;
  assert_ok(sl_model_find("lenet", &model));
  assert_fails(SL_ESHAPE, "layer 'pool1'", sl_network_training(model, &tiny, &model->training, BATCH, &network));
  assert_fails(SL_ENOTFOUND, "lenet, mlp", sl_model_find("lenett", &model));
}

int main(void) {
  for (uint32_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(word(i, 100) & 255);
  for (uint32_t i = 0; i < sizeof coloured; i++) coloured[i] = (uint8_t)(word(i, 107) & 255);
  for (uint32_t i = 0; i < BATCH; i++) labels[i] = (int32_t)(word(i, 101) % 10);
  for (uint32_t i = 0; i < BATCH * (LENGTH + 1); i++) windows[i] = (int32_t)(word(i, 102) % VOCABULARY);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mlp_is_as_recorded), cmocka_unit_test(lenet_is_as_recorded),
      cmocka_unit_test(gpt_is_as_recorded), cmocka_unit_test(residual_networks_are_as_recorded),
      cmocka_unit_test(vit_is_as_recorded), cmocka_unit_test(misfits_name_the_layer),
  };
  return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
