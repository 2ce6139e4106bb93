/* Fuzz target: the reader of config.json. What it accepts is written, and reads back the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "models/interchange/interchange.h"
#include "tests/fuzz/fuzz.h"

static int put(int fd, const void *bytes, size_t n) {
  if (fd < 0) fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n) abort();
  return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static int fd = -1, again = -1;
  char path[64];
  sl_config config, same;
  json_t *json;
  fd = put(fd, data, n);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (sl_config_read(path, &config) != SL_OK) {
    if (config.format || config.sizes || config.label_names || !strstr(sl_error(), path)) abort();
    return -1;
  }
  sl_model *model;
  const sl_model_data of = {
      .height = config.height, .width = config.width, .channels = config.channels, .classes = config.labels};
  if (sl_model_of_sizes(sl_format_family(config.format), config.sizes, &model) != SL_OK) abort();
  sl_model_data d = of;
  if (sl_model_vocabulary(model) > 0) d.classes = sl_model_vocabulary(model);
  if (sl_config_to_json(config.format, model, &d, config.label_names, &json) != SL_OK) abort();
  char *text = json_dumps(json, 0);
  again = put(again, text, strlen(text));
  snprintf(path, sizeof path, "/proc/self/fd/%d", again);
  if (sl_config_read(path, &same) != SL_OK || sl_config_compare(&same, path, model, &d) != SL_OK ||
      same.labels != config.labels)
    abort();
  free(model);
  free(text);
  json_decref(json);
  sl_config_clear(&config);
  sl_config_clear(&same);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 2, \"n_positions\": 6, \"vocab_size\": "
      "11}",
      "{\"model_type\": \"gpt2\", \"n_inner\": null, \"layer_norm_epsilon\": 1e-05, \"activation_function\": "
      "\"gelu_new\", \"scale_attn_weights\": true, \"tie_word_embeddings\": false}",
      "{\"model_type\": \"bert\", \"hidden_size\": 8, \"num_attention_heads\": 2, \"layer_norm_eps\": 1e-12, "
      "\"hidden_act\": \"gelu\", \"position_embedding_type\": \"absolute\", \"is_decoder\": false}",
      "{\"model_type\": \"resnet\", \"depths\": [1, 2], \"hidden_sizes\": [8, 12], \"embedding_size\": 6, "
      "\"layer_type\": \"basic\", \"num_labels\": 3, \"downsample_in_first_stage\": true, \"hidden_act\": \"linear\"}",
      "{\"model_type\": \"vit\", \"hidden_size\": 8, \"num_attention_heads\": 2, \"image_size\": 6, \"patch_size\": 3, "
      "\"qkv_bias\": false, \"id2label\": {\"0\": \"cat\", \"1\": \"dog\"}, \"label2id\": {\"cat\": 0, \"dog\": 1}}",
  };
  if ((size_t)number >= sizeof seeds / sizeof *seeds) return 0;
  const size_t n = strlen(seeds[number]);
  if (n > room) abort();
  memcpy(data, seeds[number], n);
  return n;
}
