/* Published weights as a model of the list, and back. */
#include "tools/files/published.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "tools/settings/model.h"

/* The file of that name beside the weights; NULL: there is none. *path is to be freed. */
static sl_status beside(const sl_weights *weights, const char *name, char **path) {
  const char *file = sl_weights_path(weights), *slash = strrchr(file, '/');
  if (asprintf(path, "%.*s%s", slash ? (int)(slash + 1 - file) : 0, file, name) < 0) {
    *path = NULL;
    return sl_no_memory("for a path");
  }
  if (access(*path, F_OK) == 0) return SL_OK;
  free(*path);
  *path = NULL;
  return SL_OK;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* What the model is to be built for, if these weights are to fit it. */
static sl_model_data data_for(const sl_model *m, const sl_config *config, int64_t classes) {
  sl_model_data d = {.classes = classes};
  if (m->task != SL_TASK_CLASSIFY) {
    d.length = m->length;
    if (config->family && config->size[SL_SIZE_POSITIONS] < d.length) d.length = config->size[SL_SIZE_POSITIONS];
    if (!classes) d.classes = m->vocabulary;
    return d;
  }
  d.height = m->image[0], d.width = m->image[1], d.channels = m->image[2];
  if (config->family) d.height = d.width = config->size[SL_SIZE_IMAGE], d.channels = config->size[SL_SIZE_CHANNELS];
  if (!classes) d.classes = m->classes;
  static const double imagenet[2][3] = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}; /* as torchvision's */
  const int each = !config->family && d.channels == 3;
  for (int c = 0; c < SL_MAX_CHANNELS; c++) /* else as ViT's image processor */
    d.mean[c] = each && c < 3 ? imagenet[0][c] : 0.5, d.deviation[c] = each && c < 3 ? imagenet[1][c] : 0.5;
  return d;
}

/* Whether weights and configuration are those of the model, exactly. */
static int is_model(const sl_weights *weights, const sl_family *family, const sl_config *config, const sl_model *m,
                    const sl_model_data *data) {
  sl_network network;
  sl_config mine;
  sl_fit fit = {0};
  if (data->classes < 1 || (data->length < 1 && (data->height < 1 || data->channels < 1))) return 0;
  if (sl_network_evaluation(m, data, &m->training, 1, &network) != SL_OK) return 0;
  int fits = sl_family_of_graph(network.graph) == family;
  if (fits && config->family)
    fits = sl_config_of_graph(network.graph, data, &mine) == SL_OK &&
           sl_config_compare(config, "", &mine, m->name) == SL_OK;
  fits = fits && sl_interchange_read(weights, family, network.graph, NULL, SL_NONE, &fit) == SL_OK &&
         sl_fit_status(&fit, "") == SL_OK;
  sl_fit_clear(&fit);
  sl_network_destroy(&network);
  return fits;
}

static sl_status find_model(const sl_weights *weights, const sl_family *family, const sl_config *config,
                            int64_t classes, sl__model_facts *facts) {
  for (int m = 0; sl_models[m]; m++) {
    facts->data = data_for(sl_models[m], config, classes);
    if (is_model(weights, family, config, sl_models[m], &facts->data)) {
      facts->model = sl_models[m];
      return SL_OK;
    }
  }
  return sl_fail(SL_ENOTFOUND,
                 "%s: no model of the list has these %d tensors of %s; 'starling convert --model NAME' tells what does "
                 "not fit NAME",
                 sl_weights_path(weights), sl_weights_count(weights), sl_family_name(family));
}

static sl_status read_processor(const char *path, sl_model_data *data) {
  json_t *json;
  SL_TRY(sl_json_read(path, &json));
  const json_t *mean = json_object_get(json, "image_mean"), *deviation = json_object_get(json, "image_std");
  sl_status status = SL_OK;
  const size_t n = json_array_size(mean), channels = (size_t)data->channels;
  if (!mean && !deviation) goto out;
  if (n != channels || json_array_size(deviation) != n || n > SL_MAX_CHANNELS)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: image_mean and image_std are not of %zu channels", path, channels));
  for (size_t c = 0; c < n; c++) {
    data->mean[c] = json_number_value(json_array_get(mean, c));
    data->deviation[c] = json_number_value(json_array_get(deviation, c));
    if (!(data->deviation[c] > 0))
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: image_std has a value that is not above 0", path));
  }
out:
  json_decref(json);
  return status;
}

static sl_status name_classes(const sl_config *config, sl__model_facts *facts) {
  const int64_t n = facts->data.classes;
  if (facts->model->task != SL_TASK_CLASSIFY) return SL_OK;
  facts->class_names = calloc((size_t)n + 1, sizeof *facts->class_names);
  if (!facts->class_names) return sl_no_memory("for %lld class names", (long long)n);
  for (int64_t i = 0; i < n; i++) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)i);
    facts->class_names[i] = strdup(config->label_names && i < config->labels ? config->label_names[i] : number);
    if (!facts->class_names[i]) return sl_no_memory("for a class name");
  }
  return SL_OK;
}

void sl__published_clear(sl__model_facts *facts) {
  for (int64_t i = 0; facts->class_names && i < facts->data.classes; i++) free(facts->class_names[i]);
  free(facts->class_names);
  facts->class_names = NULL;
}

sl_status sl__published_facts(const sl_weights *weights, const sl_family *family, const sl_model *model,
                              sl_config *config, sl__model_facts *facts) {
  char *path = NULL, *processor = NULL;
  sl_status status = SL_OK;
  *config = (sl_config){0};
  SL_TRY(beside(weights, "config.json", &path));
  if (path && sl_family_has_config(family)) {
    SL_TRY_OUT(sl_config_read(path, config));
    if (config->family != family)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s says %s, but the tensors are of %s", path, sl_family_name(config->family),
                         sl_family_name(family)));
  }
  const int64_t classes = sl_family_classes(family, weights);
  if (model) {
    facts->model = model;
    facts->data = data_for(model, config, classes);
  } else {
    SL_TRY_OUT(find_model(weights, family, config, classes, facts));
  }
  facts->training = facts->model->training;
  facts->val_fraction = 0.1;
  if (facts->model->task == SL_TASK_CLASSIFY) {
    SL_TRY_OUT(beside(weights, "preprocessor_config.json", &processor));
    if (processor) SL_TRY_OUT(read_processor(processor, &facts->data));
  }
  SL_TRY_OUT(name_classes(config, facts));
  const sl__options options = {.seed = 1, .length = facts->data.length};
  status = sl__plan_of(&options, facts->model, 1, &facts->plan);
out:
  free(path), free(processor);
  return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static sl_status write_json(const char *folder, const char *name, const json_t *json) {
  char *path;
  if (asprintf(&path, "%s/%s", folder, name) < 0) return sl_no_memory("for a path");
  const sl_status status = sl_json_write(path, json);
  free(path);
  return status;
}

static sl_status save_config(const char *folder, const sl_network *network, const sl__model_facts *facts) {
  sl_config config;
  json_t *json = NULL;
  SL_TRY(sl_config_of_graph(network->graph, &facts->data, &config));
  config.label_names = facts->class_names; /* borrowed, hence no clear */
  sl_status status = sl_config_to_json(&config, &json);
  if (status == SL_OK) status = write_json(folder, "config.json", json);
  json_decref(json);
  if (status != SL_OK || facts->model->task != SL_TASK_CLASSIFY) return status;
  json_t *mean = json_array(), *deviation = json_array();
  for (int64_t c = 0; c < facts->data.channels; c++) {
    const int64_t k = facts->data.channels > SL_MAX_CHANNELS ? 0 : c;
    json_array_append_new(mean, json_real(facts->data.mean[k]));
    json_array_append_new(deviation, json_real(facts->data.deviation[k]));
  }
  json = json_pack("{s:s, s:b, s:b, s:f, s:b, s:{s:I, s:I}, s:o, s:o}", "image_processor_type", "ViTImageProcessor",
                   "do_resize", 1, "do_rescale", 1, "rescale_factor", 1 / 255.0, "do_normalize", 1, "size", "height",
                   (json_int_t)facts->data.height, "width", (json_int_t)facts->data.width, "image_mean", mean,
                   "image_std", deviation);
  status = write_json(folder, "preprocessor_config.json", json);
  json_decref(json);
  return status;
}

sl_status sl__published_save(const char *path, const sl_family *family, const sl_network *network, sl_store *store,
                             const sl__model_facts *facts, int64_t shard_bytes) {
  static const char *const metadata[][2] = {{"format", "pt"}}; /* transformers asks for it */
  sl_published published;
  SL_TRY(sl_store_acquire(store, 0));
  sl_status status = sl_interchange_arrays(family, network->graph, store, &published);
  if (status != SL_OK) goto out;
  if (!sl_family_has_config(family)) {
    status = sl_safetensors_write(path, published.arrays, published.n, metadata, 1);
  } else if ((status = sl_folder_make(path)) == SL_OK) {
    status = sl_weights_write(path, published.arrays, published.n, metadata, 1, shard_bytes);
    if (status == SL_OK) status = save_config(path, network, facts);
  }
  sl_published_clear(&published);
out:
  sl_store_release(store);
  return status;
}
