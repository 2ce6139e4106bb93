/* Writes machines as YAML, in the order of the table of keys. Numbers have nine digits, so that a description that is
 * read and written again stays the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "tools/machines/keys.h"

typedef struct writing {
  yaml_emitter_t emitter;
  FILE *to;
  char open[80]; /* the section that is being written: "gpu.link" */
  int fine;
} writing;

static int put_bytes(void *data, unsigned char *bytes, size_t n) {
  return fwrite(bytes, 1, n, ((writing *)data)->to) == n;
}

static void emit(writing *w, yaml_event_t *event, int made) {
  w->fine = w->fine && made && yaml_emitter_emit(&w->emitter, event);
}

static void put(writing *w, const char *text) {
  yaml_event_t event;
  emit(w, &event,
       yaml_scalar_event_initialize(&event, NULL, NULL, (yaml_char_t *)text, (int)strlen(text), 1, 1,
                                    YAML_ANY_SCALAR_STYLE));
}

static void put_number(writing *w, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", value);
  put(w, text);
}

static void open_section(writing *w) {
  yaml_event_t event;
  emit(w, &event, yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
}
static void close_section(writing *w) {
  yaml_event_t event;
  emit(w, &event, yaml_mapping_end_event_initialize(&event));
}

/* Closes and opens sections until the key's section is open. path: the key's. */
static void enter(writing *w, const char *path) {
  const char *last = strrchr(path, '.');
  const size_t n = last ? (size_t)(last - path) : 0;
  for (size_t open; (open = strlen(w->open)) > 0;) { /* until it is a beginning of the path */
    if (open <= n && strncmp(w->open, path, open) == 0 && (path[open] == '.' || open == n)) break;
    char *dot = strrchr(w->open, '.');
    *(dot ? dot : w->open) = 0;
    close_section(w);
  }
  for (size_t open; (open = strlen(w->open)) < n;) {
    const char *name = path + open + (open > 0);
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(name, "."), name);
    put(w, text);
    open_section(w);
    snprintf(w->open, sizeof w->open, "%.*s", (int)(name - path) + (int)strlen(text), path);
  }
}

static void put_extents(writing *w, const double *extent) {
  yaml_event_t event;
  emit(w, &event, yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE));
  for (int d = 0; d < 3 && extent[d] > 0; d++) put_number(w, extent[d]);
  emit(w, &event, yaml_sequence_end_event_initialize(&event));
}

int sl__machine_has_topology_of(const sl__machine_description *m, const sl__machine_key *key) {
  return key->set < SL__SET_FAT_TREE ||
         (m->network.latency > 0 && (int)m->network.topology == (int)(key->set - SL__SET_FAT_TREE) + SL__FAT_TREE);
}

/* Whether the description has the key: its field is not 0, and for keys of the network its topology is that one. */
static int has(const sl__machine_description *m, const sl__machine_key *key) {
  const void *field = (const char *)m + key->offset;
  if (!sl__machine_has_topology_of(m, key)) return 0;
  switch (key->kind) {
    case SL__KEY_NAME:
    case SL__KEY_TEXT:
      return *(const char *)field != 0;
    case SL__KEY_COUNT:
      return *(const int *)field > 0;
    case SL__KEY_TOPOLOGY:
      return m->network.latency > 0;
    default:
      return *(const double *)field > 0;
  }
}

static void put_key(writing *w, const sl__machine_description *m, const sl__machine_key *key) {
  const void *field = (const char *)m + key->offset;
  const char *name = strrchr(key->path, '.');
  enter(w, key->path);
  put(w, name ? name + 1 : key->path);
  switch (key->kind) {
    case SL__KEY_NAME:
    case SL__KEY_TEXT:
      put(w, field);
      break;
    case SL__KEY_COUNT:
      put_number(w, *(const int *)field);
      break;
    case SL__KEY_TOPOLOGY:
      put(w, sl__topology_names[*(const sl__topology *)field]);
      break;
    case SL__KEY_EXTENTS:
      put_extents(w, field);
      break;
    default:
      put_number(w, *(const double *)field / key->unit);
  }
}

sl_status sl__machine_to_yaml(const sl__machine_description *machine, char **text) {
  writing w = {.fine = 1};
  yaml_event_t event;
  size_t n;
  *text = NULL;
  w.to = open_memstream(text, &n);
  if (!w.to) return sl_no_memory("for the machine as YAML");
  if (!yaml_emitter_initialize(&w.emitter)) {
    fclose(w.to), free(*text), *text = NULL;
    return sl_no_memory("for the machine as YAML");
  }
  yaml_emitter_set_output(&w.emitter, put_bytes, &w);
  yaml_emitter_set_unicode(&w.emitter, 1);
  yaml_emitter_set_width(&w.emitter, 100);
  emit(&w, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
  emit(&w, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
  open_section(&w);
  for (int k = 0; k < sl__machine_keys_count; k++)
    if (has(machine, &sl__machine_keys[k])) put_key(&w, machine, &sl__machine_keys[k]);
  enter(&w, "");
  close_section(&w);
  emit(&w, &event, yaml_document_end_event_initialize(&event, 1));
  emit(&w, &event, yaml_stream_end_event_initialize(&event));
  yaml_emitter_delete(&w.emitter);
  if (fclose(w.to) == 0 && w.fine) return SL_OK;
  free(*text), *text = NULL;
  return sl_no_memory("for the machine as YAML");
}

sl_status sl__network_to_yaml(const sl__network_description *network, char **text) {
  return sl__machine_to_yaml(&(sl__machine_description){.network = *network}, text);
}
