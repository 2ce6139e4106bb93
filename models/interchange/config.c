/* config.json: what transformers is told of a network beside its weights, read, held against a graph, and written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/attributes.h"
#include "models/interchange/families.h"
#include "runtime/base/json.h"

enum { MOST = 1 << 30, MOST_LABELS = 1 << 20 };

void sl_config_clear(sl_config *c) {
  for (int64_t i = 0; c->label_names && i < c->labels; i++) free(c->label_names[i]);
  free(c->label_names);
  *c = (sl_config){0};
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static sl_status read_sizes(const char *path, const json_t *json, sl_config *c) {
  for (const sl__key *k = c->family->keys; k->name; k++) {
    const json_t *value = json_object_get(json, k->name);
    if (!value || json_is_null(value)) {
      if (!k->standard) return sl_fail(SL_EFORMAT, "%s: no %s", path, k->name);
      c->size[k->size] = k->standard;
    } else if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > MOST) {
      return sl_fail(SL_EFORMAT, "%s: %s is not a whole number from 1 to %d", path, k->name, MOST);
    } else {
      c->size[k->size] = json_integer_value(value);
    }
  }
  if (c->size[SL_SIZE_HIDDEN] < 0) c->size[SL_SIZE_HIDDEN] = 4 * c->size[SL_SIZE_WIDTH];
  if (c->size[SL_SIZE_WIDTH] % c->size[SL_SIZE_HEADS])
    return sl_fail(SL_EFORMAT, "%s: a width of %lld is no multiple of %lld heads", path,
                   (long long)c->size[SL_SIZE_WIDTH], (long long)c->size[SL_SIZE_HEADS]);
  if (c->size[SL_SIZE_PATCH] && c->size[SL_SIZE_IMAGE] % c->size[SL_SIZE_PATCH])
    return sl_fail(SL_EFORMAT, "%s: an image_size of %lld is no multiple of the patch_size %lld", path,
                   (long long)c->size[SL_SIZE_IMAGE], (long long)c->size[SL_SIZE_PATCH]);
  return SL_OK;
}

static sl_status read_function(const char *path, const json_t *json, sl_config *c) {
  static const struct {
    const char *name;
    sl_gelu_form form;
  } names[] = {{"gelu", SL_GELU_ERF},
               {"gelu_python", SL_GELU_ERF},
               {"gelu_new", SL_GELU_TANH},
               {"gelu_fast", SL_GELU_TANH},
               {"gelu_pytorch_tanh", SL_GELU_TANH}};
  const sl_family *f = c->family;
  const json_t *value = json_object_get(json, f->gelu_key), *eps = json_object_get(json, f->eps_key);
  const char *text = value ? json_string_value(value) : f->gelu_standard;
  if (!text) return sl_fail(SL_EFORMAT, "%s: %s is not a string", path, f->gelu_key);
  size_t i = 0;
  while (i < sizeof names / sizeof *names && strcmp(names[i].name, text) != 0) i++;
  if (i == sizeof names / sizeof *names)
    return sl_fail(SL_EUNSUPPORTED, "%s: %s is '%.40s'; there are gelu and gelu_new", path, f->gelu_key, text);
  c->gelu = names[i].form;
  c->eps = eps ? json_number_value(eps) : f->eps_standard;
  if (eps && (!json_is_number(eps) || !(c->eps > 0 && c->eps < 1)))
    return sl_fail(SL_EFORMAT, "%s: %s is not a number between 0 and 1", path, f->eps_key);
  return SL_OK;
}

static sl_status read_fixed(const char *path, const json_t *json, const sl_family *f) {
  for (const sl__fixed *k = f->fixed; k->name; k++) {
    const json_t *value = json_object_get(json, k->name);
    if (!value) continue;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const int right = text && strcmp(text, k->value) == 0;
    const sl_status status = right ? SL_OK
                                   : sl_fail(SL_EUNSUPPORTED, "%s: %s is %.40s; only %s is supported", path, k->name,
                                             text ? text : "?", k->value);
    free(text);
    if (status != SL_OK) return status;
  }
  return SL_OK;
}

static sl_status read_labels(const char *path, const json_t *json, sl_config *c) {
  json_t *names = json_object_get(json, "id2label"), *count = json_object_get(json, "num_labels");
  if (json_is_object(names)) {
    c->labels = (int64_t)json_object_size(names);
  } else if (json_is_integer(count)) {
    c->labels = json_integer_value(count);
  } else {
    return SL_OK;
  }
  if (c->labels < 1 || c->labels > MOST_LABELS) {
    c->labels = 0;
    return sl_fail(SL_EFORMAT, "%s: the number of labels is not from 1 to %d", path, MOST_LABELS);
  }
  if (!json_is_object(names)) return SL_OK;
  c->label_names = calloc((size_t)c->labels, sizeof *c->label_names);
  for (int64_t i = 0; c->label_names && i < c->labels; i++) {
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)i);
    const char *name = json_string_value(json_object_get(names, key));
    if (!name) return sl_fail(SL_EFORMAT, "%s: id2label has no name of class %s", path, key);
    if (!(c->label_names[i] = strdup(name))) return sl_fail(SL_ENOMEM, "no memory for the labels of %s", path);
  }
  return c->label_names ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the labels of %s", path);
}

sl_status sl_config_read(const char *path, sl_config *c) {
  json_t *json;
  sl_status status = SL_OK;
  *c = (sl_config){0};
  SL_TRY(sl_json_read(path, &json));
  const char *type = json_string_value(json_object_get(json, "model_type"));
  if (!type) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: no model_type in it", path));
  for (int f = 0; sl__families[f]; f++)
    if (sl__families[f]->keys && strcmp(sl__families[f]->name, type) == 0) c->family = sl__families[f];
  if (!c->family)
    SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s: model_type '%.40s' is not one of gpt2, bert and vit", path, type));
  SL_TRY_OUT(read_sizes(path, json, c));
  SL_TRY_OUT(read_function(path, json, c));
  SL_TRY_OUT(read_fixed(path, json, c->family));
  if (c->family->labels) SL_TRY_OUT(read_labels(path, json, c));
out:
  json_decref(json);
  if (status != SL_OK) sl_config_clear(c);
  return status;
}

/* ---- the network's ---------------------------------------------------------------------------------------------- */

sl_status sl_config_of_graph(const sl_graph *g, const sl_model_data *data, sl_config *c) {
  *c = (sl_config){.family = sl_family_of_graph(g)};
  if (!c->family || !c->family->keys) return sl_fail(SL_EUNSUPPORTED, "networks of this kind have no config.json");
  for (int n = 0; n < g->n_nodes; n++) {
    const char *op = g->node[n]->op->name;
    const void *attr = g->node[n]->attr;
    if (strncmp(op, "attention", 9) == 0) {
      c->size[SL_SIZE_HEADS] = ((const sl_attention_attr *)attr)->heads;
    } else if (strcmp(op, "layernorm") == 0) {
      c->eps = ((const sl_layernorm_attr *)attr)->eps;
    } else if (strcmp(op, "gelu") == 0) {
      c->gelu = ((const sl_gelu_attr *)attr)->form;
    }
  }
  char name[64];
  do snprintf(name, sizeof name, "h.%lld.attn.qkv.weight", (long long)c->size[SL_SIZE_LAYERS]++);
  while (sl_graph_find(g, name) != SL_NONE);
  c->size[SL_SIZE_LAYERS]--;
  for (const sl__key *k = c->family->keys; k->name; k++) {
    const sl_value v = k->tensor ? sl_graph_find(g, k->tensor) : SL_NONE;
    if (v != SL_NONE) c->size[k->size] = g->value[v]->shape.dim[k->dim];
    if (k->size == SL_SIZE_IMAGE) c->size[k->size] = data->height;
    if (k->size == SL_SIZE_CHANNELS) c->size[k->size] = data->channels;
  }
  if (c->family->labels) c->labels = data->classes;
  return SL_OK;
}

sl_status sl_config_compare(const sl_config *file, const char *path, const sl_config *network, const char *name) {
  char text[512] = "";
  if (file->family != network->family)
    return sl_fail(SL_ESHAPE, "%s is of a %s network, %s is none", path, file->family->name, name);
  for (const sl__key *k = file->family->keys; k->name; k++) {
    const int64_t a = file->size[k->size], b = network->size[k->size];
    if (a == b || (k->size == SL_SIZE_POSITIONS && a > b)) continue;
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s is %lld, the network's %lld", *text ? "; " : "",
             k->name, (long long)a, (long long)b);
  }
  if (fabs(file->eps - network->eps) > 1e-6 * network->eps)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s is %g, the network's %g", *text ? "; " : "",
             file->family->eps_key, file->eps, network->eps);
  if (file->gelu != network->gelu)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s is another form of gelu", *text ? "; " : "",
             file->family->gelu_key);
  return *text ? sl_fail(SL_ESHAPE, "%s does not fit %s: %s", path, name, text) : SL_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

sl_status sl_config_to_json(const sl_config *c, json_t **result) {
  const sl_family *f = c->family;
  json_t *json =
      json_pack("{s:[s], s:s, s:s, s:f, s:s}", "architectures", f->architecture, "model_type", f->name, "torch_dtype",
                "float32", f->eps_key, c->eps, f->gelu_key, c->gelu == SL_GELU_ERF ? "gelu" : "gelu_new");
  for (const sl__key *k = f->keys; k->name; k++) json_object_set_new(json, k->name, json_integer(c->size[k->size]));
  for (const sl__fixed *k = f->fixed; k->name; k++)
    json_object_set_new(json, k->name, json_loads(k->value, JSON_DECODE_ANY, NULL));
  for (const sl__fixed *k = f->written; k->name; k++)
    json_object_set_new(json, k->name, json_loads(k->value, JSON_DECODE_ANY, NULL));
  if (c->labels > 0) {
    json_t *names = json_object(), *numbers = json_object();
    for (int64_t i = 0; i < c->labels; i++) {
      char key[24], label[40];
      snprintf(key, sizeof key, "%lld", (long long)i);
      snprintf(label, sizeof label, "LABEL_%lld", (long long)i);
      const char *name = c->label_names ? c->label_names[i] : label;
      json_object_set_new(names, key, json_string(name));
      json_object_set_new(numbers, name, json_integer(i));
    }
    json_object_set_new(json, "id2label", names);
    json_object_set_new(json, "label2id", numbers);
  }
  *result = json;
  return json ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a config.json");
}
