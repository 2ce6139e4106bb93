/* models/: the networks against PyTorch's results for the same weights and data in double precision (record.py), under
 * several plans and in 16 bits; errors that name the layer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/attributes.h"
#include "models/models.h"
#include "runtime/machine/store.h"
#include "runtime/numbers/half.h"
#include "tasks/starpu/program.h"
#include "tests/models/recorded.h"
#include "tests/support/scratch.h"

enum { BATCH = 12, STEPS = 10 };
/* With twelve samples only, sgd at the usual rate would amplify rounding. */
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

/* Uniform in [-a, a); weights of normalisations around 1. */
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

/* A small GPT-2 with the sizes of record.py. */
enum { LENGTH = 13, VOCABULARY = 37 };
static const sl_model_data text = {.classes = VOCABULARY, .length = LENGTH};
static int32_t windows[BATCH * (LENGTH + 1)];
static const sl_model gpt = {
    .name = "gpt",
    .family = &sl_family_gpt2,
    .sizes = &(const sl_gpt_size){.layers = 2, .heads = 2, .width = 32, .positions = 16},
    .usual = {.length = LENGTH},
    .training = {.optimizer = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01}};

/* A small BERT with padded windows (lengths) and some targets that do not count. */
enum { SLOT_LENGTHS = 2 };
static int32_t lengths[BATCH], some[BATCH];
static sl_value build_bert(sl_graph *g, sl_value x, const sl_model_data *d, const void *sizes, const sl_training *o,
                           int training) {
  return sl_bert(g, x, sl_input(g, "lengths", SLOT_LENGTHS, SL_I32, sl_shape_make(NULL, 0)), d, sizes,
                 training ? o->dropout : 0);
}
/* Targets that PyTorch supports too. */
static const sl_family padded_bert = {
    .name = "bert", .data = &sl_data_tokens, .size_bytes = sizeof(sl_bert_size), .build = build_bert};
static const sl_model bert = {
    .name = "bert",
    .family = &padded_bert,
    .sizes = &(const sl_bert_size){.layers = 2, .heads = 2, .width = 32, .positions = 16, .type = 1},
    .usual = {.length = LENGTH},
    .training = {.optimizer = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01}};

/* Small residual networks and a small vision transformer, over images whose sides are odd. */
static const sl_model_data photos = {
    .height = 15, .width = 13, .channels = 3, .classes = 10, .mean = {0.5, 0.5, 0.5}, .deviation = {0.25, 0.25, 0.25}};
/* No rectifier's input is within 1e-4 of 0: closer to 0, rounding may turn a gradient off or on. */
static uint8_t coloured[BATCH * 15 * 13 * 3];
static const sl_model basic = {.name = "basic",
                               .family = &sl_family_resnet,
                               .sizes = &(const sl_resnet_size){.width = 8, .blocks = {2, 2}},
                               .training = {.optimizer = SL_OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-4}};
static const sl_model bottleneck = {.name = "bottleneck",
                                    .family = &sl_family_resnet,
                                    .sizes = &(const sl_resnet_size){.bottleneck = 1, .width = 8, .blocks = {2, 2}},
                                    .training = {.optimizer = SL_OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-4}};
static const sl_model vit = {
    .name = "vit",
    .family = &sl_family_vit,
    .sizes = &(const sl_vit_size){.layers = 2, .heads = 2, .width = 30, .patch = 4},
    .training = {.optimizer = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01}};

/* Models and their data; models without data of their own are the list's, on grey images. */
static const struct {
  const sl_model *model;
  const sl_model_data *data;
  const void *samples;
  const int32_t *labels;
} small[] = {{&gpt, &text, windows, labels},
             {&bert, &text, windows, some},
             {&basic, &photos, coloured, labels},
             {&bottleneck, &photos, coloured, labels},
             {&vit, &photos, coloured, labels}};

/* Measures by which arrays are compared: the sum of squares, and the product with a fixed vector. */
typedef struct measures {
  double squares, product;
} measures;

static void add_to(measures *m, double x, int64_t i, uint32_t stream) {
  m->squares += x * x;
  m->product += x * ((double)(word((uint32_t)i, stream) >> 8) * 0x1p-23 - 1);
}

/* Number i of an array of F32, BF16 or F16. */
static double number(const void *values, sl_dtype dtype, int64_t i) {
  if (dtype == SL_F32) return (double)((const float *)values)[i];
  const uint16_t bits = ((const uint16_t *)values)[i];
  const uint32_t upper = (uint32_t)bits << 16;
  float wide;
  memcpy(&wide, &upper, sizeof wide);
  return (double)(dtype == SL_BF16 ? wide : sl_half_wide(bits));
}

/* Trains from the recorded weights on CPU workers, with gpus also on the GPUs that there are; returns 0 if there are
 * none. gradients: the first step's, computed from its momenta. */
static int train(const char *name, sl_plan plan, sl_precision precision, int gpus, double *loss, measures *logits,
                 measures *gradients) {
  const sl_model *model = NULL;
  const sl_model_data *of = &data;
  const void *samples = images;
  const int32_t *label = labels;
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  sl_network network;
  sl_store *store;
  sl_program *program;
  o.mpi = 0, o.gpus = gpus ? -1 : 0;
  o.workers = 2;
  assert_ok(sl_runtime_start(&o, &rt));
  if (gpus && sl_runtime_gpus(rt) == 0) {
    sl_runtime_stop(rt);
    return 0;
  }
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    if (strcmp(name, small[i].model->name) == 0)
      model = small[i].model, of = small[i].data, samples = small[i].samples, label = small[i].labels;
  if (!model) assert_ok(sl_model_find(name, &model));
  sl_training training = model->training; /* statistics are recorded over all samples */
  training.batchnorm = plan.leaves > 1 ? SL_BATCHNORM_GLOBAL : SL_BATCHNORM_LEAF;
  training.precision = precision;
  plan.batch = BATCH;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_network_training(model, of, &training, BATCH, &network));
  assert_ok(sl_store_create(&store));
  const sl_value keep[] = {network.loss, network.logits};
  assert_ok(
      sl_program_create(rt, store, network.graph, &plan, &(sl_program_options){.keep = keep, .n_keep = 2}, &program));
  assert_ok(sl_store_acquire(store, 1));
  uint32_t stream = 0;
  for (int i = 0; i < sl_store_count(store); i++)
    if (sl_store_at(store, i)->parameter) fill(sl_store_at(store, i), stream++);
  sl_store_release(store);
  for (int step = 1; step <= STEPS; step++) {
    assert_ok(sl_program_run(program, &(sl_step){.number = step,
                                                 .seed = 1,
                                                 .learning_rate = RATE(model),
                                                 .input = {samples, label, [SLOT_LENGTHS] = lengths}}));
    assert_ok(sl_program_read(program, network.loss, &loss[step - 1]));
    if (step > 1) continue;
    const int64_t n = sl_shape_count(&sl_graph_value(network.graph, network.logits)->shape);
    void *values = malloc((size_t)n * sizeof(float));
    assert_ok(sl_program_read(program, network.logits, values));
    *logits = (measures){0};
    for (int64_t i = 0; i < n; i++)
      add_to(logits, number(values, sl_graph_value(network.graph, network.logits)->dtype, i), i, 200);
    free(values);
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
      sl_tensor before = *p;
      before.data = malloc((size_t)sl_shape_count(&p->shape) * sizeof(float));
      fill(&before, (uint32_t)k);
      gradients[k] = (measures){0};
      for (int64_t e = 0; e < sl_shape_count(&p->shape); e++) {
        double g = (double)((float *)m->data)[e] * factor;
        if (!adamw && p->shape.ndim > 1) g -= model->training.decay * (double)((float *)before.data)[e];
        add_to(&gradients[k], g, e, 300 + (uint32_t)k);
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
  return 1;
}

/* Both measures' errors scale with the array: rounding errors in a product have random signs. */
static void compare_measures(const char *name, size_t plan, const char *what, int k, measures m,
                             const double *recorded) {
  if (!(fabs(m.squares - recorded[0]) <= 2e-5 * recorded[0]) ||
      !(fabs(m.product - recorded[1]) <= 2e-5 * sqrt(recorded[0])))
    fail_msg("%s, plan %zu, %s %d: sum of squares %.9g, product %.9g, recorded %.9g, %.9g", name, plan, what, k,
             m.squares, m.product, recorded[0], recorded[1]);
}

static void compare(const char *name, const double *losses, const double *logits, const double (*gradients)[2],
                    size_t n) {
  const sl_plan plans[] = {
      {.shards = 1}, {.shards = 4}, {.leaves = 3, .shards = 6}, {.leaves = 2, .shards = 4, .row_blocks = 4}};
  for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
    double loss[STEPS], loss_on_gpus[STEPS];
    measures first, gradient[64], first_on_gpus, gradient_on_gpus[64];
    train(name, plans[p], SL_PRECISION_FP32, 0, loss, &first, gradient);
    for (int i = 0; i < STEPS; i++)
      if (!(fabs(loss[i] - losses[i]) <= 2e-4 * losses[i] + 1e-5))
        fail_msg("%s, plan %zu, step %d: loss %.9g, recorded %.9g", name, p, i + 1, loss[i], losses[i]);
    if (!(fabs(loss[0] - losses[0]) <= 2e-6 * losses[0]))
      fail_msg("%s: first loss %.9g, recorded %.9g", name, loss[0], losses[0]);
    compare_measures(name, p, "logits", 0, first, logits);
    for (size_t k = 0; k < n; k++) compare_measures(name, p, "gradient", (int)k, gradient[k], gradients[k]);
    if (p + 1 < sizeof plans / sizeof *plans ||
        !train(name, plans[p], SL_PRECISION_FP32, 1, loss_on_gpus, &first_on_gpus, gradient_on_gpus))
      continue;
    assert_memory_equal(loss_on_gpus, loss, sizeof loss);
    assert_memory_equal(&first_on_gpus, &first, sizeof first);
    assert_memory_equal(gradient_on_gpus, gradient, n * sizeof *gradient);
  }
}

/* In 16 bits the first step's gradients are about as near to the recorded ones as those of PyTorch's autocast: their
 * measures have at most 2.5 times its errors (root mean squares over the gradients). A rectifier whose input is near 0
 * may turn in one and not in the other, so in fp16 half of autocast's errors in bf16 pass, too. */
static void compare_narrow(const char *name, sl_precision precision, const double *losses, const double *logits,
                           const double (*gradients)[2], size_t n, const double (*autocast)[3]) {
  const int half = precision == SL_PRECISION_FP16;
  const double unit = half ? 0x1p-12 : 0x1p-9; /* the mean rounding error of a number is below it */
  double loss[STEPS], error[3] = {0};
  measures first, gradient[64];
  train(name, (sl_plan){.leaves = 2, .shards = 4}, precision, 0, loss, &first, gradient);
  for (size_t k = 0; k < n; k++) {
    const double squares = gradient[k].squares / gradients[k][0] - 1,
                 product = (gradient[k].product - gradients[k][1]) / sqrt(gradients[k][0]);
    error[1] += squares * squares / (double)n, error[2] += product * product / (double)n;
  }
  for (int e = 1; e < 3; e++) {
    const double most = fmax(2.5 * autocast[half][e], half ? 0.5 * autocast[0][e] : 0);
    if (!(sqrt(error[e]) <= most))
      fail_msg("%s in %s, gradients: error of the %s %.3g; autocast's is %.3g", name, sl_precision_names[precision],
               e == 1 ? "sums of squares" : "products", sqrt(error[e]), autocast[half][e]);
  }
  if (!(fabs(first.squares / logits[0] - 1) <= 6 * unit) ||
      !(fabs(first.product - logits[1]) <= 6 * unit * sqrt(logits[0])))
    fail_msg("%s in %s: logits %.9g, %.9g, recorded %.9g, %.9g", name, sl_precision_names[precision], first.squares,
             first.product, logits[0], logits[1]);
  for (int i = 0; i < STEPS; i++)
    if (!(fabs(loss[i] - losses[i]) <= (i ? 0.04 : unit * losses[0])))
      fail_msg("%s in %s, step %d: loss %.9g, recorded %.9g", name, sl_precision_names[precision], i + 1, loss[i],
               losses[i]);
}

#define COMPARE(name) \
  compare(#name, name##_losses, name##_logits, name##_gradients, sizeof name##_gradients / sizeof *name##_gradients)

#define COMPARE_NARROW(name, precision)                                            \
  compare_narrow(#name, precision, name##_losses, name##_logits, name##_gradients, \
                 sizeof name##_gradients / sizeof *name##_gradients, name##_autocast)

static void in_16_bits(sl_precision precision) {
  COMPARE_NARROW(mlp, precision);
  COMPARE_NARROW(lenet, precision);
  COMPARE_NARROW(gpt, precision);
  COMPARE_NARROW(bert, precision);
  COMPARE_NARROW(basic, precision);
  COMPARE_NARROW(bottleneck, precision);
  COMPARE_NARROW(vit, precision);
}
static void bf16_is_as_near_as_autocast(void **state) { (void)state, in_16_bits(SL_PRECISION_BF16); }
static void fp16_is_as_near_as_autocast(void **state) { (void)state, in_16_bits(SL_PRECISION_FP16); }

static void perceptron_is_as_recorded(void **state) { (void)state, COMPARE(mlp); }
static void lenet_is_as_recorded(void **state) { (void)state, COMPARE(lenet); }
static void gpt_is_as_recorded(void **state) { (void)state, COMPARE(gpt); }
static void bert_is_as_recorded(void **state) { (void)state, COMPARE(bert); }
static void residual_network_is_as_recorded(void **state) { (void)state, COMPARE(basic); }
static void bottlenecks_are_as_recorded(void **state) { (void)state, COMPARE(bottleneck); }
static void vit_is_as_recorded(void **state) { (void)state, COMPARE(vit); }

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

/* Whether an update changes the value. */
static int is_updated(const sl_graph *g, sl_value v) {
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->phase == SL_PHASE_UPDATE && g->node[i]->n_out > 0 && g->node[i]->in[0] == v) return 1;
  return 0;
}

static int has_parameter(const sl_graph *g, const sl_value_info *wanted) {
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role == SL_ROLE_PARAMETER && strcmp(g->value[v]->name, wanted->name) == 0)
      return sl_shape_equal(&g->value[v]->shape, &wanted->shape);
  return 0;
}

/* Each model of the list, with the usual data of its kind: a loss reaches every parameter, an evaluation has the same
 * parameters and updates none. */
static void each_model_of_the_list_can_be_trained(void **state) {
  const sl_model *m;
  (void)state;
  for (int i = 0; (m = sl_model_at(i)); i++) {
    sl_network training, evaluation;
    sl_model_data usual;
    m->family->data->usual(m, &(sl_model_data){0}, &usual);
    assert_ok(sl_network_training(m, &usual, &m->training, 2, &training));
    assert_ok(sl_network_evaluation(m, &usual, &m->training, 2, &evaluation));
    assert_true(training.n_parameters > 0);
    assert_int_equal(training.n_parameters, evaluation.n_parameters);
    for (sl_value v = 0; v < training.graph->n_values; v++) {
      const sl_value_info *info = training.graph->value[v];
      if (info->role != SL_ROLE_PARAMETER) continue;
      if (!is_updated(training.graph, v)) fail_msg("%s: nothing updates %s", m->name, info->name);
      if (!has_parameter(evaluation.graph, info)) fail_msg("%s: its evaluation lacks %s", m->name, info->name);
    }
    for (int k = 0; k < evaluation.graph->n_nodes; k++)
      assert_int_not_equal(evaluation.graph->node[k]->phase, SL_PHASE_UPDATE);
    sl_network_destroy(&training), sl_network_destroy(&evaluation);
  }
}

/* Positions that folds divide: each part of a norm is a node of its own, and no two parts drop the same elements. */
static void parts_of_the_sequence(void **state) {
  (void)state;
  enum { FOLDS = 2, MOST = 64 };
  sl_network network;
  sl_training training = gpt.training;
  uint32_t key[MOST];
  int norms = 0, parts = 0, keys = 0;
  training.folds = FOLDS, training.dropout = 0.1, training.sequence_parallel = SL_SEQUENCE_PARALLEL_ON;
  assert_ok(sl_network_training(&gpt, &text, &training, BATCH, &network));
  for (int i = 0; i < network.graph->n_nodes; i++) {
    const sl_node *node = network.graph->node[i];
    const sl_shape *shape = &network.graph->value[node->out[0]]->shape;
    if (node->phase != SL_PHASE_FORWARD) continue;
    norms += node->op == &sl_op_layernorm;
    if (!node->op->along || shape->dim[1] == LENGTH || node->fold.to - node->fold.from != 1) continue;
    parts += node->op == &sl_op_layernorm;
    assert_int_equal(shape->dim[1], node->fold.from ? LENGTH - LENGTH / FOLDS : LENGTH / FOLDS);
    if (node->op != &sl_op_dropout) continue;
    const sl_dropout_attr *a = node->attr;
    assert_true(a->fixed && keys < MOST);
    for (int k = 0; k < keys; k++) assert_int_not_equal(key[k], a->key);
    key[keys++] = a->key;
  }
  assert_int_equal(norms, 1 + FOLDS * 4); /* the first one comes before all products */
  assert_int_equal(parts, FOLDS * 4);
  assert_int_equal(keys, FOLDS * 4);
  sl_network_destroy(&network);
}

/* How many sums over folds are joined from the ranks' parts; with one layer all four or none. */
static int joined_sums(int64_t positions, int ranks, int gpus, sl_fold_sums how) {
  const sl_gpt_size size = {.layers = 1, .heads = 8, .width = 64, .positions = positions};
  const sl_model_data words = {.classes = VOCABULARY, .length = positions};
  sl_model model = gpt;
  sl_network network;
  model.sizes = &size, model.usual.length = positions;
  sl_training training = model.training;
  training.folds = 8, training.fold_ranks = ranks, training.fold_gpus = gpus, training.fold_sums = how;
  assert_ok(sl_network_training(&model, &words, &training, 1, &network));
  int n = 0;
  for (int i = 0; i < network.graph->n_nodes; i++) n += network.graph->node[i]->op == &sl_op_sequence_join;
  sl_network_destroy(&network);
  return n;
}

/* By default large samples alone, from 5 ranks on with CPUs and from 3 on with GPUs. */
static void sums_by_parts(void **state) {
  (void)state;
  enum { CPU_LEAST = 2048, GPU_LEAST = 8192, ALL = 4 }; /* positions of 64 numbers */
  assert_int_equal(joined_sums(CPU_LEAST, 5, 0, SL_FOLD_SUMS_AUTO), ALL);
  assert_int_equal(joined_sums(CPU_LEAST - 1, 5, 0, SL_FOLD_SUMS_AUTO), 0);
  assert_int_equal(joined_sums(CPU_LEAST, 4, 0, SL_FOLD_SUMS_AUTO), 0);
  assert_int_equal(joined_sums(GPU_LEAST, 3, 1, SL_FOLD_SUMS_AUTO), ALL);
  assert_int_equal(joined_sums(GPU_LEAST - 1, 3, 1, SL_FOLD_SUMS_AUTO), 0);
  assert_int_equal(joined_sums(GPU_LEAST, 2, 1, SL_FOLD_SUMS_AUTO), 0);
  assert_int_equal(joined_sums(CPU_LEAST, 5, 0, SL_FOLD_SUMS_WHOLE), 0);
  assert_int_equal(joined_sums(16, 3, 0, SL_FOLD_SUMS_PARTS), ALL);
  assert_int_equal(joined_sums(16, 0, 0, SL_FOLD_SUMS_PARTS), 0); /* no rank shares a sample */
}

/* A bias is added by one fold alone, and each fold looks up the tokens of its own rows of the table. */
static void folds_divide_what_is_theirs(void **state) {
  (void)state;
  enum { FOLDS = 2, WORDS = 601 };
  const sl_model_data words = {.classes = WORDS, .length = LENGTH};
  const char *const biases[] = {"h.0.attn.proj.bias", "h.1.mlp.proj.bias"};
  sl_network network;
  sl_training training = gpt.training;
  training.folds = FOLDS;
  assert_ok(sl_network_training(&gpt, &words, &training, BATCH, &network));
  const sl_graph *g = network.graph;
  int readers[2] = {0}, tables = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in && node->phase == SL_PHASE_FORWARD; k++) {
      for (int b = 0; b < 2; b++) readers[b] += node->in[k] == sl_graph_find(g, biases[b]);
      const sl_value_info *read = g->value[node->in[k]];
      if (node->op != &sl_op_embedding || read->role != SL_ROLE_PARAMETER) continue;
      assert_int_equal(((const sl_embedding_attr *)node->attr)->from, read->part.from);
      tables++;
    }
  }
  assert_true(readers[0] == 1 && readers[1] == 1);
  assert_int_equal(tables, FOLDS);
  sl_network_destroy(&network);
}

int main(void) {
  for (uint32_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(word(i, 100) & 255);
  for (uint32_t i = 0; i < sizeof coloured; i++) coloured[i] = (uint8_t)(word(i, 107) & 255);
  for (uint32_t i = 0; i < BATCH; i++) labels[i] = (int32_t)(word(i, 101) % 10);
  for (uint32_t i = 0; i < BATCH * (LENGTH + 1); i++) windows[i] = (int32_t)(word(i, 102) % VOCABULARY);
  for (uint32_t i = 0; i < BATCH; i++) lengths[i] = (int32_t)(word(i, 103) % LENGTH) + 1;
  for (uint32_t i = 0; i < BATCH; i++) some[i] = labels[i] % 5 > 0 ? labels[i] : -1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(perceptron_is_as_recorded),
      cmocka_unit_test(lenet_is_as_recorded),
      cmocka_unit_test(gpt_is_as_recorded),
      cmocka_unit_test(bert_is_as_recorded),
      cmocka_unit_test(residual_network_is_as_recorded),
      cmocka_unit_test(bottlenecks_are_as_recorded),
      cmocka_unit_test(vit_is_as_recorded),
      cmocka_unit_test(bf16_is_as_near_as_autocast),
      cmocka_unit_test(fp16_is_as_near_as_autocast),
      cmocka_unit_test(parts_of_the_sequence),
      cmocka_unit_test(sums_by_parts),
      cmocka_unit_test(folds_divide_what_is_theirs),
      cmocka_unit_test(misfits_name_the_layer),
      cmocka_unit_test(each_model_of_the_list_can_be_trained),
  };
  return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
