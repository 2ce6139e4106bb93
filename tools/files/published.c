/* Opens published weights as a model, and writes a model as published weights. */
#include "tools/files/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/numbers/half.h"
#include "tools/settings/model.h"

/* Finds the file of that name beside the weights; NULL: none. The caller must free(*path). */
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

/* Describes the data that these weights are for. */
static sl_model_data data_for(const sl_model *m, const sl_config *config, int64_t classes) {
  const sl_data_kind *kind = m->family->data;
  sl_model_data d;
  kind->usual(m, &(sl_model_data){.height = config->height, .width = config->width, .channels = config->channels}, &d);
  if (classes) d.classes = classes;
  if (kind->published) kind->published(!sl_format_has_config(config->format), &d);
  return d;
}

/* Reads the sizes from config.json and checks them against the tensors' shapes; without config.json, from the shapes
 * alone. */
static sl_status find_sizes(const sl_weights *weights, const sl_format *format, const char *path, sl_config *config) {
  sl_config measured = {0};
  sl_status status = SL_OK;
  SL_TRY_OUT(sl_config_measure(format, weights, &measured));
  if (path) {
    SL_TRY_OUT(sl_config_read(path, config));
    if (config->format != format)
      SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s says %s, but the tensors are of %s", path, sl_format_name(config->format),
                         sl_format_name(format)));
    SL_TRY_OUT(sl_config_take_measured(config, path, &measured));
  } else {
    *config = measured;
    measured = (sl_config){0};
  }
out:
  sl_config_clear(&measured);
  return status;
}

/* Reads preprocessor_config.json. sized: the model's sizes are already known. */
static sl_status read_processor(const sl_weights *weights, int sized, sl__model_facts *facts) {
  const sl_data_kind *kind = facts->model->family->data;
  char *path = NULL;
  json_t *json = NULL;
  sl_status status = SL_OK;
  if (!kind->from_processor) return SL_OK;
  SL_TRY_OUT(beside(weights, "preprocessor_config.json", &path));
  if (!path) goto out;
  SL_TRY_OUT(sl_json_read(path, &json));
  status = kind->from_processor(json, sized, &facts->data);
  if (status != SL_OK) status = sl_fail(status, "%s: %s", path, sl_error());
out:
  json_decref(json);
  free(path);
  return status;
}

static sl_status name_classes(const sl_config *config, sl__model_facts *facts) {
  const int64_t n = facts->data.classes;
  if (!facts->model->family->data->classifies) return SL_OK;
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

/* Takes the number of heads, which shapes do not show, from the listed model of the same width; used without
 * config.json. */
static sl_status guess_heads(const sl_format *format, void *sizes, const char *path) {
  const sl_family *f = sl_format_family(format);
  const sl_size *heads = sl_size_find(f->sizes, "heads"), *width = sl_size_find(f->sizes, "width");
  if (!heads || *(int64_t *)((char *)sizes + heads->offset)) return SL_OK;
  for (const sl_model *m = f->models; m->name; m++)
    if (sl_size_equal(width, m->sizes, sizes)) {
      if (strcmp(sl_format_library(format), "hf") == 0) /* whose models come with config.json */
        sl_log(
            SL_LOG_WARNING,
            "%s has no config.json beside it, so %lld heads are assumed, as in %s; --size heads=N gives another number",
            path, (long long)*(const int64_t *)((const char *)m->sizes + heads->offset), m->name);
      memcpy((char *)sizes + heads->offset, (const char *)m->sizes + heads->offset, sizeof(int64_t));
      return SL_OK;
    }
  return sl_fail(SL_EINVAL,
                 "%s: the tensors do not show the number of heads: convert it with 'starling convert %s --size "
                 "heads=N --to starling --out FILE'",
                 path, path);
}

/* Makes the model with the sizes found; the user's sizes override them. */
static sl_status find_model(const sl_weights *weights, const sl__model_wish *wish, const sl_config *found,
                            sl_model **model) {
  const sl_family *f = sl_format_family(found->format);
  const int of_it = wish->model && wish->model->family == f;
  if (wish->exactly) return sl_model_sized(wish->model, wish->sizes, model);
  void *sizes = malloc(f->size_bytes);
  if (!sizes) return sl_no_memory("for the sizes of %s", sl_weights_path(weights));
  memcpy(sizes, found->sizes, f->size_bytes);
  sl_status status = SL_OK;
  if (wish->sizes && (of_it || !wish->model))
    SL_TRY_OUT(sl_sizes_parse(f->sizes, sl_format_name(found->format), wish->sizes, sizes));
  SL_TRY_OUT(guess_heads(found->format, sizes, sl_weights_path(weights)));
  status = of_it ? sl_model_with(wish->model, sizes, model) : sl_model_of_sizes(f, sizes, model);
out:
  free(sizes);
  return status;
}

sl_status sl__published_facts(const sl_weights *weights, const sl_format *format, const sl__model_wish *wish,
                              sl_config *config, sl__model_facts *facts) {
  char *path = NULL;
  sl_status status = SL_OK;
  *config = (sl_config){0};
  SL_TRY(beside(weights, "config.json", &path));
  if (!sl_format_has_config(format)) free(path), path = NULL;
  SL_TRY_OUT(find_sizes(weights, format, path, config));
  SL_TRY_OUT(find_model(weights, wish, config, &facts->sized));
  facts->model = facts->sized;
  facts->data = data_for(facts->model, config, sl_format_classes(format, weights));
  facts->training = facts->model->training;
  facts->val_fraction = 0.1;
  SL_TRY_OUT(read_processor(weights, config->height > 0, facts));
  SL_TRY_OUT(name_classes(config, facts));
  const sl__options options = {.seed = 1, .length = facts->data.length};
  status = sl__plan_of(&options, facts->model, 1, &facts->plan);
out:
  if (!path) sl_config_clear(config); /* no file names the sizes: mismatches appear when tensors are read */
  free(path);
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

/* Rounds all floats to 16 bits, to nearest. */
static sl_status narrow(sl_published *p, sl_dtype dtype) {
  for (int i = 0; i < p->n; i++) {
    sl_named_array *a = &p->arrays[i];
    if (a->dtype != SL_F32 || dtype == SL_F32) continue;
    const int64_t n = sl_shape_count(&a->shape);
    const float *from = a->data;
    uint16_t *to = malloc((size_t)n * sizeof *to + 1);
    if (!to) return sl_no_memory("for tensor '%s' in 16 bits", a->name);
    for (int64_t k = 0; k < n; k++) {
      to[k] = dtype == SL_F16 ? sl_half_of(from[k]) : sl_bf16_of(from[k]);
      if (!isfinite(from[k]) || isfinite(dtype == SL_F16 ? sl_half_wide(to[k]) : 0)) continue;
      free(to);
      return sl_fail(SL_EINVAL, "tensor '%s' holds %g, which is beyond fp16's range (65,504): bf16 has fp32's", a->name,
                     from[k]);
    }
    free(p->buffers[i]);
    p->buffers[i] = to;
    a->data = to, a->dtype = dtype;
  }
  return SL_OK;
}

static sl_status save_config(const char *folder, const sl_format *format, const sl__model_facts *facts,
                             sl_dtype dtype) {
  json_t *json = NULL;
  sl_status status = sl_config_to_json(format, facts->model, &facts->data, facts->class_names, &json);
  const char *type = dtype == SL_F16 ? "float16" : dtype == SL_BF16 ? "bfloat16" : "float32";
  if (status == SL_OK && json_object_set_new(json, "torch_dtype", json_string(type)) != 0)
    status = sl_no_memory("for config.json");
  if (status == SL_OK) status = write_json(folder, "config.json", json);
  json_decref(json);
  const sl_data_kind *kind = facts->model->family->data;
  if (status != SL_OK || !kind->to_processor) return status;
  json = kind->to_processor(&facts->data);
  status = write_json(folder, "preprocessor_config.json", json);
  json_decref(json);
  return status;
}

sl_status sl__published_save(const char *path, const sl_format *format, const sl_network *network, sl_store *store,
                             const sl__model_facts *facts, sl_dtype dtype, int64_t shard_bytes) {
  static const char *const metadata[][2] = {{"format", "pt"}}; /* required by transformers */
  sl_published published;
  SL_TRY(sl_store_acquire(store, 0));
  sl_status status = sl_interchange_arrays(format, network->graph, store, &published);
  if (status != SL_OK) goto out;
  if ((status = narrow(&published, dtype)) != SL_OK) {
    sl_published_clear(&published);
    goto out;
  }
  if (!sl_format_has_config(format)) {
    status = sl_safetensors_write(path, published.arrays, published.n, metadata, 1);
  } else if ((status = sl_folder_make(path)) == SL_OK) {
    status = sl_weights_write(path, published.arrays, published.n, metadata, 1, shard_bytes);
    if (status == SL_OK) status = save_config(path, format, facts, dtype);
  }
  sl_published_clear(&published);
out:
  sl_store_release(store);
  return status;
}
