/* models/interchange/interchange.c and config.c: small networks as transformers wrote them (record_published.py) give
 * its logits, and are written as they were; what does not fit is listed whole. */
#include "models/interchange/interchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tasks/starpu/program.h"
#include "tests/support/scratch.h"

enum { BATCH = 2, LENGTH = 5, VOCABULARY = 11 };

static const sl_model gpt = {
    .name = "gpt2",
    .family = &sl_family_gpt2,
    .sizes = &(const sl_gpt_size){.layers = 2, .heads = 2, .width = 8, .positions = LENGTH, .vocabulary = VOCABULARY},
    .usual = {.length = LENGTH}};
static const sl_model_data tokens = {.length = LENGTH, .classes = VOCABULARY};

static const sl_model vit = {.name = "vit",
                             .family = &sl_family_vit,
                             .sizes = &(const sl_vit_size){.layers = 1, .heads = 2, .width = 8, .patch = 3}};
static const sl_model_data images = {
    .height = 6, .width = 6, .channels = 3, .classes = 3, .mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}};

static const sl_model bert = {
    .name = "bert",
    .family = &sl_family_bert,
    .sizes = &(const sl_bert_size){.layers = 1, .heads = 2, .width = 8, .positions = LENGTH, .vocabulary = VOCABULARY},
    .usual = {.length = LENGTH}};

static const struct {
  const sl_model *model;
  const sl_model_data *data;
} cases[] = {{&gpt, &tokens}, {&vit, &images}, {&bert, &tokens}};
enum { CASES = sizeof cases / sizeof *cases };

static const sl_format *format_of(int k) {
  const sl_format *format;
  assert_ok(sl_format_of_model(cases[k].model, "hf", &format));
  return format;
}

static char *path_of(const char *model, const char *rest, char *text, size_t n) {
  const char *top = getenv("top_srcdir");
  snprintf(text, n, "%s/tests/models/published/%s%s", top ? top : ".", model, rest);
  return text;
}

static void network_of(int k, sl_network *network) {
  const sl_model *m = cases[k].model;
  assert_ok((m->family->data->classifies ? sl_network_evaluation : sl_network_logits)(m, cases[k].data, &m->training,
                                                                                      BATCH, network));
}

static int64_t read_array(const sl_weights *w, const char *name, void *data, size_t room) {
  const int i = sl_weights_find(w, name);
  assert_true(i >= 0);
  const sl_named_array *a = sl_weights_get(w, i);
  assert_true((size_t)sl_shape_count(&a->shape) * sl_dtype_bytes(a->dtype) <= room);
  assert_ok(sl_weights_read_as_is(w, i, data));
  return sl_shape_count(&a->shape);
}

static void logits_are_as_recorded(void **state) {
  (void)state;
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  o.mpi = o.gpus = 0;
  o.workers = 2;
  assert_ok(sl_runtime_start(&o, &rt));
  for (int k = 0; k < CASES; k++) {
    char path[4096];
    float expected[256], got[256];
    _Alignas(64) uint8_t samples[512];
    int32_t labels[BATCH] = {0};
    const char *name = cases[k].model->name;
    sl_weights *w, *recorded;
    sl_network network;
    sl_store *store;
    sl_program *program;
    sl_fit fit;
    sl_config theirs, shown;
    network_of(k, &network);
    assert_ok(sl_config_read(path_of(name, "/config.json", path, sizeof path), &theirs));
    assert_ok(sl_config_compare(&theirs, path, cases[k].model, cases[k].data));
    assert_int_equal(theirs.labels, cases[k].data->height ? cases[k].data->classes : 0);
    assert_ok(sl_weights_open(path_of(name, "", path, sizeof path), &w));
    assert_ok(sl_weights_open(path_of(name, ".safetensors", path, sizeof path), &recorded));
    const int64_t n = read_array(recorded, "logits", expected, sizeof expected);
    read_array(recorded, "samples", samples, sizeof samples);
    const sl_format *format = sl_format_of_weights(w);
    assert_ptr_equal(format, format_of(k));
    /* The tensors give the same sizes as config.json. */
    assert_ok(sl_config_measure(format, w, &shown));
    assert_ok(sl_config_take_measured(&theirs, path, &shown));
    sl_config_clear(&theirs);
    sl_config_clear(&shown);
    assert_string_equal(sl_format_name(format), name);
    assert_int_equal(sl_format_classes(format, w), cases[k].data->classes);
    sl_plan plan = {.batch = BATCH};
    assert_ok(sl_plan_complete(&plan));
    assert_ok(sl_store_create(&store));
    assert_ok(sl_program_create(rt, store, network.graph, &plan,
                                &(sl_program_options){.keep = &network.logits, .n_keep = 1}, &program));
    assert_ok(sl_interchange_read(w, format, network.graph, store, SL_NONE, &fit));
    assert_string_equal(fit.lines, "");
    sl_fit_clear(&fit);
    assert_ok(sl_program_run(
        program, &(sl_step){.number = 1, .input = {[SL_SLOT_SAMPLES] = samples, [SL_SLOT_LABELS] = labels}}));
    assert_ok(sl_program_read(program, network.logits, got));
    for (int64_t i = 0; i < n; i++)
      if (!(fabsf(got[i] - expected[i]) <= 2e-6f * (1 + fabsf(expected[i]))))
        fail_msg("%s: logit %d is %.9g, recorded %.9g", name, (int)i, (double)got[i], (double)expected[i]);
    sl_program_destroy(program);
    sl_store_destroy(store);
    sl_network_destroy(&network);
    sl_weights_close(w);
    sl_weights_close(recorded);
  }
  sl_runtime_stop(rt);
}

/* Reads the recorded weights of case k into a store. */
static void fill(int k, const char *path, sl_network *network, sl_store **store) {
  sl_weights *w;
  sl_fit fit;
  network_of(k, network);
  assert_ok(sl_store_create(store));
  assert_ok(sl_interchange_store(network->graph, *store));
  assert_ok(sl_weights_open(path, &w));
  assert_ok(sl_interchange_read(w, sl_format_of_weights(w), network->graph, *store, SL_NONE, &fit));
  assert_ok(sl_fit_status(&fit, path));
  sl_fit_clear(&fit);
  sl_weights_close(w);
}

/* The files `path` and `recorded` have the same tensors, bit for bit; positions may have been cut. */
static void same_tensors(const char *path, const char *recorded) {
  sl_weights *a, *b;
  assert_ok(sl_weights_open(path, &a));
  assert_ok(sl_weights_open(recorded, &b));
  assert_int_equal(sl_weights_count(a), sl_weights_count(b));
  for (int i = 0; i < sl_weights_count(a); i++) {
    const sl_named_array *x = sl_weights_get(a, i);
    const int j = sl_weights_find(b, x->name);
    static float mine[4096], theirs[4096];
    if (j < 0) fail_msg("%s is not in %s", x->name, recorded);
    const sl_named_array *y = sl_weights_get(b, j);
    const int cut = strstr(x->name, "wpe") || strstr(x->name, "position_embeddings.");
    if (!cut) assert_true(sl_shape_equal(&x->shape, &y->shape));
    assert_true(sl_shape_count(&y->shape) <= 4096);
    assert_ok(sl_weights_read(a, i, mine));
    assert_ok(sl_weights_read(b, j, theirs));
    assert_memory_equal(mine, theirs, (size_t)sl_shape_count(&x->shape) * sizeof *mine);
  }
  sl_weights_close(a);
  sl_weights_close(b);
}

static void written_as_they_were(void **state) {
  for (int k = 0; k < CASES; k++) {
    char path[4096];
    sl_network network;
    sl_store *store;
    sl_published published;
    fill(k, path_of(cases[k].model->name, "", path, sizeof path), &network, &store);
    assert_ok(sl_interchange_arrays(format_of(k), network.graph, store, &published));
    assert_ok(sl_weights_write(*state, published.arrays, published.n, NULL, 0, 0));
    same_tensors(*state, path);
    sl_published_clear(&published);
    sl_store_destroy(store);
    sl_network_destroy(&network);
  }
}

/* Names without prefixes, with old endings, and with the tied tensor give the same. */
static void other_spellings(void **state) {
  for (int k = 0; k < CASES; k++) {
    char path[4096];
    sl_network network;
    sl_store *store, *again;
    sl_published p;
    fill(k, path_of(cases[k].model->name, "", path, sizeof path), &network, &store);
    const sl_format *format = format_of(k);
    assert_ok(sl_interchange_arrays(format, network.graph, store, &p));
    for (int i = 0; i < p.n; i++) {
      static const char *const prefixes[] = {"transformer.", "bert.", "vit."};
      char *at;
      for (int f = 0; f < 3; f++)
        if (strncmp(p.names[i], prefixes[f], strlen(prefixes[f])) == 0) p.arrays[i].name += strlen(prefixes[f]);
      if ((at = strstr(p.names[i], "LayerNorm.weight"))) strcpy(at, "LayerNorm.gamma");
      if ((at = strstr(p.names[i], "LayerNorm.bias"))) strcpy(at, "LayerNorm.beta");
      if (strcmp(p.arrays[i].name, "wte.weight") == 0) p.arrays[i].name = "lm_head.weight";
    }
    assert_ok(sl_weights_write(*state, p.arrays, p.n, NULL, 0, 0));
    sl_published_clear(&p);
    sl_network_destroy(&network);
    fill(k, *state, &network, &again);
    for (int i = 0; i < sl_store_count(store); i++) {
      const sl_tensor *t = sl_store_at(store, i), *u = sl_store_find(again, t->name);
      assert_memory_equal(t->data, u->data, (size_t)sl_shape_count(&t->shape) * sizeof(float));
    }
    sl_store_destroy(store);
    sl_store_destroy(again);
    sl_network_destroy(&network);
  }
}

static void misfits_are_all_listed(void **state) {
  char path[4096];
  sl_network network;
  sl_store *store;
  sl_published p;
  sl_weights *w;
  sl_fit fit;
  fill(0, path_of("gpt2", "", path, sizeof path), &network, &store);
  assert_ok(sl_interchange_arrays(format_of(0), network.graph, store, &p));
  float *head = calloc(VOCABULARY * 8, sizeof *head);
  for (int i = 0; i < p.n; i++) {
    if (strcmp(p.names[i], "transformer.h.1.ln_2.bias") == 0) p.arrays[i].name = "transformer.h.2.ln_2.bias";
    if (strcmp(p.names[i], "transformer.ln_f.bias") == 0) p.arrays[i].name = "transformer.ln_g.bias";
    if (strcmp(p.names[i], "transformer.h.0.mlp.c_fc.weight") == 0) p.arrays[i].shape = SL_SHAPE(32, 8);
    if (strcmp(p.names[i], "transformer.h.0.mlp.c_proj.weight") == 0) p.arrays[i].dtype = SL_I32; /* of the same size */
  }
  p.arrays[p.n] = (sl_named_array){.name = "lm_head.weight", .shape = SL_SHAPE(VOCABULARY, 8), .data = head};
  assert_ok(sl_weights_write(*state, p.arrays, p.n + 1, NULL, 0, 0));
  assert_ok(sl_weights_open(*state, &w));
  assert_ok(sl_interchange_read(w, sl_format_of_weights(w), network.graph, store, SL_NONE, &fit));
  assert_int_equal(fit.missing, 2);
  assert_int_equal(fit.wrong, 3);
  assert_int_equal(fit.extra, 1);
  assert_int_equal(fit.unknown, 1);
  static const char *const lines[] = {
      "missing  transformer.h.1.ln_2.bias (h.1.ln_2.bias)\n",
      "missing  transformer.ln_f.bias (ln_f.bias)\n",
      "shape    transformer.h.0.mlp.c_fc.weight (h.0.mlp.fc.weight) is [32, 8] in the file, the network wants [8, "
      "32]\n",
      "type     transformer.h.0.mlp.c_proj.weight (h.0.mlp.proj.weight) is I32 in the file",
      "extra    transformer.h.2.ln_2.bias [8]\n",
      "unknown  transformer.ln_g.bias [8]\n",
      "tied     lm_head.weight is not the same as transformer.wte.weight"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strstr(fit.lines, lines[i])) fail_msg("\"%s\" is not among\n%s", lines[i], fit.lines);
  assert_fails(SL_EFORMAT, "2 missing, 3 wrong, 1 too many", sl_fit_status(&fit, "x"));
  sl_fit_clear(&fit);
  assert_fails(SL_EINVAL, "tied",
               sl_interchange_read(w, sl_format_of_weights(w), network.graph, store, network.logits, &fit));
  free(head);
  sl_weights_close(w);
  sl_published_clear(&p);
  sl_store_destroy(store);
  sl_network_destroy(&network);
}

static void configs_that_lie(void **state) {
  static const struct {
    const char *text;
    sl_status status;
    const char *error;
  } bad[] = {
      {"{}", SL_EFORMAT, "no model_type"},
      {"{\"model_type\": \"llama\"}", SL_EUNSUPPORTED, "'llama'"},
      {"{\"model_type\": \"gpt2\", \"n_layer\": 1e3}", SL_EFORMAT, "n_layer is 1000.0, not a whole number"},
      {"{\"model_type\": \"gpt2\", \"n_layer\": -1}", SL_EFORMAT, "n_layer is -1, not a whole number from 1 to 1024"},
      {"{\"model_type\": \"gpt2\", \"n_embd\": 99999999999999999999}", SL_EFORMAT, "integer"},
      {"{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_head\": 3}", SL_EFORMAT,
       "width=8 of gpt2 is not a multiple of heads=3; heads=2 and heads=4 divide it"},
      {"{\"model_type\": \"gpt2\", \"n_head\": 12, \"n_head\": 12}", SL_EFORMAT, "duplicate"},
      {"{\"model_type\": \"gpt2\", \"activation_function\": \"swish\"}", SL_EUNSUPPORTED, "'swish'"},
      {"{\"model_type\": \"gpt2\", \"activation_function\": \"silu\"}", SL_EUNSUPPORTED,
       "'silu', which Starling lacks; there are gelu"},
      {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}", SL_EUNSUPPORTED,
       "position_embedding_type is \"relative_key\", and only \"absolute\" is supported: Starling has no relative"},
      {"{\"model_type\": \"bert\", \"is_decoder\": true}", SL_EUNSUPPORTED,
       "Starling has no BERT that learns the next"},
      {"{\"model_type\": \"bert\", \"tie_word_embeddings\": \"false\"}", SL_EFORMAT,
       "tie_word_embeddings is not true or false"},
      {"{\"model_type\": \"vit\", \"qkv_bias\": 0}", SL_EFORMAT, "qkv_bias is not true or false"},
      {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", SL_EUNSUPPORTED, "(cross attention)"},
      {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}", SL_EUNSUPPORTED,
       "scores are divided by the layer's number"},
      {"{\"model_type\": \"vit\", \"patch_size\": [4, 2]}", SL_EUNSUPPORTED, "patch_size is 4 by 2"},
      {"{\"model_type\": \"vit\", \"image_size\": [33, 0]}", SL_EFORMAT, "image_size is not one or two whole numbers"},
      {"{\"model_type\": \"resnet\", \"hidden_act\": \"tanh\"}", SL_EUNSUPPORTED,
       "hidden_act is 'tanh', which Starling"},
      {"{\"model_type\": \"resnet\", \"depths\": [1, 1, 1, 1, 1, 1, 1, 1, 1]}", SL_EFORMAT, "not a list of at most 8"},
      {"{\"model_type\": \"resnet\", \"depths\": [1, 1]}", SL_EFORMAT,
       "channels of resnet has 4 stages, but blocks has 2"},
      {"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": 0}", SL_EFORMAT, "layer_norm_epsilon"},
      {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", SL_EUNSUPPORTED, "scale_attn_weights is false"},
  };
  const char *path = scratch_path(*state, "config.json");
  sl_config config;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    scratch_write(path, bad[i].text, strlen(bad[i].text));
    assert_fails(bad[i].status, bad[i].error, sl_config_read(path, &config));
    assert_non_null(strstr(sl_error(), path));
  }
  static const char other[] =
      "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 4, \"n_embd\": 8, "
      "\"n_positions\": 9, \"vocab_size\": 11}";
  scratch_write(path, other, strlen(other));
  assert_ok(sl_config_read(path, &config));
  assert_fails(SL_ESHAPE, "n_layer is 3, the network's 2; n_head is 4, the network's 2",
               sl_config_compare(&config, path, &gpt, &tokens));
  sl_config_clear(&config);
  static const char untied[] =
      "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 8, \"n_positions\": 5, \"vocab_size\": "
      "11, "
      "\"tie_word_embeddings\": false, \"activation_function\": \"relu\"}";
  scratch_write(path, untied, strlen(untied));
  assert_ok(sl_config_read(path, &config));
  assert_fails(SL_ESHAPE,
               "activation_function is relu, the network's gelu_new; tie_word_embeddings is false, the network's true",
               sl_config_compare(&config, path, &gpt, &tokens));
  sl_config_clear(&config);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_are_as_recorded),
      cmocka_unit_test_setup_teardown(written_as_they_were, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(other_spellings, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(misfits_are_all_listed, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(configs_that_lie, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("interchange", tests, NULL, NULL);
}
