/* Reads and writes model files. */
#include "tools/files/model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "tools/files/published.h"

#define FORMAT "starling-1"

struct sl__model_file {
  sl_weights *weights;
  const sl_format *format; /* NULL: written by Starling */
  sl_config config;        /* of published weights, from config.json; format NULL: there is none */
  sl__model_facts facts;
  json_t *names; /* holds the class names' bytes */
};

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static json_t *facts_to_json(const sl__model_facts *f) {
  json_t *names = json_array();
  const int64_t n = f->class_names && f->model->family->data->classifies ? f->data.classes : 0;
  for (int64_t i = 0; i < n; i++)
    if (json_array_append_new(names, json_string(f->class_names[i])) != 0) {
      json_decref(names);
      return NULL;
    }
  return json_pack("{s:s, s:o, s:I, s:o, s:o, s:o, s:f, s:{s:i, s:i}, s:o}", "model", f->model->name, "size",
                   sl_model_sizes_to_json(f->model), "step", (json_int_t)f->step, "data",
                   f->model->family->data->to_json(&f->data), "training", sl_training_to_json(&f->training), "plan",
                   sl_plan_to_json(&f->plan), "val_fraction", f->val_fraction, "augment", "pad", f->augment.pad, "flip",
                   f->augment.flip, "class_names", names);
}

json_t *sl__model_metadata(const sl__model_facts *facts) {
  return json_pack("{s:s, s:o}", "format", FORMAT, "starling", facts_to_json(facts));
}

static size_t bytes_of(const sl_shape *shape, sl_dtype dtype) {
  return (size_t)sl_shape_count(shape) * sl_dtype_bytes(dtype);
}

/* Lists the tensors of the graph. If a tensor is divided, joins its parts: entry i then owns the memory rooms[i]. */
static sl_status list_arrays(sl_store *store, const sl_graph *graph, sl_named_array *arrays, void **rooms,
                             char (*names)[SL_PART_NAME], int *n) {
  *n = 0;
  for (int i = 0; i < sl_store_count(store); i++) {
    const sl_tensor *t = sl_store_at(store, i);
    const sl_part *part = &t->part;
    if (sl_graph_find(graph, t->name) == SL_NONE) continue;
    if (!part->size) {
      arrays[(*n)++] = (sl_named_array){.name = t->name, .dtype = t->dtype, .shape = t->shape, .data = t->data};
      continue;
    }
    char whole[SL_PART_NAME];
    int at = 0;
    sl_part_whole_name(t->name, whole);
    while (at < *n && strcmp(arrays[at].name, whole) != 0) at++;
    if (at == *n) {
      rooms[at] = malloc(bytes_of(&part->whole, t->dtype) + 1);
      if (!rooms[at]) return sl_no_memory("to join the parts of tensor '%s'", whole);
      strcpy(names[at], whole);
      arrays[(*n)++] = (sl_named_array){names[at], t->dtype, part->whole, rooms[at]};
    }
    sl_part_put(part, sl_dtype_bytes(t->dtype), t->data, rooms[at]);
  }
  return SL_OK;
}

/* Writes to the file at path, or to memory if bytes is not NULL. */
static sl_status put(const char *path, sl_store *store, const sl_graph *graph, const sl__model_facts *facts,
                     char **bytes, size_t *size) {
  const int most = sl_store_count(store);
  int n = 0;
  sl_status status = SL_OK;
  json_t *json = facts_to_json(facts);
  char *text = sl_json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
  sl_named_array *arrays = calloc((size_t)most + 1, sizeof *arrays);
  void **rooms = calloc((size_t)most + 1, sizeof *rooms);
  char(*names)[SL_PART_NAME] = calloc((size_t)most + 1, sizeof *names);
  if (!text || !arrays || !rooms || !names) {
    status = sl_no_memory("for writing %s", path);
    goto out;
  }
  const char *const metadata[][2] = {{"format", FORMAT}, {"starling", text}};
  SL_TRY_OUT(sl_store_acquire(store, 0));
  status = list_arrays(store, graph, arrays, rooms, names, &n);
  if (status == SL_OK)
    status = bytes ? sl_safetensors_pack(path, arrays, n, metadata, 2, bytes, size)
                   : sl_safetensors_write(path, arrays, n, metadata, 2);
  sl_store_release(store);
out:
  for (int i = 0; rooms && i < most; i++) free(rooms[i]);
  free(arrays), free(text), free(rooms), free(names);
  json_decref(json);
  return status;
}

sl_status sl__model_save(const char *path, sl_store *store, const sl_graph *graph, const sl__model_facts *facts) {
  return put(path, store, graph, facts, NULL, NULL);
}

sl_status sl__model_pack(const char *path, sl_store *store, const sl_graph *graph, const sl__model_facts *facts,
                         char **bytes, size_t *size) {
  *bytes = NULL;
  return put(path, store, graph, facts, bytes, size);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static sl_status malformed(const sl__model_file *f, const char *what) {
  return sl_fail(SL_EFORMAT, "%s: %s; was it written by starling train?", sl__model_path(f), what);
}

static sl_status class_names(sl__model_file *f, const json_t *names) {
  const int64_t n = f->facts.model->family->data->classifies ? f->facts.data.classes : 0;
  if (!json_is_array(names) || (int64_t)json_array_size(names) != n)
    return malformed(f, "the class names do not match the classes");
  f->facts.class_names = calloc((size_t)n + 1, sizeof *f->facts.class_names);
  if (!f->facts.class_names) return sl_no_memory("for %lld class names", (long long)n);
  for (int64_t i = 0; i < n; i++) {
    const char *name = json_string_value(json_array_get(names, (size_t)i));
    if (!name) return malformed(f, "a class name is not a string");
    if (!sl_text_is_plain(name)) return malformed(f, "a class name has control characters");
    f->facts.class_names[i] = (char *)name;
  }
  return SL_OK;
}

static sl_status facts_from_json(sl__model_file *f, json_t *json) {
  const char *model;
  sl__model_facts *a = &f->facts;
  json_int_t step;
  json_t *training, *plan, *names, *data;
  json_t *size = NULL; /* missing in older files, whose models have the list's sizes */
  json_error_t error;
  f->names = json_incref(json);
  if (json_unpack_ex(json, &error, 0, "{s:s, s?o, s:I, s:o, s:o, s:o, s:F, s?{s:i, s:i}, s:o}", "model", &model, "size",
                     &size, "step", &step, "data", &data, "training", &training, "plan", &plan, "val_fraction",
                     &a->val_fraction, "augment", "pad", &a->augment.pad, "flip", &a->augment.flip, "class_names",
                     &names) != 0)
    return malformed(f, error.text);
  a->step = step;
  if (sl_model_find(model, &a->model) != SL_OK || sl_model_from_json(a->model, size, &a->sized) != SL_OK ||
      sl_training_from_json(training, &a->training) != SL_OK || sl_plan_from_json(plan, &a->plan) != SL_OK)
    return malformed(f, sl_error());
  a->model = a->sized;
  if (a->model->family->data->from_json(data, &a->data) != SL_OK) return malformed(f, sl_error());
  return class_names(f, names);
}

static sl_status read_facts(sl__model_file *f) {
  json_error_t error;
  const char *text = sl_weights_metadata(f->weights, "starling");
  json_t *json;
  if (!text) return malformed(f, "no description of the model in it");
  sl_status status = sl_json_parse(text, strlen(text), 0, &json, &error);
  if (status != SL_OK) return status == SL_EFORMAT ? malformed(f, error.text) : status;
  status = facts_from_json(f, json);
  json_decref(json);
  return status;
}

sl_status sl__model_open_as(const char *path, const sl__model_wish *wish, sl__model_file **file) {
  *file = NULL;
  sl_status status = SL_OK;
  sl__model_file *f = calloc(1, sizeof *f);
  if (!f) return sl_no_memory("for a model file");
  if (access(path, F_OK) != 0)
    SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "no model file or run directory %s: %s", path, strerror(errno)));
  SL_TRY_OUT(sl_weights_open(path, &f->weights));
  const char *format = sl_weights_metadata(f->weights, "format");
  if (format && strcmp(format, FORMAT) == 0) {
    SL_TRY_OUT(read_facts(f));
  } else {
    f->format = sl_format_of_weights(f->weights);
    if (!f->format) SL_TRY_OUT(malformed(f, "a safetensors file, but neither Starling's nor of a known library"));
    SL_TRY_OUT(sl__published_facts(f->weights, f->format, wish, &f->config, &f->facts));
  }
  *file = f;
  f = NULL;
out:
  sl__model_close(f);
  return status;
}

sl_status sl__model_open_share(const char *path, int share, int shares, sl__model_file **file) {
  *file = NULL;
  sl__model_file *f = calloc(1, sizeof *f);
  if (!f) return sl_no_memory("for a model file");
  sl_status status = sl_weights_open_share(path, share, shares, &f->weights);
  if (status == SL_OK) {
    const char *format = sl_weights_metadata(f->weights, "format");
    status = format && strcmp(format, FORMAT) == 0 ? read_facts(f) : malformed(f, "not a checkpoint of a training");
  }
  if (status == SL_OK)
    *file = f;
  else
    sl__model_close(f);
  return status;
}

sl_status sl__model_open(const char *path, sl__model_file **file) {
  return sl__model_open_as(path, &(sl__model_wish){0}, file);
}

void sl__model_close(sl__model_file *f) {
  if (!f) return;
  if (f->format) sl__published_clear(&f->facts);
  sl_config_clear(&f->config);
  sl_weights_close(f->weights);
  json_decref(f->names);
  free(f->facts.class_names), free(f->facts.sized), free(f);
}

const sl__model_facts *sl__model_facts_of(const sl__model_file *f) { return &f->facts; }
const char *sl__model_path(const sl__model_file *f) { return sl_weights_path(f->weights); }
const sl_format *sl__model_format(const sl__model_file *f) { return f->format; }

sl_status sl__model_member(const sl__model_file *f, const char *key, json_t **value) {
  const char *text = sl_weights_metadata(f->weights, key);
  *value = NULL;
  if (text && sl_json_parse(text, strlen(text), 0, value, NULL) == SL_ENOMEM) return SL_ENOMEM;
  return *value ? SL_OK : sl_fail(SL_EFORMAT, "%s has no %s, so it is not a checkpoint", sl__model_path(f), key);
}

/* Copies every tensor of the store out of the store of whole tensors (take), or into it. */
static void copy_parts(sl_store *store, const sl_store *whole, int take) {
  for (int i = 0; i < sl_store_count(store); i++) {
    sl_tensor *t = sl_store_at(store, i);
    char name[SL_PART_NAME];
    const sl_tensor *w = sl_store_find(whole, t->part.size ? sl_part_whole_name(t->name, name) : t->name);
    if (!t->data || !w) continue;
    if (!t->part.size)
      memcpy(take ? t->data : w->data, take ? w->data : t->data, bytes_of(&t->shape, t->dtype));
    else if (take)
      sl_part_take(&t->part, sl_dtype_bytes(t->dtype), w->data, t->data);
    else
      sl_part_put(&t->part, sl_dtype_bytes(t->dtype), t->data, w->data);
  }
}

/* Adds every tensor of a network to an empty store. */
static sl_status add_all(const sl_graph *g, sl_store *store) {
  sl_tensor *t;
  for (sl_value v = 0; v < g->n_values; v++) {
    const sl_value_info *info = g->value[v];
    if (info->role == SL_ROLE_TEMPORARY) continue;
    SL_TRY(sl_store_add(store, info->name, info->dtype, &info->shape, info->role == SL_ROLE_PARAMETER, &t));
    t->part = info->part;
  }
  return SL_OK;
}

/* Whether the file holds parts of tensors: a checkpoint of a training in folds. */
static int has_parts(const sl__model_file *f) {
  for (int i = 0; i < sl_weights_count(f->weights) && !f->format; i++)
    if (strchr(sl_weights_get(f->weights, i)->name, '@')) return 1;
  return 0;
}

/* Joins the file's parts in a store of whole tensors. */
static sl_status join_parts(const sl__model_file *f, const sl_model *model, const sl_model_data *data, int64_t batch,
                            sl_store *whole) {
  sl_network folded = {0};
  sl_store *parts = NULL;
  sl_status status = sl_network_evaluation(model, data, &f->facts.training, batch, &folded);
  if (status == SL_OK) status = sl_store_create(&parts);
  if (status == SL_OK) status = add_all(folded.graph, parts);
  if (status == SL_OK) status = sl__model_read(f, parts, folded.graph, 0);
  if (status == SL_OK) copy_parts(parts, whole, 0);
  if (folded.graph) sl_network_destroy(&folded);
  sl_store_destroy(parts);
  return status;
}

/* Fills a store if the network or the file has folds, by way of a store of whole tensors. */
static sl_status fill_parts(const sl__model_file *f, sl_store *store, const sl_network *network, const sl_model *model,
                            const sl_model_data *data, int new_head) {
  const sl_training unfolded = {.optimizer = SL_OPTIMIZER_SGD};
  const int joins = has_parts(f);
  sl_network all = {0};
  sl_store *whole = NULL;
  sl_status status = SL_OK;
  if (joins && new_head)
    return sl_fail(SL_EUNSUPPORTED,
                   "%s: --new-head cannot use a checkpoint of a training with folds: give --init the run directory",
                   sl__model_path(f));
  SL_TRY_OUT(sl_network_evaluation(model, data, &unfolded, network->graph->batch, &all));
  SL_TRY_OUT(sl_store_create(&whole));
  SL_TRY_OUT(add_all(all.graph, whole));
  copy_parts(store, whole, 0);
  SL_TRY_OUT(joins ? join_parts(f, model, data, network->graph->batch, whole)
                   : sl__model_fill(f, whole, &all, model, data, new_head));
  SL_TRY_OUT(sl_store_acquire(store, 1));
  copy_parts(store, whole, 1);
  sl_store_release(store);
out:
  if (all.graph) sl_network_destroy(&all);
  sl_store_destroy(whole);
  return status;
}

sl_status sl__model_fill(const sl__model_file *f, sl_store *store, const sl_network *network, const sl_model *model,
                         const sl_model_data *data, int new_head) {
  sl_fit fit;
  if (network->graph->folds > 1 || has_parts(f)) return fill_parts(f, store, network, model, data, new_head);
  if (f->config.format) SL_TRY(sl_config_compare(&f->config, sl__model_path(f), model, &f->facts.data));
  SL_TRY(sl_interchange_read(f->weights, f->format, network->graph, store, new_head ? network->logits : SL_NONE, &fit));
  const sl_status status = sl_fit_status(&fit, sl__model_path(f));
  for (char *rest = fit.lines, *line; (line = strsep(&rest, "\n"));)
    if (*line) sl_log(status == SL_OK ? SL_LOG_WARNING : SL_LOG_ERROR, "%s: %s", sl__model_path(f), line);
  sl_fit_clear(&fit);
  return status;
}

/* A part of a tensor that the file holds as a whole. */
static sl_status read_part(const sl__model_file *f, const sl_tensor *t, void *data) {
  char name[SL_PART_NAME];
  sl_tensor whole = {.name = name, .dtype = t->dtype, .shape = t->part.whole};
  sl_part_whole_name(t->name, name);
  void *room = malloc(bytes_of(&whole.shape, t->dtype) + 1);
  if (!room) return sl_no_memory("to read '%s'", name);
  const sl_status status = sl__model_read_tensor(f, &whole, room);
  if (status == SL_OK) sl_part_take(&t->part, sl_dtype_bytes(t->dtype), room, data);
  free(room);
  return status;
}

int sl__model_has(const sl__model_file *f, const char *tensor) { return sl_weights_find(f->weights, tensor) >= 0; }

sl_status sl__model_read_tensor(const sl__model_file *f, const sl_tensor *t, void *data) {
  char mine[SL_SHAPE_TEXT], theirs[SL_SHAPE_TEXT];
  const int i = sl_weights_find(f->weights, t->name);
  if (i < 0 && t->part.size) return read_part(f, t, data);
  if (i < 0) return sl_fail(SL_EFORMAT, "%s: tensor '%s' of the model is missing", sl__model_path(f), t->name);
  const sl_named_array *a = sl_weights_get(f->weights, i);
  if (a->dtype != t->dtype || !sl_shape_equal(&a->shape, &t->shape))
    return sl_fail(SL_EFORMAT, "%s: tensor '%s' is %s %s, the model wants %s %s", sl__model_path(f), t->name,
                   sl_dtype_name(a->dtype), sl_shape_text(&a->shape, theirs, sizeof theirs), sl_dtype_name(t->dtype),
                   sl_shape_text(&t->shape, mine, sizeof mine));
  return sl_weights_read_as_is(f->weights, i, data);
}

sl_status sl__model_read(const sl__model_file *f, sl_store *store, const sl_graph *graph, int lenient) {
  if (f->format) return sl_fail(SL_EFORMAT, "%s was not written by starling train", sl__model_path(f));
  SL_TRY(sl_store_acquire(store, 1));
  sl_status status = SL_OK;
  for (int k = 0; k < sl_store_count(store); k++) {
    sl_tensor *t = sl_store_at(store, k);
    if (!t->data || (graph && sl_graph_find(graph, t->name) == SL_NONE)) continue;
    if (lenient && !t->parameter && sl_weights_find(f->weights, t->name) < 0) continue;
    SL_TRY_OUT(sl__model_read_tensor(f, t, t->data));
  }
out:
  sl_store_release(store);
  return status;
}
