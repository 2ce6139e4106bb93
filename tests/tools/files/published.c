/* tools/files/published.c: networks of sizes that no model of the list has, as transformers and torchvision wrote them
 * (record_sizes.py). Opened with the sizes of config.json or of the tensors, they have PyTorch's logits, gradients and
 * losses, and are written back bit for bit. A wrong size, a swapped head or a transposed tensor does not pass. */
#include "tools/files/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/file.h"
#include "runtime/numbers/half.h"
#include "tasks/starpu/program.h"
#include "tests/support/scratch.h"

enum { BATCH = 4, STEPS = 10, MOST = 1 << 16 };

/* Bounds, about ten times what x86-64 measures against PyTorch's doubles (gradients: three times). */
#define LOGITS 1e-5    /* of the largest logit; measured 1.1e-6 */
#define GRADIENTS 2e-5 /* of a tensor's gradient; measured 6e-6 ... */
#define WHOLE 1e-6     /* ... and of all tensors': the keys' biases have a gradient of rounding errors alone */
#define LOSSES 5e-5    /* of each of ten losses; measured 5e-6 */

/* The networks, each with faults of its own. */
typedef struct published {
  const char *name, *library, *sizes; /* sizes: those that the file lacks, in the form of --size */
  int64_t length, height, width;      /* of the data; 0: from config.json or the tensors */
  const char *square;                 /* a tensor [n, n] or [n, 3, 3, n] */
  const char *wrong[4];               /* sizes of another network whose tensors have the same shapes */
  const char *misfit[4][2];           /* sizes that change shapes, and a tensor that then does not fit */
  const char *left_out;               /* a tensor of the file that the network has no use for; NULL: none */
} published;
static const published cases[] = {
    {"gpt2", "hf", .length = 31, .square = "h.0.attn.proj.weight",
     .wrong = {"heads=6", "heads=4", "activation=relu", "eps=1e-2"},
     .misfit = {{"layers=2", "h.1.ln_1.weight"},
                {"hidden=51", "h.0.mlp.fc.weight"},
                {"width=75", "wte.weight"},
                {"untied=1", "missing  lm_head.weight"}}},
    {"bert", "hf", .length = 33, .square = "h.1.attn.proj.weight",
     .wrong = {"heads=6", "heads=2", "activation=relu", "eps=1e-2"},
     .misfit = {{"layers=1", "extra    bert.encoder.layer.1."},
                {"hidden=51", "h.0.mlp.fc.weight"},
                {"positions=40", "wpe.weight"},
                {"untied=1", "missing  cls.predictions.decoder.weight"}}},
    {"vit", "hf", .square = "h.0.attn.proj.weight", .wrong = {"heads=6", "heads=4", "activation=relu", "eps=1e-2"},
     .misfit = {{"patch=5", "patch.weight"},
                {"layers=3", "h.2.ln_1.weight"},
                {"unbiased=1", "extra    vit.encoder.layer.0.attention.attention.query.bias"}}},
    {"deit", "hf", .square = "h.0.attn.proj.weight", .wrong = {"heads=10", "heads=4", "activation=relu", "eps=1e-2"},
     .misfit = {{"patch=4", "patch.weight"}, {"distilled=0", "wpe.weight"}, {"hidden=40", "h.0.mlp.fc.weight"}}},
    {"vit-torchvision", "torchvision", "heads=3", .square = "h.0.attn.proj.weight",
     .wrong = {"heads=6", "heads=4", "activation=relu", "eps=1e-2"},
     .misfit = {{"patch=5", "patch.weight"}, {"hidden=35", "h.0.mlp.fc.weight"}}},
    {"resnet-torchvision", "torchvision", .height = 33, .width = 29, .square = "layer1.0.conv2.weight",
     .wrong = {"first_stride=2", "activation=gelu"},
     .misfit = {{"blocks=1-1-1-1", "extra    layer2.1.conv1.weight"},
                {"stem=63", "conv1.weight"},
                {"small=1", "conv1.weight"}}},
    {"bottleneck-torchvision", "torchvision", .height = 33, .width = 29, .square = "layer1.0.conv2.weight",
     .wrong = {"first_stride=2", "early_stride=1", "activation=linear"},
     .misfit = {{"inner=2-5-10-22", "layer4.0.conv2.weight"}, {"channels=8-20-41-84", "layer3.1.bn3.weight"}}},
    {"resnet", "hf", .height = 33, .width = 29, .square = "layer1.0.conv2.weight",
     .misfit = {{"blocks=1-1-1", "extra    resnet.encoder.stages.1.layers.1."}, {"stem=7", "conv1.weight"}}},
    {"gpt2-untied", "hf", .length = 23, .square = "h.1.attn.proj.weight",
     .wrong = {"heads=5", "activation=gelu-tanh", "eps=1e-5"},
     .misfit = {{"untied=0", "tied     lm_head.weight is not the same as transformer.wte.weight"}}},
    {"bert-untied", "hf", .length = 25, .square = "h.0.attn.proj.weight",
     .wrong = {"heads=4", "activation=gelu", "eps=1e-12"},
     .misfit = {{"untied=0", "tied     cls.predictions.decoder.weight is not the same as bert.embeddings.word"}},
     .left_out = "cls.predictions.bias"},
    {"vit-unbiased", "hf", .square = "h.1.attn.proj.weight", .wrong = {"heads=7", "activation=gelu", "eps=1e-2"},
     .misfit = {{"unbiased=0", "missing  vit.encoder.layer.1.attention.attention.value.bias (h.1.attn.qkv.bias)"}}},
    {"deit-unbiased", "hf", .square = "h.0.attn.proj.weight", .wrong = {"heads=2", "activation=relu", "eps=1e-3"},
     .misfit = {{"unbiased=0", "missing  deit.encoder.layer.0.attention.attention.query.bias (h.0.attn.qkv.bias)"}}},
    {"resnet-first", "hf", .height = 49, .width = 45, .square = "layer1.0.conv2.weight",
     .wrong = {"first_stride=1", "activation=relu", "activation=gelu-tanh"},
     .misfit = {{"blocks=1-1", "extra    resnet.encoder.stages.1.layers.1."}}},
    {"resnet-early", "hf", .height = 49, .width = 45, .square = "layer1.0.conv2.weight",
     .wrong = {"first_stride=1", "early_stride=0", "activation=gelu"},
     .misfit = {{"inner=3-6", "layer2.0.conv2.weight"}}},
    {"resnet-linear", "hf", .height = 33, .width = 29, .square = "layer1.0.conv2.weight",
     .wrong = {"activation=relu", "activation=gelu"},
     .misfit = {{"first_stride=2", "missing  resnet.encoder.stages.0.layers.0.shortcut.convolution.weight"}}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A fault that is put into a network before the comparison. */
typedef struct fault {
  const char *sizes; /* other sizes; NULL: the published ones */
  int sides;         /* 1: height and width are exchanged */
  int transposed;    /* 1: rows and columns of the square tensor are exchanged */
  int heads;         /* 1: the first two heads of queries, or channels of a convolution, are exchanged */
  double smoothing;  /* of labels, in training */
  double faster;     /* is added to 1, and multiplies the learning rate */
} fault;

static sl_runtime *runtime;

static char *path_of(const char *name, const char *rest, char *text, size_t n) {
  const char *top = getenv("top_srcdir");
  snprintf(text, n, "%s/tests/models/sizes/%s%s", top ? top : ".", name, rest);
  return text;
}

/* Copies an array of the recorded file, aligned; the caller frees it. */
static void *recorded(const sl_weights *w, const char *name, int64_t *n) {
  const int i = sl_weights_find(w, name);
  if (i < 0) fail_msg("%s lacks %s", sl_weights_path(w), name);
  const sl_named_array *a = sl_weights_get(w, i);
  *n = sl_shape_count(&a->shape);
  void *data = aligned_alloc(64, ((size_t)*n * sl_dtype_bytes(a->dtype) + 63) / 64 * 64);
  assert_non_null(data);
  assert_ok(sl_weights_read_as_is(w, i, data));
  return data;
}

static void swap(float *a, float *b) {
  const float t = *a;
  *a = *b, *b = t;
}

static float *tensor(const sl_store *store, const char *name, sl_shape *shape) {
  const sl_tensor *t = sl_store_find(store, name);
  if (!t) fail_msg("the store lacks %s", name);
  *shape = t->shape;
  return t->data;
}

/* [n, ..., n]: element i, m, j becomes j, m, i. */
static void transpose(const sl_store *store, const char *name) {
  sl_shape s;
  float *x = tensor(store, name, &s);
  const int64_t n = s.dim[0], row = sl_shape_count(&s) / n;
  assert_true(n > 1 && n == s.dim[s.ndim - 1]);
  for (int64_t i = 0; i < n; i++)
    for (int64_t m = 0; m < row / n; m++)
      for (int64_t j = 0; j < i; j++) swap(&x[i * row + m * n + j], &x[j * row + m * n + i]);
}

static void exchange_heads(const sl_store *store, const sl_model *model) {
  sl_shape s;
  const int64_t heads = sl_model_size(model, "heads"), rows = heads ? sl_model_size(model, "width") / heads : 1;
  float *x = tensor(store, heads ? "h.0.attn.qkv.weight" : "layer1.0.conv1.weight", &s);
  const int64_t n = rows * (sl_shape_count(&s) / s.dim[0]);
  for (int64_t i = 0; i < n; i++) swap(&x[i], &x[n + i]);
}

/* A network in use: published weights in a store, ready to be evaluated, trained and written. */
typedef struct opened {
  sl__model_file *file;
  sl_weights *weights, *recorded;
  const sl_format *format;
  sl_model *sized;
  sl_family family;
  sl_model model;
  sl_model_data data;
  sl_training training;
  sl_network evaluation, step;
  sl_store *store;
} opened;

/* Opens a case with a fault; *fit lists the misfits. */
static void open_case(const published *c, const fault *f, opened *o, sl_fit *fit) {
  char path[4096];
  *o = (opened){0};
  assert_ok(sl__model_open_as(path_of(c->name, "", path, sizeof path), &(sl__model_wish){.sizes = c->sizes}, &o->file));
  assert_ok(sl_weights_open(path, &o->weights));
  assert_ok(sl_weights_open(path_of(c->name, ".safetensors", path, sizeof path), &o->recorded));
  const sl__model_facts *facts = sl__model_facts_of(o->file);
  o->format = sl__model_format(o->file);
  assert_string_equal(sl_format_library(o->format), c->library);
  assert_ok(sl_model_sized(facts->model, f->sizes, &o->sized));
  o->model = *o->sized;
  o->family = *o->model.family;
  o->model.family = &o->family;
  /* PyTorch's targets are recorded, because Starling's would depend on the choice of masked tokens. */
  if (o->family.data == &sl_data_masked_tokens) o->family.data = &sl_data_tokens;
  o->data = facts->data;
  if (c->length) o->data.length = c->length;
  if (c->height) o->data.height = c->height, o->data.width = c->width;
  if (f->sides) {
    const int64_t height = o->data.height;
    o->data.height = o->data.width, o->data.width = height;
  }
  o->training = (sl_training){.optimizer = SL_OPTIMIZER_SGD, .momentum = 0.9, .smoothing = f->smoothing};
  assert_ok((o->data.length ? sl_network_logits : sl_network_evaluation)(&o->model, &o->data, &o->training, BATCH,
                                                                         &o->evaluation));
  assert_ok(sl_network_training(&o->model, &o->data, &o->training, BATCH, &o->step));
  assert_ok(sl_store_create(&o->store));
  assert_ok(sl_interchange_store(o->evaluation.graph, o->store));
  assert_ok(sl_interchange_read(o->weights, o->format, o->evaluation.graph, o->store, SL_NONE, fit));
  if (f->transposed) transpose(o->store, c->square);
  if (f->heads) exchange_heads(o->store, &o->model);
}

static void close_case(opened *o) {
  sl_store_destroy(o->store);
  sl_network_destroy(&o->evaluation), sl_network_destroy(&o->step);
  sl_weights_close(o->weights), sl_weights_close(o->recorded);
  sl__model_close(o->file);
  free(o->sized);
}

/* The result of a comparison: the first value beyond its bound, and the largest difference relative to the bound. */
typedef struct found {
  char text[256];
  double logits, gradients, losses;
} found;

static void look(found *found, double *worst, double difference, double bound, const char *what) {
  const double ratio = difference / bound;
  if (!(ratio <= *worst)) *worst = ratio;
  if (!(ratio <= 1) && !*found->text)
    snprintf(found->text, sizeof found->text, "%.200s is off by %.3g, bound %.3g", what, difference, bound);
}

static void compare_logits(const opened *o, sl_program *program, const void *samples, const int32_t *labels,
                           found *found) {
  static float got[MOST];
  int64_t n;
  float *expected = recorded(o->recorded, "logits", &n);
  double largest = 0;
  assert_true(n <= MOST);
  assert_int_equal(n, sl_shape_count(&sl_graph_value(o->evaluation.graph, o->evaluation.logits)->shape));
  assert_ok(sl_program_run(program,
                           &(sl_step){.number = 1, .input = {[SL_SLOT_SAMPLES] = samples, [SL_SLOT_LABELS] = labels}}));
  assert_ok(sl_program_read(program, o->evaluation.logits, got));
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)expected[i]));
  for (int64_t i = 0; i < n; i++)
    look(found, &found->logits, fabs((double)got[i] - (double)expected[i]), LOGITS * largest, "logit");
  free(expected);
}

/* Word i of stream 1, as words() in record_sizes.py has it, as a number from -1 to 1. */
static double fixed(uint32_t i) {
  uint32_t h = i * 2654435761u + 40503u + 1u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  h *= 3266489917u;
  return (double)((h ^ h >> 16) >> 8) * 0x1p-23 - 1;
}

/* The gradients are the first momenta; they get published names and layouts like weights. */
static void compare_gradients(const opened *o, found *found) {
  sl_store *gradients;
  sl_published p;
  double whole = 0;
  int compared = 0, all = 0;
  assert_ok(sl_store_create(&gradients));
  assert_ok(sl_interchange_store(o->evaluation.graph, gradients));
  assert_ok(sl_store_acquire(o->store, 0));
  for (int i = 0; i < sl_store_count(gradients); i++) {
    const sl_tensor *t = sl_store_at(gradients, i);
    sl_shape shape;
    char name[160];
    snprintf(name, sizeof name, "%s.momentum", t->name);
    if (t->parameter)
      memcpy(t->data, tensor(o->store, name, &shape), (size_t)sl_shape_count(&t->shape) * sizeof(float));
  }
  sl_store_release(o->store);
  assert_ok(sl_interchange_arrays(o->format, o->evaluation.graph, gradients, &p));
  for (int i = 0; i < sl_weights_count(o->recorded); i++) {
    int64_t n;
    if (strncmp(sl_weights_get(o->recorded, i)->name, "gradient.", 9) != 0) continue;
    double *g = recorded(o->recorded, sl_weights_get(o->recorded, i)->name, &n);
    whole += g[0], all++;
    free(g);
  }
  for (int i = 0; i < p.n; i++) {
    char name[200];
    snprintf(name, sizeof name, "gradient.%s", p.names[i]);
    if (sl_weights_find(o->recorded, name) < 0) continue; /* of no parameter: a mean, a variance, a counter */
    int64_t two;
    double *expected = recorded(o->recorded, name, &two), squares = 0, product = 0;
    for (int64_t e = 0; e < sl_shape_count(&p.arrays[i].shape); e++) {
      const double g = (double)((const float *)p.arrays[i].data)[e];
      squares += g * g, product += g * fixed((uint32_t)e);
    }
    const double norm = sqrt(expected[0]), bound = GRADIENTS * norm + WHOLE * sqrt(whole);
    look(found, &found->gradients, fabs(sqrt(squares) - norm), bound, name);
    look(found, &found->gradients, fabs(product - expected[1]), bound, name);
    free(expected);
    compared++;
  }
  assert_int_equal(compared, all);
  sl_published_clear(&p);
  sl_store_destroy(gradients);
}

static void compare_training(const opened *o, sl_program *program, const void *samples, const int32_t *labels,
                             double faster, found *found) {
  int64_t n, one;
  double *losses = recorded(o->recorded, "losses", &n), *rate = recorded(o->recorded, "rate", &one), loss;
  assert_int_equal(n, STEPS);
  for (int step = 1; step <= STEPS; step++) {
    assert_ok(sl_program_run(program, &(sl_step){.number = step,
                                                 .seed = 1,
                                                 .learning_rate = (1 + faster) * *rate,
                                                 .input = {[SL_SLOT_SAMPLES] = samples, [SL_SLOT_LABELS] = labels}}));
    if (step == 1) compare_gradients(o, found);
    assert_ok(sl_program_read(program, o->step.loss, &loss));
    char what[32];
    snprintf(what, sizeof what, "loss %d", step);
    look(found, &found->losses, fabs(loss - losses[step - 1]), LOSSES * losses[step - 1], what);
  }
  free(losses), free(rate);
}

/* Windows of tokens are one token longer in training. */
static void *shortened(const int32_t *windows, int64_t length) {
  int32_t *tokens = aligned_alloc(64, ((size_t)(BATCH * length) * sizeof *tokens + 63) / 64 * 64);
  assert_non_null(tokens);
  for (int64_t b = 0; b < BATCH; b++)
    memcpy(tokens + b * length, windows + b * (length + 1), (size_t)length * sizeof *tokens);
  return tokens;
}

/* Compares a case without a fault, or with a fault that does not change shapes. */
static void compare(const published *c, const fault *f, found *found) {
  opened o;
  sl_fit fit;
  sl_program *evaluate, *train;
  sl_plan plan = {.batch = BATCH};
  int64_t n;
  *found = (struct found){0};
  open_case(c, f, &o, &fit);
  if (sl_fit_status(&fit, c->name) != SL_OK) fail_msg("%s: %s", sl_error(), fit.lines);
  sl_fit_clear(&fit);
  void *samples = recorded(o.recorded, "samples", &n);
  int32_t *labels = recorded(o.recorded, "labels", &n);
  void *tokens = o.data.length ? shortened(samples, o.data.length) : NULL;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_program_create(runtime, o.store, o.evaluation.graph, &plan,
                              &(sl_program_options){.keep = &o.evaluation.logits, .n_keep = 1}, &evaluate));
  assert_ok(sl_program_create(runtime, o.store, o.step.graph, &plan,
                              &(sl_program_options){.keep = &o.step.loss, .n_keep = 1}, &train));
  compare_logits(&o, evaluate, tokens ? tokens : samples, labels, found);
  compare_training(&o, train, samples, labels, f->faster, found);
  sl_program_destroy(evaluate), sl_program_destroy(train);
  free(samples), free(labels), free(tokens);
  close_case(&o);
}

static void as_recorded(void **state) {
  (void)state;
  for (int k = 0; k < CASES; k++) {
    found found;
    compare(&cases[k], &(fault){0}, &found);
    print_message("# %s: differences, in bounds: logits %.2g, gradients %.2g, losses %.2g\n", cases[k].name,
                  found.logits, found.gradients, found.losses);
    if (*found.text) fail_msg("%s: %s", cases[k].name, found.text);
  }
}

/* The first comparison that detects a fault. */
static void must_differ(const published *c, fault f, const char *where, const char *what) {
  found found;
  compare(c, &f, &found);
  if (strncmp(found.text, where, strlen(where)) != 0)
    fail_msg("%s, %s: no difference of a %s, but \"%s\"", c->name, what, where, found.text);
}

static void wrong_networks_differ(void **state) {
  (void)state;
  for (int k = 0; k < CASES; k++) {
    const published *c = &cases[k];
    for (int i = 0; i < 4 && c->wrong[i]; i++) must_differ(c, (fault){.sizes = c->wrong[i]}, "logit", c->wrong[i]);
    must_differ(c, (fault){.transposed = 1}, "logit", "transposed");
    must_differ(c, (fault){.heads = 1}, "logit", "exchanged heads");
    must_differ(c, (fault){.smoothing = 1e-3}, "gradient", "smoothed labels");
    must_differ(c, (fault){.faster = 1e-2}, "loss", "a rate 1% larger");
  }
  for (int k = 0; k < CASES; k++) /* as many patches, or pixels of the last stage, as before */
    if (!cases[k].length && strcmp(cases[k].name, "vit-torchvision") != 0)
      must_differ(&cases[k], (fault){.sides = 1}, "logit", "exchanged sides");
}

static void other_shapes_do_not_fit(void **state) {
  (void)state;
  for (int k = 0; k < CASES; k++)
    for (int i = 0; i < 4 && cases[k].misfit[i][0]; i++) {
      opened o;
      sl_fit fit;
      const char *name = cases[k].misfit[i][1];
      open_case(&cases[k], &(fault){.sizes = cases[k].misfit[i][0]}, &o, &fit);
      if (!strstr(fit.lines, name))
        fail_msg("%s with %s: %s is not among\n%s", cases[k].name, cases[k].misfit[i][0], name, fit.lines);
      assert_int_equal(sl_fit_status(&fit, cases[k].name), SL_EFORMAT);
      sl_fit_clear(&fit);
      close_case(&o);
    }
}

/* The tensors of two files: names, shapes and bits. left_out: a tensor that only b has. */
static void same_tensors(const char *path, const sl_weights *b, const char *left_out) {
  sl_weights *a;
  static char mine[1 << 19], theirs[1 << 19];
  assert_ok(sl_weights_open(path, &a));
  assert_int_equal(sl_weights_count(a), sl_weights_count(b) - (left_out != NULL));
  for (int i = 0; i < sl_weights_count(a); i++) {
    const sl_named_array *x = sl_weights_get(a, i);
    const int j = sl_weights_find(b, x->name);
    if (j < 0) fail_msg("%s is not in %s", x->name, sl_weights_path(b));
    const sl_named_array *y = sl_weights_get(b, j);
    const size_t bytes = (size_t)sl_shape_count(&x->shape) * sl_dtype_bytes(x->dtype);
    assert_true(x->dtype == y->dtype && sl_shape_equal(&x->shape, &y->shape) && bytes <= sizeof mine);
    assert_ok(sl_weights_read_as_is(a, i, mine));
    assert_ok(sl_weights_read_as_is(b, j, theirs));
    if (memcmp(mine, theirs, bytes) != 0) fail_msg("%s of %s has other bits", x->name, path);
  }
  sl_weights_close(a);
}

static void written_bit_for_bit(void **state) {
  for (int k = 0; k < CASES; k++) {
    opened o;
    sl_fit fit;
    sl__model_file *again;
    char before[SL_SIZES_TEXT], after[SL_SIZES_TEXT];
    const char *path = scratch_path(*state, cases[k].name);
    open_case(&cases[k], &(fault){0}, &o, &fit);
    assert_int_equal(fit.parts, cases[k].left_out != NULL);
    if (cases[k].left_out) assert_non_null(strstr(fit.lines, cases[k].left_out));
    sl_fit_clear(&fit);
    const sl__model_facts *facts = sl__model_facts_of(o.file);
    assert_ok(sl__published_save(path, o.format, &o.evaluation, o.store, facts, SL_F32, 0));
    same_tensors(path, o.weights, cases[k].left_out);
    assert_ok(sl__model_open_as(path, &(sl__model_wish){.sizes = cases[k].sizes}, &again));
    assert_string_equal(sl_model_text(sl__model_facts_of(again)->model, after, sizeof after),
                        sl_model_text(facts->model, before, sizeof before));
    assert_int_equal(sl__model_facts_of(again)->data.height, facts->data.height);
    assert_int_equal(sl__model_facts_of(again)->data.width, facts->data.width);
    sl__model_close(again);
    close_case(&o);
  }
}

/* In 16 bits every float is the nearest one, bit by bit; what fp16 cannot hold is refused by name. */
static void written_in_16_bits(void **state) {
  static const sl_dtype types[] = {SL_BF16, SL_F16};
  float *wide = malloc(MOST * sizeof *wide);
  uint16_t *narrow = malloc(MOST * sizeof *narrow);
  for (int t = 0; t < 2; t++) {
    opened o;
    sl_fit fit;
    sl_weights *written;
    const char *path = scratch_path(*state, t ? "fp16" : "bf16");
    open_case(&cases[0], &(fault){0}, &o, &fit);
    sl_fit_clear(&fit);
    assert_ok(sl__published_save(path, o.format, &o.evaluation, o.store, sl__model_facts_of(o.file), types[t], 0));
    assert_ok(sl_weights_open(path, &written));
    int64_t numbers = 0;
    for (int i = 0; i < sl_weights_count(written); i++) {
      const sl_named_array *a = sl_weights_get(written, i);
      const int j = sl_weights_find(o.weights, a->name);
      const int64_t n = sl_shape_count(&a->shape);
      assert_true(j >= 0 && n <= MOST);
      if (a->dtype == SL_I64) continue;
      assert_int_equal(a->dtype, types[t]);
      assert_ok(sl_weights_read_as_is(written, i, narrow));
      assert_ok(sl_weights_read(o.weights, j, wide));
      for (int64_t k = 0; k < n; k++) {
        uint32_t u;
        memcpy(&u, &wide[k], sizeof u);
        if (types[t] == SL_BF16) {
          const uint32_t down = u >> 16, rest = u & 0xffff, up = rest > 0x8000 || (rest == 0x8000 && (down & 1));
          assert_int_equal(narrow[k], down + up);
        } else {
          const double error = fabs((double)sl_half_wide(narrow[k]) - (double)wide[k]);
          for (int side = -1; side <= 1; side += 2)
            assert_true(error <= fabs((double)sl_half_wide((uint16_t)(narrow[k] + side)) - (double)wide[k]));
        }
        numbers++;
      }
    }
    assert_true(numbers > 1000);
    sl_weights_close(written);
    ((float *)sl_store_at(o.store, 0)->data)[3] = -70000;
    const char *other = scratch_path(*state, t ? "beyond16" : "beyond");
    const sl_status status =
        sl__published_save(other, o.format, &o.evaluation, o.store, sl__model_facts_of(o.file), types[t], 0);
    if (t) assert_fails(SL_EINVAL, "-70000, which is beyond fp16's range", status);
    if (!t) assert_ok(status);
    close_case(&o);
  }
  free(wide), free(narrow);
}

/* Copies a recorded folder with one line of config.json changed. */
static const char *with_config(const char *folder, const char *name, const char *from, const char *to) {
  static const char *const files[] = {"model.safetensors", "config.json"};
  const char *copy = scratch_path(folder, name);
  assert_ok(sl_folder_make(copy));
  for (int i = 0; i < 2; i++) {
    char path[4096], rest[64], text[8192];
    size_t n;
    snprintf(rest, sizeof rest, "/%s", files[i]);
    char *bytes = scratch_read(path_of(name, rest, path, sizeof path), &n);
    assert_non_null(bytes);
    char *at = i ? strstr(bytes, from) : NULL;
    if (i && !at) fail_msg("%s: no %s", path, from);
    if (at) snprintf(text, sizeof text, "%.*s%s%s", (int)(at - bytes), bytes, to, at + strlen(from));
    scratch_write(scratch_path(copy, files[i]), at ? text : bytes, at ? strlen(text) : n);
    free(bytes);
  }
  return copy;
}

static void contradictions_name_key_and_file(void **state) {
  static const struct {
    const char *name, *from, *to, *words;
  } lies[] = {
      {"gpt2", "\"n_layer\": 1", "\"n_layer\": 2", "n_layer is 2, but in the tensors it is 1"},
      {"gpt2", "\"n_positions\": 37", "\"n_positions\": 36", "n_positions is 36, but in the tensors it is 37"},
      {"gpt2", "\"n_head\": 3", "\"n_head\": 5", "size width=72 of gpt2 is not a multiple of heads=5"},
      {"bert", "\"intermediate_size\": 50", "\"intermediate_size\": 51",
       "intermediate_size is 51, but in the tensors it is"},
      {"vit", "\"patch_size\": 4", "\"patch_size\": 5", "patch_size is 5, but in the tensors it is 4"},
      {"deit", "\"hidden_size\": 20", "\"hidden_size\": 25", "hidden_size is 25, but in the tensors it is 20"},
      {"resnet", "\"embedding_size\": 6", "\"embedding_size\": 8", "embedding_size is 8, but in the tensors it is 6"},
      {"vit", "\"qkv_bias\": true", "\"qkv_bias\": false", "qkv_bias is false, but in the tensors it is true"},
      {"deit-unbiased", "\"qkv_bias\": false", "\"qkv_bias\": true",
       "qkv_bias is true, but in the tensors it is false"},
  };
  sl__model_file *file;
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    const char *path = with_config(*state, lies[i].name, lies[i].from, lies[i].to);
    assert_fails(SL_EFORMAT, lies[i].words, sl__model_open(path, &file));
    assert_non_null(strstr(sl_error(), scratch_path(path, "config.json")));
  }
}

/* Copies the tensors of a case, each data on its own; one more fits. */
enum { ARRAYS = 256 };
static sl_weights *copy_arrays(const char *name, sl_named_array arrays[ARRAYS], int *n) {
  char path[4096];
  sl_weights *w;
  assert_ok(sl_weights_open(path_of(name, "", path, sizeof path), &w));
  *n = sl_weights_count(w);
  assert_true(*n < ARRAYS);
  for (int i = 0; i < *n; i++) {
    int64_t count;
    arrays[i] = *sl_weights_get(w, i);
    arrays[i].data = recorded(w, arrays[i].name, &count);
  }
  return w;
}

static int array_of(const char *name, const sl_named_array *arrays, int n) {
  for (int i = 0; i < n; i++)
    if (strcmp(arrays[i].name, name) == 0) return i;
  fail_msg("no tensor %s", name);
  return -1;
}

/* Reads the weights file (with its sizes) into a store; new_head: all but the classifier. */
static void read_file(const char *path, const char *sizes, int new_head, sl_store **store, sl_fit *fit) {
  sl__model_file *file;
  sl_weights *w;
  sl_network network;
  assert_ok(sl__model_open_as(path, &(sl__model_wish){.sizes = sizes}, &file));
  assert_ok(sl_weights_open(path, &w));
  const sl__model_facts *facts = sl__model_facts_of(file);
  assert_ok((facts->data.length ? sl_network_logits : sl_network_evaluation)(facts->model, &facts->data,
                                                                             &facts->training, BATCH, &network));
  assert_ok(sl_store_create(store));
  assert_ok(sl_interchange_store(network.graph, *store));
  assert_ok(
      sl_interchange_read(w, sl__model_format(file), network.graph, *store, new_head ? network.logits : SL_NONE, fit));
  sl_network_destroy(&network);
  sl_weights_close(w);
  sl__model_close(file);
}

static void grouped_convolutions_are_refused(void **state) {
  sl__model_file *file;
  static sl_named_array arrays[ARRAYS];
  int n;
  sl_weights *w = copy_arrays("bottleneck-torchvision", arrays, &n);
  arrays[array_of("layer3.1.conv2.weight", arrays, n)].shape.dim[1] = 5;
  assert_ok(sl_weights_write(*state, arrays, n, NULL, 0, 0));
  assert_fails(SL_EUNSUPPORTED, "layer3.1.conv2.weight has 10 output and 5 input channels: a convolution in 2 groups",
               sl__model_open(*state, &file));
  assert_non_null(strstr(sl_error(), *state));
  for (int i = 0; i < n; i++) free((void *)arrays[i].data);
  sl_weights_close(w);
}

/* The logits depend on a layer before the classifier, unless the classifier is new. */
static void layers_before_the_classifier_are_needed(void **state) {
  static sl_named_array arrays[ARRAYS];
  int n;
  sl_store *store;
  sl_fit fit;
  sl_weights *w = copy_arrays("vit-torchvision", arrays, &n);
  static const float square[24 * 24];
  arrays[n] = (sl_named_array){.name = "heads.pre_logits.weight", .shape = SL_SHAPE(24, 24), .data = square};
  assert_ok(sl_weights_write(*state, arrays, n + 1, NULL, 0, 0));
  for (int new_head = 0; new_head < 2; new_head++) {
    read_file(*state, "heads=3", new_head, &store, &fit);
    assert_string_equal(fit.lines, new_head
                                       ? "left out a layer and a tanh before the classifier (representation_size): "
                                         "heads.pre_logits.weight\n"
                                       : "lacking  a layer and a tanh before the classifier (representation_size): "
                                         "heads.pre_logits.weight\n");
    assert_int_equal(fit.wrong, !new_head);
    assert_int_equal(fit.parts, new_head);
    assert_int_equal(sl_fit_status(&fit, "x"), new_head ? SL_OK : SL_EFORMAT);
    sl_fit_clear(&fit);
    sl_store_destroy(store);
  }
  for (int i = 0; i < n; i++) free((void *)arrays[i].data);
  sl_weights_close(w);
}

/* Without config.json: the sizes state that the head is not tied. An untied decoder's bias has its own name, or, in
 * files of transformers 4, that of the tied one. */
static void untied_heads_of_single_files(void **state) {
  static sl_named_array arrays[ARRAYS];
  int n;
  sl_store *store;
  sl_fit fit;
  sl_shape shape;
  sl_weights *w = copy_arrays("bert-untied", arrays, &n);
  const int own = array_of("cls.predictions.decoder.bias", arrays, n),
            old = array_of("cls.predictions.bias", arrays, n);
  const size_t bytes = (size_t)sl_shape_count(&arrays[own].shape) * sizeof(float);
  assert_true(memcmp(arrays[own].data, arrays[old].data, bytes) != 0);
  for (int both = 1; both >= 0; both--) {
    arrays[own].name = both ? "cls.predictions.decoder.bias" : "unknown.bias";
    assert_ok(sl_weights_write(*state, arrays, n, NULL, 0, 0));
    read_file(*state, "heads=2,untied=1", 0, &store, &fit);
    assert_ok(sl_fit_status(&fit, *state));
    assert_true((strstr(fit.lines, "left out second bias of the decoder") != NULL) == both);
    assert_memory_equal(tensor(store, "head.decoder.bias", &shape), arrays[both ? own : old].data, bytes);
    sl_fit_clear(&fit);
    sl_store_destroy(store);
  }
  for (int i = 0; i < n; i++) free((void *)arrays[i].data);
  sl_weights_close(w);
  w = copy_arrays("gpt2-untied", arrays, &n);
  assert_ok(sl_weights_write(*state, arrays, n, NULL, 0, 0));
  read_file(*state, "heads=3", 0, &store, &fit);
  assert_string_equal(
      fit.lines,
      "tied     lm_head.weight is not the same as transformer.wte.weight; the network has one for both (untied=0)\n");
  sl_fit_clear(&fit), sl_store_destroy(store);
  /* An untied network whose embedding is missing does not take the head's. */
  arrays[array_of("transformer.wte.weight", arrays, n)].name = "unknown.weight";
  assert_ok(sl_weights_write(*state, arrays, n, NULL, 0, 0));
  read_file(*state, "heads=3,width=30,vocabulary=61,untied=1", 0, &store, &fit);
  assert_non_null(strstr(fit.lines, "missing  transformer.wte.weight (wte.weight)\n"));
  assert_int_equal(fit.missing, 1);
  sl_fit_clear(&fit), sl_store_destroy(store);
  for (int i = 0; i < n; i++) free((void *)arrays[i].data);
  sl_weights_close(w);
}

/* torchvision's layers cannot express these settings. */
static void settings_that_a_library_lacks(void **state) {
  static const struct {
    const char *model, *sizes, *words;
  } cases[] = {
      {"resnet18", "first_stride=2", "first_stride=2 and not 1; there is one for hf"},
      {"resnet50", "early_stride=1,activation=gelu",
       "early_stride=1 and not 0, activation=gelu and not relu; there is"},
      {"vit-b16", "unbiased=1", "eps=1e-12 and not 1e-06, unbiased=1 and not 0; there is one for hf"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const sl_model *listed;
    sl_model *sized;
    const sl_format *format;
    assert_ok(sl_model_find(cases[i].model, &listed));
    assert_ok(sl_model_sized(listed, cases[i].sizes, &sized));
    assert_fails(SL_EUNSUPPORTED, cases[i].words, sl_format_of_model(sized, "torchvision", &format));
    assert_ok(sl_format_of_model(sized, "hf", &format));
    free(sized);
  }
}

/* Heads do not show in shapes: config.json alone contradicts them. */
static void wishes_are_held_against_the_file(void **state) {
  char path[4096];
  sl__model_file *file;
  sl_network network;
  sl_store *store;
  (void)state;
  path_of("gpt2", "", path, sizeof path);
  assert_fails(SL_EINVAL, "width=72 of gpt2 is not a multiple of heads=5",
               sl__model_open_as(path, &(sl__model_wish){.sizes = "heads=5"}, &file));
  assert_fails(SL_ENOTFOUND, "'colour'", sl__model_open_as(path, &(sl__model_wish){.sizes = "colour=5"}, &file));
  assert_fails(SL_EINVAL, "--size heads=N", sl__model_open(path_of("vit-torchvision", "", path, sizeof path), &file));
  assert_ok(sl__model_open_as(path_of("gpt2", "", path, sizeof path), &(sl__model_wish){.sizes = "heads=6"}, &file));
  const sl__model_facts *facts = sl__model_facts_of(file);
  assert_ok(sl_network_logits(facts->model, &facts->data, &facts->training, BATCH, &network));
  assert_ok(sl_store_create(&store));
  assert_ok(sl_interchange_store(network.graph, store));
  assert_fails(SL_ESHAPE, "n_head is 3, the network's 6",
               sl__model_fill(file, store, &network, facts->model, &facts->data, 0));
  assert_non_null(strstr(sl_error(), path));
  sl_store_destroy(store);
  sl_network_destroy(&network);
  sl__model_close(file);
}

static int start(void **state) {
  sl_runtime_options o = sl_runtime_defaults();
  (void)state;
  o.mpi = o.gpus = 0;
  o.workers = 2;
  return sl_runtime_start(&o, &runtime) != SL_OK;
}

static int stop(void **state) {
  (void)state;
  sl_runtime_stop(runtime);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_recorded),
      cmocka_unit_test(wrong_networks_differ),
      cmocka_unit_test(other_shapes_do_not_fit),
      cmocka_unit_test_setup_teardown(written_bit_for_bit, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(written_in_16_bits, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(contradictions_name_key_and_file, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(grouped_convolutions_are_refused, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(layers_before_the_classifier_are_needed, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(untied_heads_of_single_files, scratch_setup, scratch_teardown),
      cmocka_unit_test(settings_that_a_library_lacks),
      cmocka_unit_test(wishes_are_held_against_the_file),
  };
  return cmocka_run_group_tests_name("published", tests, start, stop);
}
