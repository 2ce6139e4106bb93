/* Reads, compares and writes config.json, the file beside the weights in which transformers keeps a network's sizes.
 * The formats' tables (formats.c) map its keys to sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/interchange/formats.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"

enum { MOST = 65536, MOST_LABELS = 1 << 20 };

void sl_config_clear(sl_config *c) {
  for (int64_t i = 0; c->label_names && i < c->labels; i++) free(c->label_names[i]);
  free(c->label_names), free(c->sizes);
  *c = (sl_config){0};
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Reads one number for both sides, or a list of two numbers, which must be equal unless `unequal` is 1. */
static sl_status read_sides(const char *where, const json_t *value, int unequal, int64_t side[2]) {
  for (size_t i = 0; i < 2; i++) {
    const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
    if (!json_is_integer(one) || json_integer_value(one) < 1 || json_integer_value(one) > MOST ||
        (json_is_array(value) && json_array_size(value) != 2))
      return sl_fail(SL_EFORMAT, "%s is not one or two whole numbers from 1 to %d", where, MOST);
    side[i] = json_integer_value(one);
  }
  return side[0] == side[1] || unequal ? SL_OK
                                       : sl_fail(SL_EUNSUPPORTED, "%s is %lld by %lld; patches are square", where,
                                                 (long long)side[0], (long long)side[1]);
}

/* Whether the two words of the key stand for true and false. */
static int is_boolean(const sl__key *k) {
  return k->words && (strcmp(k->words[0][0], "true") == 0 || strcmp(k->words[0][0], "false") == 0);
}

static sl_status read_word(const char *where, const sl__key *k, const sl_size *s, const json_t *value, sl_config *c) {
  const char *word = json_string_value(value);
  char names[256] = "", text[64];
  if (is_boolean(k)) word = json_is_boolean(value) ? json_is_true(value) ? "true" : "false" : NULL;
  if (!word) return sl_fail(SL_EFORMAT, "%s is not %s", where, is_boolean(k) ? "true or false" : "a string");
  for (int i = 0; k->words[i][0]; i++) {
    if (strcmp(k->words[i][0], word) == 0) {
      snprintf(text, sizeof text, "%s=%s", s->name, k->words[i][1]);
      return sl_sizes_parse(c->format->family->sizes, where, text, c->sizes);
    }
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", k->words[i][0]);
  }
  return sl_fail(SL_EUNSUPPORTED, "%s is '%.40s', which Starling lacks; there are %s", where, word, names);
}

static sl_status read_key(const char *path, const json_t *json, const sl__key *k, sl_config *c) {
  const json_t *value = json_object_get(json, k->name);
  const sl_size *s = sl_size_find(c->format->family->sizes, k->size);
  json_t *standard = NULL;
  char where[512], *slash = strrchr(path, '/');
  int64_t side[2];
  sl_status status = SL_OK;
  snprintf(where, sizeof where, "%.400s: %s", slash && strlen(path) > 400 ? slash + 1 : path, k->name);
  if (!value || json_is_null(value)) {
    if (!k->standard) return sl_fail(SL_EFORMAT, "%s: no %s", path, k->name);
    SL_TRY(sl_json_parse(k->standard, strlen(k->standard), JSON_DECODE_ANY, &standard, NULL));
    value = standard;
  }
  if (json_is_null(value)) goto out; /* open: derived from the other sizes */
  if (strcmp(k->size, SL__IMAGE) == 0) {
    SL_TRY_OUT(read_sides(where, value, 1, side));
    c->height = side[0], c->width = side[1];
  } else if (strcmp(k->size, SL__CHANNELS) == 0) {
    SL_TRY_OUT(read_sides(where, value, 0, side));
    c->channels = side[0];
  } else if (k->words) {
    SL_TRY_OUT(read_word(where, k, s, value, c));
  } else if (strcmp(k->size, "patch") == 0) {
    SL_TRY_OUT(read_sides(where, value, 0, side));
    *(int64_t *)((char *)c->sizes + s->offset) = side[0];
  } else if (sl_size_from_json(s, c->format->name, value, c->sizes) != SL_OK) {
    char *shown = sl_json_text(value, JSON_COMPACT);
    status = s->kind == SL_SIZE_LIST
                 ? sl_fail(SL_EFORMAT, "%s is %.80s, not a list of at most %d whole numbers", where,
                           shown ? shown : "?", SL_SIZE_LIST_MOST)
                 : sl_fail(SL_EFORMAT, "%s is %.80s, not a %snumber from %.15g to %.15g", where, shown ? shown : "?",
                           s->kind == SL_SIZE_WHOLE ? "whole " : "", s->least, s->most);
    free(shown);
  }
out:
  json_decref(standard);
  return status;
}

static sl_status read_fixed(const char *path, const json_t *json, const sl_format *f) {
  for (const sl__fixed *k = f->fixed; k->name; k++) {
    const json_t *value = json_object_get(json, k->name);
    if (!value) continue;
    char *text = sl_json_text(value, JSON_COMPACT);
    const int right = text && strcmp(text, k->value) == 0;
    const sl_status status =
        right ? SL_OK
              : sl_fail(SL_EUNSUPPORTED, "%s: %s is %.40s, and only %s is supported: Starling has no %s", path, k->name,
                        text ? text : "?", k->value, k->part);
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
    if (!sl_text_is_plain(name))
      return sl_fail(SL_EFORMAT, "%s: id2label's name of class %s has control characters", path, key);
    if (!(c->label_names[i] = strdup(name))) return sl_no_memory("for the labels of %s", path);
  }
  return c->label_names ? SL_OK : sl_no_memory("for the labels of %s", path);
}

/* Checks that the sizes are compatible. */
static sl_status check(const char *path, const sl_config *c) {
  const sl_model model = {.name = c->format->name, .family = c->format->family, .sizes = c->sizes};
  sl_model *whole;
  const sl_status status = sl_model_complete(&model, &whole);
  free(whole);
  return status == SL_EINVAL ? sl_fail(SL_EFORMAT, "%s: %s", path, sl_error()) : status;
}

sl_status sl_config_read(const char *path, sl_config *c) {
  json_t *json;
  sl_status status = SL_OK;
  *c = (sl_config){0};
  SL_TRY(sl_json_read(path, &json));
  const char *type = json_string_value(json_object_get(json, "model_type"));
  char names[128] = "";
  if (!type) SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: no model_type in it", path));
  for (int f = 0; sl__formats[f]; f++) {
    if (!sl__formats[f]->has_config) continue;
    if (strcmp(sl__formats[f]->name, type) == 0) c->format = sl__formats[f];
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "", sl__formats[f]->name);
  }
  if (!c->format) SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s: model_type '%.40s' is not one of %s", path, type, names));
  const sl_family *family = c->format->family;
  c->sizes = calloc(1, family->size_bytes);
  if (!c->sizes) SL_TRY_OUT(sl_no_memory("for %s", path));
  if (c->format->sizes) SL_TRY_OUT(sl_sizes_parse(family->sizes, c->format->name, c->format->sizes, c->sizes));
  for (const sl__key *k = c->format->keys; k->size; k++)
    if (k->name) SL_TRY_OUT(read_key(path, json, k, c));
  SL_TRY_OUT(check(path, c));
  SL_TRY_OUT(read_fixed(path, json, c->format));
  if (c->format->labels) SL_TRY_OUT(read_labels(path, json, c));
out:
  json_decref(json);
  if (status != SL_OK) sl_config_clear(c);
  return status;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static void differ(char text[512], const char *what, const char *a, const char *other, const char *b) {
  snprintf(text + strlen(text), 512 - strlen(text), "%s%s is %s, %s %s", *text ? "; " : "", what, a, other, b);
}

static void differ_in_number(char text[512], const char *what, int64_t a, const char *other, int64_t b) {
  char mine[24], theirs[24];
  snprintf(mine, sizeof mine, "%lld", (long long)a), snprintf(theirs, sizeof theirs, "%lld", (long long)b);
  if (a > 0 && b > 0 && a != b) differ(text, what, mine, other, theirs);
}

static const char *name_of(const sl__key *k) { return k->name ? k->name : k->size; }

/* A size as text: the word of config.json, if the key has words, else the number; "": the size is open. */
static char *shown(const sl__key *k, const sl_size *s, const void *sizes, char *text, size_t n) {
  sl_size_text(s, sizes, text, n);
  for (int i = 0; k->words && *text && k->words[i][0]; i++)
    if (strcmp(k->words[i][1], text) == 0) {
      snprintf(text, n, "%s", k->words[i][0]);
      break;
    }
  return text;
}

/* Appends the sizes that both a and b state and that differ. If `fewer` is 1, b may have fewer positions. */
static void compare_sizes(const sl_format *f, const void *a, const void *b, const char *other, int fewer,
                          char text[512]) {
  for (const sl__key *k = f->keys; k->size; k++) {
    const sl_size *s = sl_size_find(f->family->sizes, k->size);
    char mine[128], theirs[128];
    if (!s || sl_size_equal(s, a, b)) continue;
    if (!*shown(k, s, a, mine, sizeof mine) || !*shown(k, s, b, theirs, sizeof theirs)) continue;
    if (fewer && strcmp(s->name, "positions") == 0 && atoll(mine) > atoll(theirs)) continue;
    differ(text, name_of(k), mine, other, theirs);
  }
}

sl_status sl_config_take_measured(sl_config *c, const char *path, const sl_config *measured) {
  const sl_format *f = c->format;
  char text[512] = "";
  for (const sl__key *k = f->keys; k->size; k++) {
    const sl_size *s = sl_size_find(f->family->sizes, k->size);
    char said[128];
    if (!s || k->how == SL__UNSEEN) continue;
    const int list = s->kind == SL_SIZE_LIST;
    void *to = (char *)c->sizes + s->offset;
    const void *from = (const char *)measured->sizes + s->offset;
    if ((k->how == SL__EXISTS || k->how == SL__LACKS || k->how == SL__IS) && k->name &&
        memcmp(to, from, sizeof(int64_t)) != 0) {
      differ(text, k->name, *(int64_t *)to ? k->words[0][0] : k->words[1][0], "but in the tensors it is",
             *(const int64_t *)from ? k->words[0][0] : k->words[1][0]);
    } else if (*(const int64_t *)from && (!k->name || !*sl_size_text(s, c->sizes, said, sizeof said))) {
      memcpy(to, from, (list ? SL_SIZE_LIST_MOST : 1) * sizeof(int64_t));
    } else if (*(const int64_t *)from && !sl_size_equal(s, c->sizes, measured->sizes)) {
      char theirs[128];
      differ(text, k->name, said, "but in the tensors it is", sl_size_text(s, measured->sizes, theirs, sizeof theirs));
    }
  }
  differ_in_number(text, "num_channels", c->channels, "but in the tensors it is", measured->channels);
  return *text ? sl_fail(SL_EFORMAT, "%s does not fit the weights beside it: %s", path, text) : SL_OK;
}

sl_status sl_config_compare(const sl_config *file, const char *path, const sl_model *model, const sl_model_data *data) {
  char text[512] = "";
  if (file->format->family != model->family)
    return sl_fail(SL_ESHAPE, "%s describes a %s network, but %s is not one", path, file->format->family->name,
                   model->name);
  const sl_model theirs = {.name = file->format->name, .family = model->family, .sizes = file->sizes};
  sl_model *mine, *whole = NULL;
  SL_TRY(sl_model_complete(model, &mine));
  const sl_status status = sl_model_complete(&theirs, &whole);
  if (status == SL_OK) compare_sizes(file->format, whole->sizes, mine->sizes, "the network's", 1, text);
  free(mine), free(whole);
  SL_TRY(status);
  differ_in_number(text, "the images' height", file->height, "the network's", data->height);
  differ_in_number(text, "the images' width", file->width, "the network's", data->width);
  differ_in_number(text, "num_channels", file->channels, "the network's", data->channels);
  return *text ? sl_fail(SL_ESHAPE, "%s does not fit %s: %s", path, model->name, text) : SL_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* If config.json has no key for a size, the size must have the value that is derived from the other sizes. */
static sl_status check_unsaid(const sl_format *f, const sl_model *whole) {
  sl_status status = SL_OK;
  sl_model *open, *derived = NULL;
  SL_TRY(sl_model_sized(whole, NULL, &open));
  for (const sl__key *k = f->keys; k->size; k++) {
    const sl_size *s = k->name ? NULL : sl_size_find(f->family->sizes, k->size);
    if (s)
      memset((char *)open->sizes + s->offset, 0, (s->kind == SL_SIZE_LIST ? SL_SIZE_LIST_MOST : 1) * sizeof(int64_t));
  }
  SL_TRY_OUT(sl_model_complete(open, &derived));
  for (const sl__key *k = f->keys; k->size; k++) {
    const sl_size *s = k->name ? NULL : sl_size_find(f->family->sizes, k->size);
    char mine[128], theirs[128];
    if (s && !sl_size_equal(s, derived->sizes, whole->sizes))
      SL_TRY_OUT(sl_fail(SL_EUNSUPPORTED, "%s's %s cannot express %s=%s, only %s", f->library, f->name, s->name,
                         sl_size_text(s, whole->sizes, mine, sizeof mine),
                         sl_size_text(s, derived->sizes, theirs, sizeof theirs)));
  }
out:
  free(open), free(derived);
  return status;
}

static json_t *key_to_json(const sl__key *k, const sl_size *s, const sl_model *whole, const sl_model_data *data) {
  char text[128];
  if (strcmp(k->size, SL__CHANNELS) == 0) return json_integer(data->channels);
  if (strcmp(k->size, SL__IMAGE) == 0)
    return data->height == data->width ? json_integer(data->height)
                                       : json_pack("[I, I]", (json_int_t)data->height, (json_int_t)data->width);
  if (strcmp(k->size, "vocabulary") == 0) return json_integer(data->classes);
  sl_size_text(s, whole->sizes, text, sizeof text);
  for (int i = 0; k->words && k->words[i][0]; i++)
    if (strcmp(k->words[i][1], text) == 0)
      return is_boolean(k) ? json_boolean(strcmp(k->words[i][0], "true") == 0) : json_string(k->words[i][0]);
  return sl_size_to_json(s, whole->sizes);
}

static sl_status set_fixed(json_t *json, const sl__fixed *keys) {
  for (const sl__fixed *k = keys; k->name; k++) {
    json_t *value;
    SL_TRY(sl_json_parse(k->value, strlen(k->value), JSON_DECODE_ANY, &value, NULL));
    json_object_set_new(json, k->name, value);
  }
  return SL_OK;
}

sl_status sl_config_to_json(const sl_format *f, const sl_model *model, const sl_model_data *data,
                            char *const *label_names, json_t **result) {
  sl_model *whole;
  sl_status status = SL_OK;
  json_t *json = NULL;
  *result = NULL;
  SL_TRY(sl_model_complete(model, &whole));
  SL_TRY_OUT(check_unsaid(f, whole));
  json =
      json_pack("{s:[s], s:s, s:s}", "architectures", f->architecture, "model_type", f->name, "torch_dtype", "float32");
  for (const sl__key *k = f->keys; k->size; k++)
    if (k->name)
      json_object_set_new(json, k->name, key_to_json(k, sl_size_find(f->family->sizes, k->size), whole, data));
  SL_TRY_OUT(set_fixed(json, f->fixed));
  SL_TRY_OUT(set_fixed(json, f->written));
  if (f->labels && data->classes > 0) {
    json_t *names = json_object(), *numbers = json_object();
    for (int64_t i = 0; i < data->classes; i++) {
      char key[24], label[40];
      snprintf(key, sizeof key, "%lld", (long long)i);
      snprintf(label, sizeof label, "LABEL_%lld", (long long)i);
      const char *name = label_names ? label_names[i] : label;
      json_object_set_new(names, key, json_string(name));
      json_object_set_new(numbers, name, json_integer(i));
    }
    json_object_set_new(json, "id2label", names);
    json_object_set_new(json, "label2id", numbers);
  }
  *result = json;
  if (!json) status = sl_no_memory("for a config.json");
out:
  free(whole);
  return status;
}
