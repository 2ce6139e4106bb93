/* Reads options from the keys of a YAML file. */
#include <stdio.h>
#include <string.h>

#include "tools/settings/nearest.h"
#include "tools/settings/table.h"
#include "tools/settings/yaml_document.h"

/* Whether the option names a program to start or hosts on which to start it. Files may not set these, because a file
 * may come from someone else. */
static int starts_something(const sl__setting *s) { return sl__is(s, mpiexec) || sl__is(s, hosts); }

static sl_status set_key(unsigned commands, sl__options *options, const char *where, const char *key,
                         const char *value) {
  const char *names[SL__SETTINGS_MOST];
  char suggestion[128];
  if (sl__same_name("model", key)) return sl__set_text(&options->model, value);
  int known = 0;
  for (const sl__setting *s = sl__settings; s < sl__settings + sl__settings_count; s++) {
    if (!sl__same_name(s->s.option, key) || sl__is(s, help)) continue;
    if (sl__is(s, resume) || sl__is(s, config))
      return sl_fail(SL_EINVAL, "%s'%s' is for the command line only", where, key);
    if ((s->commands & commands) && starts_something(s))
      return sl_fail(SL_EINVAL, "%s'%s' is for the command line only: remove it here, and add --%s %s if you trust it",
                     where, key, s->s.option, value);
    if (s->commands & commands) return sl_setting_set(&s->s, options, where, value);
    known = 1;
  }
  if (known) return SL_OK; /* a file may serve several commands: keys of the others are left alone */
  return sl_fail(SL_EINVAL, "%sunknown key '%s'%s", where, key,
                 sl__suggestion(key, names, sl__names_of(commands, names, 1), suggestion, sizeof suggestion));
}

/* Appends a plain value, or a list of plain values as "3-4-6-3". Returns whether it was one of these. */
static int append(yaml_document_t *document, const yaml_node_t *value, char *text, size_t n) {
  if (value->type == YAML_SCALAR_NODE) {
    snprintf(text + strlen(text), n - strlen(text), "%s", (const char *)value->data.scalar.value);
    return 1;
  }
  if (value->type != YAML_SEQUENCE_NODE) return 0;
  for (yaml_node_item_t *item = value->data.sequence.items.start; item < value->data.sequence.items.top; item++) {
    const yaml_node_t *one = yaml_document_get_node(document, *item);
    if (one->type != YAML_SCALAR_NODE) return 0;
    snprintf(text + strlen(text), n - strlen(text), "%s%s", item > value->data.sequence.items.start ? "-" : "",
             (const char *)one->data.scalar.value);
  }
  return 1;
}

/* Writes a section, {layers: 6, blocks: [1, 2]}, as "layers=6,blocks=1-2". Returns whether it has only plain values and
 * lists. */
static int join(yaml_document_t *document, const yaml_node_t *section, char *text, size_t n) {
  *text = 0;
  for (yaml_node_pair_t *pair = section->data.mapping.pairs.start; pair < section->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(document, pair->key);
    if (key->type != YAML_SCALAR_NODE) return 0;
    snprintf(text + strlen(text), n - strlen(text), "%s%s=", *text ? "," : "", (const char *)key->data.scalar.value);
    if (!append(document, yaml_document_get_node(document, pair->value), text, n)) return 0;
  }
  return strlen(text) + 1 < n;
}

static sl_status set_keys(unsigned commands, sl__options *options, const char *path, yaml_document_t *document) {
  yaml_node_t *root = yaml_document_get_root_node(document);
  if (!root) return SL_OK; /* an empty file */
  if (root->type != YAML_MAPPING_NODE)
    return sl_fail(SL_EINVAL, "%s: the file must map options to values ('batch: 256')", path);
  for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(document, pair->key),
                      *value = yaml_document_get_node(document, pair->value);
    char where[512], joined[1024];
    snprintf(where, sizeof where, "%s, line %zu: ", path, key->start_mark.line + 1);
    const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";
    const int section = value->type == YAML_MAPPING_NODE && sl__same_name("size", name);
    if (key->type != YAML_SCALAR_NODE || (value->type != YAML_SCALAR_NODE && !section))
      return sl_fail(SL_EINVAL, "%seach key needs one plain value; only size may be a section", where);
    if (section && !join(document, value, joined, sizeof joined))
      return sl_fail(SL_EINVAL, "%ssize must be a section of plain values and lists of them, such as {layers: 6}",
                     where);
    if (sl__yaml_twice(document, root, pair)) return sl_fail(SL_EINVAL, "%skey '%s' occurs twice", where, name);
    SL_TRY(set_key(commands, options, where, name, section ? joined : (const char *)value->data.scalar.value));
  }
  return SL_OK;
}

sl_status sl__read_yaml(unsigned commands, sl__options *options, const char *path, sl_file_reader *read) {
  yaml_document_t document;
  SL_TRY(sl__yaml_load(path, read, &document));
  const sl_status status = set_keys(commands, options, path, &document);
  yaml_document_delete(&document);
  return status;
}

sl_status sl__options_data_of(const char *path, char **data) {
  sl__options options;
  sl_status status = sl__set_defaults(SL__TRAIN, &options);
  if (status == SL_OK) status = sl__read_yaml(SL__TRAIN, &options, path, sl_file_read_regular);
  if (status == SL_OK && options.data) status = sl__set_text(data, options.data);
  sl__options_free(&options);
  return status;
}
